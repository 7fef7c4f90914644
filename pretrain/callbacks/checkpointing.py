"""When checkpoints are written; what one is, is in `pretrain.checkpoints`. Must not import deepspeed."""

import logging
from dataclasses import replace
from pathlib import Path

from pretrain.checkpoints import CheckpointFolder, RunState
from pretrain.trainer import Callback, Ending, StepResult, Trainer

logger = logging.getLogger(__name__)


class Checkpointing(Callback):
    """Saves every `checkpoint_every` steps and at the end. `run` holds what does not change during a run."""

    def __init__(self, folder: CheckpointFolder, run: RunState, saved_step: int) -> None:
        self._folder, self._run, self._saved_step = folder, run, saved_step

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        """Save, if it is time."""
        every = trainer.options.checkpoint_every
        if every and trainer.progress.step % every == 0:
            self._save(trainer)

    def on_end(self, trainer: Trainer, ending: Ending) -> None:
        """Save the last step, whatever ended the run."""
        if self._saved_step != trainer.progress.step:
            self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        with trainer.clock.paused():
            full = trainer.engine.full_state()
            now = trainer.progress
            state = replace(
                self._run,
                step=now.step,
                samples=now.samples,
                tokens=now.tokens,
                elapsed=trainer.clock.elapsed(),
                updates=full.updates,
            )

            def write() -> Path:
                return self._folder.save(state, full.weights, full.optimizer, trainer.options.keep_last)

            path = trainer.group.from_main(write)
        self._saved_step = now.step
        if trainer.group.ranks.is_main:
            logger.info("step %d: saved %s", now.step, path)
