"""The `trainer` group: batch sizes, budget, intervals and limits of a run, checked when they are read.

Must not import torch: a wrong number is told before anything heavy starts.
"""

import os
from dataclasses import dataclass
from typing import Literal

from conf.errors import InputError
from pretrain.budget import UNITS, Budget

_AT_LEAST = {
    "global_batch_size": 1,
    "micro_batch_size": 1,
    "log_every": 1,
    "keep_last": 1,
    "max_skips_in_a_row": 1,
    "checkpoint_every": 0,
    "keep_best": 0,
    "loader_workers": 0,
    "validation_every": 0,
    "validation_rows": 0,
    "gradient_clipping": 0,
    "save_before_end_seconds": 0,
}
_ABOVE_0 = (
    "max_seconds",
    "checkpoint_minutes",
    "keep_every",
    "skip_sigmas",
    "stall_seconds",
    "hang_seconds",
    "time_limit_minutes",
    "threads",
    "peak_flops",
)
_LONGEST_TIMEOUT = 30 * 86400


@dataclass(frozen=True)
class TrainerOptions:
    """Batch sizes count rows, intervals count optimiser steps; 0 switches an interval off.

    The budget is ONE of `max_steps`, `max_tokens` and `max_hours` (the other two null); schedule and stages run in
    its unit. `max_seconds` (of all sessions of a run together) ends it early, after a checkpoint. What each option
    does is said beside it in `conf/trainer/default.yaml`.
    """

    global_batch_size: int
    micro_batch_size: int
    max_steps: float | None = None
    max_tokens: float | None = None
    max_hours: float | None = None
    max_seconds: float | None = None
    gradient_clipping: float = 1.0
    skip_sigmas: float | None = None
    max_skips_in_a_row: int = 20
    loader_workers: int = 0
    stall_seconds: float | None = 60.0
    log_every: int = 10
    gradient_noise: bool = False
    find_nonfinite: bool = False
    peak_flops: float | None = None
    checkpoint_every: int = 500
    checkpoint_minutes: float | None = None
    keep_last: int = 2
    keep_best: int = 0
    keep_best_by: Literal["loss", "bleu", "chrf"] = "loss"
    keep_every: int | None = None
    validation_every: int = 500
    validation_rows: int = 1024
    time_limit_minutes: float | None = None
    save_before_end_seconds: float = 120.0
    hang_seconds: float | None = 600.0
    threads: int | None = None
    collective_timeout_seconds: float = 600.0

    def __post_init__(self) -> None:
        """Raise InputError for a number out of its range, or not exactly one budget."""
        for name, least in _AT_LEAST.items():
            if getattr(self, name) < least:
                raise InputError(f"trainer.{name} must be at least {least}, but is {getattr(self, name)}.")
        for name in _ABOVE_0:
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InputError(f"trainer.{name} must be above 0, but is {value}.")
        if not 1 <= self.collective_timeout_seconds <= _LONGEST_TIMEOUT:
            raise InputError(
                f"trainer.collective_timeout_seconds must be from 1 to {_LONGEST_TIMEOUT} (a month), but is "
                f"{self.collective_timeout_seconds:g}."
            )
        if self.keep_best and not (self.validation_every and self.validation_rows):
            raise InputError(
                f"trainer.keep_best={self.keep_best} needs validation, but trainer.validation_every is "
                f"{self.validation_every} and trainer.validation_rows is {self.validation_rows}."
            )
        cores = os.cpu_count() or 1
        if self.threads is not None and self.threads > cores:
            raise InputError(f"trainer.threads must be at most the {cores} cores there are, but is {self.threads}.")
        if self.max_steps is not None:
            if self.max_steps != int(self.max_steps):
                raise InputError(f"trainer.max_steps must be a whole number, but is {self.max_steps}.")
            object.__setattr__(self, "max_steps", int(self.max_steps))  # 1e4 is one too
        _ = self.budget

    @property
    def budget(self) -> Budget:
        """The one budget that is given. Raises InputError for none, several, or one below its least amount."""
        given = {unit: getattr(self, f"max_{unit}") for unit in UNITS if getattr(self, f"max_{unit}") is not None}
        if len(given) != 1:
            found = " and ".join(f"trainer.max_{unit}={amount}" for unit, amount in given.items()) or "none"
            raise InputError(
                f"the budget must be one of trainer.max_steps, trainer.max_tokens and trainer.max_hours, but found "
                f"{found}: {'set the others to null' if given else 'set one of them'}."
            )
        ((unit, amount),) = given.items()
        if amount <= 0 or (unit != "hours" and amount < 1):
            least = "above 0" if unit == "hours" else "at least 1"
            raise InputError(f"trainer.max_{unit} must be {least}, but is {amount}.")
        return Budget(unit, float(amount))
