"""The loss on held-out rows: a fixed number of rows, with masks that never change. Must not import deepspeed."""

import logging
from collections.abc import Callable, Iterator

from pretrain.callbacks.metrics import MetricsFile
from pretrain.objectives import MicroBatch
from pretrain.trainer import Callback, Ending, StepResult, Trainer

logger = logging.getLogger(__name__)


class Validation(Callback):
    """Measures every `validation_every` steps and at the end, unless `measured_step` has already been.

    `batches` yields this rank's share of the rows, anew at each call.
    """

    def __init__(
        self, batches: Callable[[], Iterator[MicroBatch]], file: MetricsFile | None, measured_step: int
    ) -> None:
        self._batches, self._file, self._last_step = batches, file, measured_step

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        """Measure, if it is time."""
        every = trainer.options.validation_every
        if every and trainer.progress.step % every == 0:
            self._measure(trainer)

    def on_end(self, trainer: Trainer, ending: Ending) -> None:
        """Measure the finished model; a preempted run has no time for it."""
        if trainer.options.validation_every and ending != "preempted" and self._last_step != trainer.progress.step:
            self._measure(trainer)

    def _measure(self, trainer: Trainer) -> None:
        self._last_step = trainer.progress.step
        with trainer.clock.paused():
            targets, total = 0.0, 0.0
            for micro_batch in self._batches():
                targets += micro_batch.targets
                total += float(trainer.engine.evaluate(micro_batch.batch))
            targets, total = trainer.group.sum([targets, total])
        if self._file is not None:
            loss = total / max(targets, 1.0)
            self._file.write(trainer.progress.step, {"validation_loss": loss})
            logger.info("step %d: validation loss %.4f", trainer.progress.step, loss)
