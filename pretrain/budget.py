"""How far a run is and how far it goes: in optimiser steps, tokens, or hours. Pure; must not import torch.

A run has two positions. The DATA position counts every batch, so that the batch of step i never depends on whether an
earlier one was skipped. The SCHEDULE position counts only batches that changed the weights, so that a skipped step
takes nothing off the warm-up, and a run of 10,000 steps makes 10,000 updates.
"""

from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["steps", "tokens", "hours"]
UNITS: tuple[Unit, ...] = ("steps", "tokens", "hours")
_HOUR = 3600.0


@dataclass
class Progress:
    """How far a run is, all ranks and sessions together.

    `step` counts batches, `skipped` those of them that changed nothing; `samples` rows, `tokens` real tokens (of
    skipped batches: `skipped_tokens`). `consumed` says how many rows were taken from each mixture (by its key).
    """

    step: int = 0
    skipped: int = 0
    samples: int = 0
    tokens: int = 0
    skipped_tokens: int = 0
    consumed: dict[str, int] = field(default_factory=dict)

    @property
    def updates(self) -> int:
        """Optimiser steps that changed the weights."""
        return self.step - self.skipped


@dataclass(frozen=True)
class Budget:
    """`total` units. A run ends when its schedule position reaches it."""

    unit: Unit
    total: float

    def data_position(self, progress: Progress, seconds: float) -> float:
        """Return how far the data is, in the unit; `seconds` is the time spent training, agreed by all ranks."""
        return {"steps": progress.step, "tokens": progress.tokens, "hours": seconds / _HOUR}[self.unit]

    def schedule_position(self, progress: Progress, seconds: float) -> float:
        """Return how far the schedule is: as the data, without what was skipped (time cannot be given back)."""
        if self.unit == "steps":
            return progress.updates
        if self.unit == "tokens":
            return progress.tokens - progress.skipped_tokens
        return seconds / _HOUR

    def sentence_of_the_end(self, limit: float, seconds: float, step: int, steps_made: int) -> str:
        """Say that a run ends at `step` after `seconds`, for `limit` seconds are what trainer.max_seconds allows it;
        `steps_made` are those of this session."""
        option = f"trainer.max_seconds={limit:.10g}"
        if not steps_made:
            return f"already trained {seconds:,.0f} s of {option}: raise it to go on"
        return f"ended by {option} at step {step}" + (f" of {self.total:.10g}" if self.unit == "steps" else "")

    def size_of_step(self, tokens: int, progress: Progress, seconds: float) -> float:
        """Return what the step about to be made takes of the budget: 1, its tokens, or the mean time of a step.

        The first step of a run in hours counts as one second: its time is not known yet.
        """
        if self.unit == "steps":
            return 1.0
        if self.unit == "tokens":
            return float(tokens)
        return (seconds / progress.step if progress.step else 1.0) / _HOUR
