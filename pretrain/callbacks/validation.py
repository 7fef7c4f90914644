"""The losses on held-out rows: a fixed number of rows, with masks that never change; and what scores a stage has.

Must not import deepspeed.
"""

import logging
from functools import partial

import torch

from pretrain.callbacks.metrics import MetricsFile
from pretrain.trainer import Callback, Ending, StepResult, Trainer

logger = logging.getLogger(__name__)


class Validation(Callback):
    """Measures every `validation_every` steps and at the end, unless `measured_step` has already been.

    The rows are those of the stage in use; without any nothing is measured.
    """

    def __init__(self, file: MetricsFile | None, measured_step: int) -> None:
        self._file, self._last_step = file, measured_step

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
        if trainer.stage.validation is None:
            return
        step = self._last_step = trainer.progress.step
        names = trainer.loss_names
        counts = dict.fromkeys(names, 0.0)
        sums = torch.zeros(len(names), dtype=torch.float64, device=trainer.engine.device)
        with trainer.clock.paused():
            for micro_batch in trainer.stage.validation():
                trainer.in_phase("validation")  # each batch is progress
                losses = trainer.engine.evaluate(micro_batch.batch)
                sums += torch.stack([losses[name].double() for name in names])
                for name in names:
                    counts[name] += micro_batch.counts[name]
            totals = trainer.group.sum([*sums.tolist(), *counts.values()])
            scores: dict[str, float] = {}
            if trainer.stage.scores is not None:
                go_on = partial(trainer.in_phase, "translating held-out sentences")
                scores = trainer.stage.scores(trainer.engine, trainer.group, go_on)
        means = {name: totals[i] / max(totals[i + len(names)], 1.0) for i, name in enumerate(names)}
        main = names[0]
        by = trainer.options.keep_best_by
        trainer.validation = (step, means[main] if by == "loss" else -scores[by])
        if self._file is not None:
            values = {"validation_loss" if name == main else f"validation_{name}": loss for name, loss in means.items()}
            values |= {f"validation_{name}": score for name, score in scores.items()}
            self._file.write(step, values)
            said = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in values.items())
            logger.info("step %d: %s", step, said)
