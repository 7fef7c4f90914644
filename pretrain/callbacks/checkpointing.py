"""When checkpoints are written, and that training goes on meanwhile; what one is, is in `pretrain.checkpoints`.

At a step border the ranks gather the state on rank 0's host; a thread there writes it. The thread makes no collective
call. Must not import deepspeed.
"""

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pretrain.checkpoints import CheckpointFolder, Keep, RunState, by_loss
from pretrain.trainer import Callback, Ending, StepResult, Trainer

logger = logging.getLogger(__name__)

# How long a rank waits for another's disk in one collective call, far below any collective timeout.
_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Written:
    """A checkpoint that a thread wrote in `seconds`."""

    path: Path
    seconds: float


class Checkpointing(Callback):
    """Saves every `checkpoint_every` and `keep_every` steps, every `checkpoint_minutes`, when the validation loss is
    among the `keep_best` lowest, and at the end.

    A save holds training up only while the state is copied to the host (and while the save before is not done, so
    that there is one copy at a time). What became of it is told to all ranks at steps that are multiples of
    `log_every`, at the next save and at the end: a failed write ends the run on all ranks there, and while none is
    under way nothing is exchanged. What is due at a step that was skipped waits for the next that was not: a run whose
    steps are all skipped does not push out the checkpoints from before its trouble.

    `run` holds what does not change during a run; `saved_step` is the step that already lies on disk, -1 if none; with
    `save_at_start` the state is saved before the first step (a fork: its source may go away). Call `close` however the
    run ends.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        run: RunState,
        saved_step: int,
        *,
        save_at_start: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._run, self._saved_step = folder, run, saved_step
        self._save_at_start, self._now = save_at_start, now
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._write: Future[Written] | None = None  # rank 0 only
        self._due = False
        self._pending = False  # whether a write is under way, as far as all ranks have agreed
        self._held = 0.0
        self._losses: dict[int, float | None] = {}
        self._last_save = now()
        if saved_step >= 0:
            folder.trust(saved_step)

    def on_start(self, trainer: Trainer) -> None:
        """Learn which validation losses the checkpoints on disk have; save, if asked to."""
        found, step = trainer.group.from_main(self._folder.losses), trainer.progress.step
        self._losses = {saved: loss for saved, loss in found.items() if saved <= step}  # later ones are damaged
        self._last_save = self._now()
        if self._save_at_start:
            self._save(trainer)

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        """Hear how the write under way is doing, and save, if it is time."""
        options, step = trainer.options, trainer.progress.step
        if step % options.log_every == 0 and (self._pending or options.checkpoint_minutes is not None):
            self._due |= self._look(trainer)
        self._due |= any(every and step % every == 0 for every in (options.checkpoint_every, options.keep_every))
        if (self._due and result.skipped is None) or self._is_among_best(trainer):
            self._save(trainer)

    def on_end(self, trainer: Trainer, ending: Ending) -> None:
        """Save the last step, whatever ended the run, and wait until all is on disk."""
        loss = self._loss_now(trainer)
        if self._saved_step != trainer.progress.step:
            self._save(trainer)
        elif loss is not None and self._losses.get(self._saved_step) is None:
            # Validation at the end measured a step that was already saved.
            self._wait(trainer)
            trainer.group.from_main(partial(self._folder.note_validation, self._saved_step, loss))
        with trainer.clock.paused():
            self._wait(trainer)

    def close(self) -> None:
        """Wait for the write under way, so that no thread writes once the run directory is given free."""
        self._thread.shutdown(wait=True)
        if self._write is not None and (error := self._write.exception()) is not None:
            logger.error("the last checkpoint was not written: %s", error)

    def _is_among_best(self, trainer: Trainer) -> bool:
        step, loss = trainer.progress.step, self._loss_now(trainer)
        return step in by_loss({**self._losses, step: loss})[: trainer.options.keep_best]

    @staticmethod
    def _loss_now(trainer: Trainer) -> float | None:
        """Return the validation loss of this very step, if it was measured."""
        if trainer.validation is None or trainer.validation[0] != trainer.progress.step:
            return None
        return trainer.validation[1]

    def _save(self, trainer: Trainer) -> None:
        start = self._now()
        with trainer.clock.paused():
            self._wait(trainer)  # before the state is copied: never two copies
            trainer.in_phase("gathering the state for a checkpoint")
            full = trainer.engine.full_state()
        now, options = trainer.progress, trainer.options
        loss = self._loss_now(trainer)
        losses = trainer.group.gather(trainer.losses.state())
        state = replace(
            self._run,
            step=now.step,
            skipped=now.skipped,
            skipped_tokens=now.skipped_tokens,
            samples=now.samples,
            tokens=now.tokens,
            consumed=dict(now.consumed),
            elapsed=trainer.clock.elapsed(),
            updates=full.updates,
            recent_norms=list(trainer.recent_norms),
            losses=losses,
            validation=loss if loss is not None and math.isfinite(loss) else None,
        )
        keep = Keep(options.keep_last, options.keep_best, options.keep_every)

        def write() -> Written:
            begin = self._now()
            path = self._folder.save(state, full.weights, full.optimizer, keep)
            return Written(path, self._now() - begin)

        if trainer.group.ranks.is_main:
            self._write = self._thread.submit(write)
        self._pending, self._due, self._saved_step = True, False, now.step
        self._losses[now.step] = state.validation
        kept = keep.of(self._losses)
        self._losses = {step: loss for step, loss in self._losses.items() if step in kept}
        self._last_save = self._now()
        self._held = self._last_save - start

    def _look(self, trainer: Trainer) -> bool:
        """Tell all ranks how the write is doing (raising on all what it raised); return whether `checkpoint_minutes`
        are over."""
        minutes = trainer.options.checkpoint_minutes

        def look() -> tuple[bool, bool]:
            over = minutes is not None and self._now() - self._last_save >= 60 * minutes
            return self._is_written(0.0), over

        written, over = trainer.group.from_main(look)
        self._pending = self._pending and not written
        return over

    def _wait(self, trainer: Trainer) -> None:
        """Wait on all ranks until the write under way is done, in calls too short for a collective timeout."""
        while self._pending:
            trainer.in_phase("waiting for the checkpoint to be written")
            self._pending = not trainer.group.from_main(partial(self._is_written, _PATIENCE_SECONDS))

    def _is_written(self, patience: float) -> bool:
        """Rank 0: whether no write is under way, after up to `patience` seconds. Raises what the write raised."""
        write = self._write
        if write is None:
            return True
        if not wait([write], timeout=patience).done:
            return False
        self._write = None
        done = write.result()
        logger.info(
            "saved %s: training stood still for %.2f s, the write took %.2f s", done.path, self._held, done.seconds
        )
        return True
