"""Notes in metrics.jsonl when a stage begins, so that the rows of any step can be told later (`pretrain.stages`)."""

import logging

from pretrain.callbacks.metrics import MetricsFile
from pretrain.trainer import Callback, Stage, Trainer

logger = logging.getLogger(__name__)


class StageLog(Callback):
    """Writes one line for each stage entered; only rank 0 has a file."""

    def __init__(self, file: MetricsFile | None) -> None:
        self._file = file

    def on_stage(self, trainer: Trainer, stage: Stage) -> None:
        """Write the line; with several stages also say it."""
        if self._file is None:
            return
        layout = stage.layout
        self._file.write(
            trainer.progress.step,
            {
                "stage": stage.plan.number,
                "first_sample": trainer.first_sample,
                "ranks": layout.world_size,
                "micro_batch_size": layout.micro_batch_size,
            },
        )
        if len(trainer.stages) > 1:
            logger.info(
                "step %d: stage '%s', batches of %d rows",
                trainer.progress.step,
                stage.plan.name,
                stage.plan.global_batch_size,
            )
