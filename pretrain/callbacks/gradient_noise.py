"""The gradient noise scale of a run (`trainer.gradient_noise`): how large a batch still pays.

It compares the gradients of single micro-batches with that of the whole step (`pretrain.gradient_noise` has the
formula). The norm of a micro-batch's own gradient is taken where autograd hands it over, before ranks and micro-batches
are added up, so it works alike at every ZeRO stage. That reads every gradient once more per micro-batch (a few percent
of a step at the most) and waits for nothing; what is read is added up over ranks once a log interval. Must not import
deepspeed.
"""

import contextlib
from collections.abc import Callable

import torch
from torch import nn

from conf.errors import InputError
from pretrain.callbacks.metrics import MetricsFile
from pretrain.gradient_noise import NoiseScale, estimate_noise
from pretrain.trainer import Callback, Ending, Stage, StepResult, Trainer


class GradientNorms:
    """Adds up the squared norms of the gradients that autograd computes for a model's parameters, one backward pass
    after the other. The hooks last as long as the `with` block."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._sum = torch.zeros((), dtype=torch.float64, device=device)
        self._hooks = contextlib.ExitStack()
        for parameter in model.parameters():
            if parameter.requires_grad:
                # (Once for each pass: the gradients of several uses, as of a tied embedding, are added before.)
                self._hooks.callback(parameter.register_hook(self._add).remove)

    def _add(self, gradient: torch.Tensor) -> None:
        self._sum += torch.linalg.vector_norm(gradient.detach(), dtype=torch.float32).double() ** 2

    def take(self) -> torch.Tensor:
        """Return the sum since it was last taken, on the device."""
        taken, self._sum = self._sum, torch.zeros_like(self._sum)
        return taken

    def close(self) -> None:
        """Remove the hooks."""
        self._hooks.close()


class GradientNoise(Callback):
    """Writes `gradient_noise`, in rows, every `log_every` steps, once noise no longer hides it.

    A row counts as one sample, and all micro-batches of a step as having as many targets.
    """

    def __init__(self, file: MetricsFile | None) -> None:
        self._file = file
        self._scale = NoiseScale()
        self._norms: GradientNorms | None = None
        self._steps = 0
        self._big = 0.0

    def on_start(self, trainer: Trainer) -> None:
        """Begin to watch the gradients."""
        device = trainer.engine.device
        self._norms = GradientNorms(trainer.engine.model, device)
        self._small = torch.zeros((), dtype=torch.float64, device=device)
        self._loss_scale = trainer.engine.loss_scale()

    def on_stage(self, trainer: Trainer, stage: Stage) -> None:
        """Check that there is something to compare. Raises InputError where a step has a single micro-batch."""
        if stage.layout.accumulation * stage.layout.world_size < 2:
            raise InputError(
                "trainer.gradient_noise=true compares micro-batches with the whole batch, but a step has only one: "
                "lower trainer.micro_batch_size, or set it to false."
            )
        self._collect(trainer.group.sum)  # what is collected belongs to the sizes of the stage before
        self._sizes = stage.layout.micro_batch_size, stage.layout.global_batch_size

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        """Add the step's norms up; every `log_every` steps, write."""
        assert self._norms is not None
        layout = trainer.stage.layout
        squared = self._norms.take()
        scale, self._loss_scale = self._loss_scale or 1.0, trainer.engine.loss_scale()
        if result.skipped is None:
            # The engine divides each micro-batch's sum by the GLOBAL count and undoes DeepSpeed's mean over ranks:
            # times the accumulation it is the micro-batch's own mean. This rank's mean over its micro-batches:
            self._small += squared * (layout.accumulation / scale) ** 2 / layout.accumulation
            self._big += trainer.engine.gradient_norm() ** 2
            self._steps += 1
        if trainer.progress.step % trainer.options.log_every == 0:
            self._collect(trainer.group.sum)
            if self._file is not None and (value := self._scale.value) is not None:
                self._file.write(trainer.progress.step, {"gradient_noise": value})

    def on_end(self, trainer: Trainer, ending: Ending) -> None:
        """Leave the gradients alone."""
        if self._norms is not None:
            self._norms.close()

    def _collect(self, add_up: Callable[[list[float]], list[float]]) -> None:
        """Hand the norms of the steps since last time to the running means."""
        if not self._steps:
            return
        small, ranks = add_up([float(self._small), 1.0])
        micro, whole = self._sizes
        # Linear in the squared norms, so their means over the steps do.
        estimate = estimate_noise(small / ranks / self._steps, micro, self._big / self._steps, whole)
        for _ in range(self._steps):
            self._scale.update(estimate)
        self._small, self._big, self._steps = torch.zeros_like(self._small), 0.0, 0
