"""The training loop. What is not the loop is a callback; what is a rule is a pure function elsewhere.

Must not import deepspeed (see `engine.py`) or know any objective.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from conf.errors import InputError
from pretrain.budget import Budget, Progress
from pretrain.callbacks.throughput import Clock
from pretrain.data.counter import derive_key
from pretrain.data.loader import Layout, Loader
from pretrain.distributed import Group
from pretrain.engine import StepOutcome, TrainingEngine
from pretrain.loss_sums import LossSums
from pretrain.objectives import MicroBatch
from pretrain.options import TrainerOptions
from pretrain.spikes import SpikeRule
from pretrain.stages import StagePlan, stage_at

logger = logging.getLogger(__name__)

NO_TARGETS = "none of its rows has a target (rows of skip_rows have none)"
Ending = Literal["finished", "out of time", "preempted"]


@dataclass(frozen=True)
class StepResult:
    """One optimiser step: this rank's summed losses by name (on the device, not synced), and what all ranks agreed on.

    `counts` are the global sums of target weights by loss name, `tokens` the global count of real tokens; `skipped` is
    the reason why the step changed nothing, None if it did.
    """

    losses: dict[str, torch.Tensor]
    counts: dict[str, float]
    tokens: int
    skipped: str | None


@dataclass(frozen=True)
class Stage:
    """A stage in use: its plan, its batches' split over ranks, its loader, and the key under which rows are counted.

    `validation` makes this rank's share of the held-out batches anew at each call; None where there are none. `scores`
    measures a model by other figures than losses on held-out data, a collective call that says now and then that it
    goes on; None where there are none. `flops_per_token` are those of forward and backward pass, for the MFU.
    """

    plan: StagePlan
    layout: Layout
    loader: Loader
    data_key: str
    validation: Callable[[], Iterator[MicroBatch[Any]]] | None = None
    flops_per_token: float = 0.0
    scores: Callable[[TrainingEngine, Group, Callable[[], None]], dict[str, float]] | None = None


@dataclass(frozen=True)
class Status:
    """What this rank is doing, for the watchdog's thread: `since` is a time of `time.monotonic`."""

    step: int
    phase: str
    since: float


@dataclass(frozen=True)
class Agreement:
    """What the ranks told each other before a step; `seconds` is rank 0's clock."""

    counts: dict[str, float]
    tokens: int
    stop: bool
    late: bool
    seconds: float


class Callback:
    """What happens around the loop. All ranks call all hooks at the same step, so a hook may be a collective call."""

    def on_start(self, trainer: "Trainer") -> None:
        """Called once, before the first step."""

    def on_stage(self, trainer: "Trainer", stage: Stage) -> None:
        """Called when a stage is entered, before its first step (of this session)."""

    def on_step(self, trainer: "Trainer", result: StepResult) -> None:
        """Called after each step; `trainer.progress` already counts it."""

    def on_end(self, trainer: "Trainer", ending: Ending) -> None:
        """Called once, after the last step of a run that ends without an error."""


