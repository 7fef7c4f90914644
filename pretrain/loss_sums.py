"""Losses added up on the device between two log lines, so that reading them waits for the device once a line only.

Must not import the trainer or deepspeed.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch

State = dict[str, list[float]]


class LossSums:
    """Losses by name, added up on the device over the steps that changed the weights."""

    def __init__(self) -> None:
        self._sums: dict[str, torch.Tensor] = {}
        self._counts: dict[str, float] = {}

    def add(self, losses: Mapping[str, torch.Tensor], counts: Mapping[str, float]) -> None:
        """Add this rank's sums and the weights they are over (of all ranks). Waits for nothing."""
        for name, loss in losses.items():
            self._sums[name] = self._sums[name] + loss if name in self._sums else loss
            self._counts[name] = self._counts.get(name, 0.0) + counts[name]

    def means(self, add_up: Callable[[list[float]], list[float]]) -> dict[str, float]:
        """Return the means by name; `add_up` sums over the ranks. Empty if no step was added."""
        if not self._sums:
            return {}
        names = list(self._sums)
        totals = add_up([self.state()[name][0] for name in names])
        return {name: total / max(self._counts[name], 1.0) for name, total in zip(names, totals, strict=True)}

    def clear(self) -> None:
        """Begin anew."""
        self._sums, self._counts = {}, {}

    def state(self) -> State:
        """Return name -> [this rank's sum, weight over all ranks]. Waits for the device."""
        if not self._sums:
            return {}
        sums = torch.stack([loss.double() for loss in self._sums.values()]).tolist()
        return {name: [total, self._counts[name]] for name, total in zip(self._sums, sums, strict=True)}

    def restore(self, states: Sequence[State], rank: int, world_size: int) -> None:
        """Go on from the states of all ranks of an earlier session: with as many ranks as then, to the bit; else rank 0
        takes what all had."""
        if len(states) == world_size:
            mine = states[rank]
        else:
            weights = {name: weight for name, (_, weight) in (states[0] if states else {}).items()}
            mine = {
                name: [math.fsum(state[name][0] for state in states) if rank == 0 else 0.0, weight]
                for name, weight in weights.items()
            }
        self._sums = {name: torch.tensor(total, dtype=torch.float32) for name, (total, _) in mine.items()}
        self._counts = {name: weight for name, (_, weight) in mine.items()}
