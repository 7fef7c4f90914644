"""The training loop. What is not the loop is a callback; what is a rule is a pure function elsewhere.

Must not import deepspeed (see `engine.py`) or know any objective.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from conf.errors import InputError
from pretrain.callbacks.throughput import Clock
from pretrain.data.counter import derive_key
from pretrain.data.loader import Loader
from pretrain.distributed import Group
from pretrain.engine import TrainingEngine
from pretrain.objectives import MicroBatch

Ending = Literal["finished", "out of time", "preempted"]


@dataclass(frozen=True)
class TrainerOptions:
    """The `trainer` group. Batch sizes count rows, intervals count optimiser steps; 0 switches an interval off.

    `max_seconds` (of all sessions of a run together) ends it early, after a checkpoint. `threads`: CPU threads of
    each rank (null: OMP_NUM_THREADS, or else its share of the cores).
    """

    max_steps: int
    global_batch_size: int
    micro_batch_size: int
    max_seconds: float | None = None
    gradient_clipping: float = 1.0
    log_every: int = 10
    checkpoint_every: int = 500
    keep_last: int = 2
    validation_every: int = 500
    validation_rows: int = 1024
    threads: int | None = None
    collective_timeout_seconds: float = 600.0

    def __post_init__(self) -> None:
        """Raise InputError for a number out of its range."""
        at_least = {"max_steps": 1, "global_batch_size": 1, "micro_batch_size": 1, "log_every": 1, "keep_last": 1}
        at_least |= {"checkpoint_every": 0, "validation_every": 0, "validation_rows": 0, "gradient_clipping": 0}
        for name, least in at_least.items():
            if getattr(self, name) < least:
                raise InputError(f"trainer.{name} must be at least {least}, but is {getattr(self, name)}.")
        for name in ("max_seconds", "threads", "collective_timeout_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InputError(f"trainer.{name} must be above 0, but is {value}.")

    def check_ranks(self, world_size: int) -> None:
        """Raise InputError unless the global batch is a whole number of micro-batches on every rank."""
        if self.global_batch_size % (self.micro_batch_size * world_size):
            raise InputError(
                f"trainer.global_batch_size must be a multiple of trainer.micro_batch_size * ranks = "
                f"{self.micro_batch_size} * {world_size}, but is {self.global_batch_size}."
            )


@dataclass
class Progress:
    """How far a run is: updates made, rows consumed, real tokens seen (all ranks, all sessions)."""

    step: int = 0
    samples: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class StepResult:
    """One optimiser step: this rank's summed loss (on the device, not synced) and counts over all ranks."""

    loss_sum: torch.Tensor
    targets: float
    tokens: int


class Callback:
    """What happens around the loop. All ranks call all hooks at the same step, so a hook may be a collective call."""

    def on_start(self, trainer: "Trainer") -> None:
        """Called once, before the first step."""

    def on_step(self, trainer: "Trainer", result: StepResult) -> None:
        """Called after each step; `trainer.progress` already counts it."""

    def on_end(self, trainer: "Trainer", ending: Ending) -> None:
        """Called once, after the last step of a run that ends without an error."""


@dataclass
class Trainer:
    """A run in progress. `wants_stop` is asked on every rank before each step: whether a signal came here."""

    options: TrainerOptions
    engine: TrainingEngine
    loader: Loader
    schedule: Callable[[int], float]
    group: Group
    seed: int
    wants_stop: Callable[[], bool]
    callbacks: Sequence[Callback] = ()
    progress: Progress = field(default_factory=Progress)
    clock: Clock = field(default_factory=Clock)

    def fit(self) -> Ending:
        """Train to the end of the budget, or until the ranks agree to stop."""
        for callback in self.callbacks:
            callback.on_start(self)
        ending: Ending = "finished"
        with contextlib.closing(self.loader.steps(self.progress.samples)) as batches:
            while self.progress.step < self.options.max_steps:
                micro_batches = next(batches)
                targets, tokens, stop, late = self._agree(micro_batches)
                if stop or late:
                    ending = "preempted" if stop else "out of time"
                    break
                loss_sum = self.engine.train_step(
                    [micro_batch.batch for micro_batch in micro_batches],
                    targets=targets,
                    rate_factor=self.schedule(self.progress.step),
                    seeds=self._dropout_seeds(len(micro_batches)),
                )
                self.progress.step += 1
                self.progress.samples += self.options.global_batch_size
                self.progress.tokens += int(tokens)
                for callback in self.callbacks:
                    callback.on_step(self, StepResult(loss_sum, targets, int(tokens)))
        for callback in self.callbacks:
            callback.on_end(self, ending)
        return ending

    def _agree(self, micro_batches: Sequence[MicroBatch]) -> list[float]:
        """Sum over ranks: target weights, real tokens, votes to stop, and rank 0's vote that time is over."""
        limit = self.options.max_seconds
        late = self.group.ranks.is_main and limit is not None and self.clock.elapsed() >= limit
        return self.group.sum(
            [
                sum(micro_batch.targets for micro_batch in micro_batches),
                sum(micro_batch.tokens for micro_batch in micro_batches),
                float(self.wants_stop()),
                float(late),
            ]
        )

    def _dropout_seeds(self, count: int) -> list[int]:
        """Return one seed a micro-step, from (seed, step, micro-step, rank): a resumed run drops the same units."""
        rank = self.group.ranks.rank
        return [
            int(derive_key("dropout", self.seed, self.progress.step, micro_step, rank)[0] >> 1)
            for micro_step in range(count)
        ]