@dataclass
class Trainer:
    """A run in progress. `wants_stop` is asked on every rank before each step: whether a signal came here.

    `schedule` is asked with the budget's position before an update, its size, and the total (see `optim.schedules`).

    `validation` is the step of the last validation, and the figure by which a checkpoint is among the best (lower is
    better: the main loss, or a score times -1); `spikes` the rule that skips steps, if there is
    one; `peak_flops` (of all ranks) what an MFU is a share of; `losses` are those of the steps since the last log line.
    """

    options: TrainerOptions
    engine: TrainingEngine
    stages: Sequence[Stage]
    loss_names: Sequence[str]
    schedule: Callable[[float, float, float], float]
    group: Group
    seed: int
    wants_stop: Callable[[], bool]
    callbacks: Sequence[Callback] = ()
    progress: Progress = field(default_factory=Progress)
    clock: Clock = field(default_factory=Clock)
    spikes: SpikeRule | None = None
    validation: tuple[int, float] | None = None
    peak_flops: float | None = None
    losses: LossSums = field(default_factory=LossSums)
    status: Status = field(default_factory=lambda: Status(0, "starting", time.monotonic()))
    stage: Stage = field(init=False)
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        """Start where `progress` and `clock` are."""
        self._skips_in_a_row = 0
        self.resume(self.progress, self.clock)

    def resume(self, progress: Progress, clock: Clock) -> None:
        """Go on from what a checkpoint says of an earlier session."""
        self.progress, self.clock = progress, clock
        self.seconds = self.group.from_main(clock.elapsed)
        self.stage = self._stage_now()

    @property
    def budget(self) -> Budget:
        """The run's budget, in whose unit schedule and stages run."""
        return self.options.budget

    @property
    def recent_norms(self) -> list[float]:
        """What the rule for skipped steps remembers."""
        return self.spikes.recent if self.spikes is not None else []

    @property
    def is_finished(self) -> bool:
        """Whether the budget is used up."""
        return self.budget.schedule_position(self.progress, self.seconds) >= self.budget.total

    @property
    def loader(self) -> Loader:
        """The loader of the stage in use."""
        return self.stage.loader

    @property
    def flops_per_token(self) -> float:
        """FLOPs of forward and backward pass for each real token of the stage in use."""
        return self.stage.flops_per_token

    @property
    def first_sample(self) -> int:
        """How many rows of the present stage's data the run has used."""
        return self.progress.consumed.get(self.stage.data_key, 0)

    def fit(self) -> Ending:
        """Train to the end of the budget, or until the ranks agree to stop."""
        self._tell("on_start")
        first_step = self.progress.step
        ending: Ending = "finished"
        with contextlib.ExitStack() as open_loader:
            batches = self._enter(self._stage_now(), open_loader)
            while not self.is_finished:
                if self._stage_now() is not self.stage:
                    batches = self._enter(self._stage_now(), open_loader)
                self.in_phase("waiting for data")
                micro_batches = next(batches)
                self.in_phase("agreeing with the other ranks")
                agreed = self._agree(micro_batches)
                if agreed.stop or agreed.late:
                    ending = "preempted" if agreed.stop else "out of time"
                    break
                if self.is_finished:  # of a budget in hours, which the agreement has just told
                    break
                self._tell("on_step", self._step(micro_batches, agreed))
        if ending == "out of time" and self.group.ranks.is_main:
            steps = self.progress.step, self.progress.step - first_step
            logger.info(self.budget.sentence_of_the_end(self.options.max_seconds or 0.0, self.seconds, *steps))
        self._tell("on_end", ending)
        return ending

    def in_phase(self, phase: str) -> None:
        """Note what this rank does from now on."""
        self.status = Status(self.progress.step, phase, time.monotonic())

    def _tell(self, hook: str, *arguments: object) -> None:
        for callback in self.callbacks:
            self.in_phase(type(callback).__name__.lower())
            getattr(callback, hook)(self, *arguments)

    def _stage_now(self) -> Stage:
        ends = [stage.plan.end for stage in self.stages]
        return self.stages[stage_at(ends, self.budget.data_position(self.progress, self.seconds), self.budget.total)]

    def _enter(self, stage: Stage, open_loader: contextlib.ExitStack) -> Generator[list[MicroBatch[Any]], None, None]:
        """Close the loader of the stage before, tell the callbacks, and return the new stage's batches."""
        open_loader.close()
        self.stage = stage
        self._tell("on_stage", stage)
        return open_loader.enter_context(contextlib.closing(stage.loader.steps(self.first_sample)))

    def _agree(self, micro_batches: Sequence[MicroBatch[Any]]) -> Agreement:
        """Sum over ranks: target weights, real tokens and votes to stop; rank 0 alone speaks for the time."""
        limit, elapsed = self.options.max_seconds, self.clock.elapsed()
        main = self.group.ranks.is_main
        *counts, tokens, stop, late, seconds = self.group.sum(
            [
                *(sum(micro_batch.counts[name] for micro_batch in micro_batches) for name in self.loss_names),
                sum(micro_batch.tokens for micro_batch in micro_batches),
                float(self.wants_stop()),
                float(main and limit is not None and elapsed >= limit),
                elapsed if main else 0.0,
            ]
        )
        self.seconds = seconds
        return Agreement(dict(zip(self.loss_names, counts, strict=True)), int(tokens), bool(stop), bool(late), seconds)

    def _step(self, micro_batches: Sequence[MicroBatch[Any]], agreed: Agreement) -> StepResult:
        self.in_phase("forward, backward and update")
        progress, layout = self.progress, self.stage.layout
        factor = self.schedule(
            self.budget.schedule_position(progress, self.seconds),
            self.budget.size_of_step(agreed.tokens, progress, self.seconds),
            self.budget.total,
        )
        if any(agreed.counts.values()):
            outcome = self.engine.train_step(
                [micro_batch.batch for micro_batch in micro_batches],
                counts=agreed.counts,
                rate_factor=factor,
                seeds=self._dropout_seeds(len(micro_batches)),
            )
        else:  # an update would still decay weights and move by old momentum
            outcome = StepOutcome({}, NO_TARGETS)
        first = self.first_sample
        progress.step += 1
        progress.samples += layout.global_batch_size
        progress.tokens += agreed.tokens
        progress.consumed[self.stage.data_key] = first + layout.global_batch_size
        if outcome.skipped is not None:
            progress.skipped += 1
            progress.skipped_tokens += agreed.tokens
        self._note_skip(outcome.skipped)
        return StepResult(outcome.losses, agreed.counts, agreed.tokens, outcome.skipped)

    def _note_skip(self, reason: str | None) -> None:
        """Log a skipped step; raise InputError on all ranks when too many follow each other."""
        self._skips_in_a_row = self._skips_in_a_row + 1 if reason is not None else 0
        if reason is None:
            return
        if self.group.ranks.is_main:
            logger.warning("step %d was skipped: %s", self.progress.step, reason)
        if self._skips_in_a_row >= self.options.max_skips_in_a_row:
            way_out = (
                "shorten the list of skip_rows, or raise trainer.max_skips_in_a_row"
                if reason == NO_TARGETS
                else "lower optimizer.lr or lengthen the warm-up, and start again from the last checkpoint or in "
                "another run_dir (trainer.max_skips_in_a_row are borne; trainer.find_nonfinite=true names the module "
                "of a NaN)"
            )
            raise InputError(
                f"the last {self._skips_in_a_row} steps were all skipped (step {self.progress.step}: {reason}): "
                f"{way_out}"
            )

    def _dropout_seeds(self, count: int) -> list[int]:
        """Return one seed a micro-step, from (seed, step, micro-step, rank): a resumed run drops the same units."""
        rank = self.group.ranks.rank
        return [
            int(derive_key("dropout", self.seed, self.progress.step, micro_step, rank)[0] >> 1)
            for micro_step in range(count)
        ]
