"""Our training step on batches made beforehand: the trainer's model, loss and optimiser under its engine.

Where DeepSpeed is missing (a bare GPU machine), a plain torch loop over the same model, loss and optimiser stands in.
Must not import Hydra, nor the engine before it is asked for: a machine that has torch alone runs the plain loop.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from pretrain.distributed import Group
from pretrain.models.config import ModelConfig
from pretrain.objectives import MicroBatch, Objective
from pretrain.optim.adamw import adamw
from pretrain.ranks import Ranks

if TYPE_CHECKING:
    from pretrain.engine import TrainingEngine

Loop = Literal["engine", "plain"]
CLIPPING = 1.0
RATE = 1e-4


@dataclass(frozen=True)
class Settings:
    """What may be switched of the step itself; the model's options are in its configuration."""

    precision: Literal["bf16", "fp32"] = "bf16"
    loop: Loop = "engine"
    compile: bool = False
    activation_checkpointing: bool = False
    fused_optimizer: bool = True


def deepspeed_problem() -> str | None:
    """Return one sentence on why DeepSpeed cannot be used here, or None."""
    try:
        from pretrain import engine  # noqa: F401
        from pretrain.distributed import import_deepspeed

        import_deepspeed()
    except ImportError as error:
        return f"DeepSpeed, or what the engine needs beside it, cannot be imported here ({error})"
    return None


class Alone:
    """One process as a whole group; made at first use and shared by all engines until it is closed."""

    def __init__(self) -> None:
        self.ranks = Ranks(rank=0, world_size=1, local_rank=0, local_world_size=1)
        self._group: Group | None = None
        self._environment = dict(os.environ)

    def join(self) -> Ranks:
        """Make the group at first use."""
        if self._group is None:
            self._environment = dict(os.environ)
            self._group = Group(self.ranks, timeout_seconds=600.0)
        return self.ranks

    def close(self) -> None:
        """Leave the group, if it was made, and no trace of it: a peer that finds RANK set trains as one of many."""
        if self._group is not None:
            self._group.close()
            self._group = None
            for name in set(os.environ) - set(self._environment):
                del os.environ[name]


class OwnStep:
    """A `TrainingLoop` over `micro_batches`, which do not end; each is one optimiser step.

    On one rank ZeRO has nothing to split: stage 0 is what `python -m pretrain` takes there.
    `counts`: the encoder's tokens that are not padding, or the decoder's that are targets of the main loss.
    """

    def __init__(
        self,
        architecture: ModelConfig,
        objective: Objective[Any],
        vocab_size: int,
        micro_batches: Iterator[MicroBatch[Any]],
        settings: Settings,
        device: torch.device,
        alone: Alone,
        counts: Literal["tokens", "targets"] = "tokens",
    ) -> None:
        torch.manual_seed(0)
        self._main, self._counts = objective.loss_names[0], counts
        self.model = objective.build_model(architecture, vocab_size)
        self.settings, self.device = settings, device
        self._batches, self._numbers = micro_batches, itertools.count()
        self._tokens = self._places = 0
        self._engine: TrainingEngine | None = None
        if settings.loop != "plain":
            from pretrain.deepspeed_options import DeepSpeedOptions
            from pretrain.engine import TrainingEngine

            self._engine = TrainingEngine(
                self.model,
                objective.loss,
                self._optimizer(),
                DeepSpeedOptions(
                    stage=0,
                    precision=settings.precision,
                    compile=settings.compile,
                    activation_checkpointing=settings.activation_checkpointing,
                ),
                alone.join(),
                micro_batch_size=1,
                gradient_clipping=CLIPPING,
            )
            return
        self.model.to(device)
        for module in self.model.modules():
            if hasattr(module, "activation_checkpointing"):
                module.activation_checkpointing = settings.activation_checkpointing  # type: ignore[assignment]
        self._loss = torch.compile(objective.loss) if settings.compile else objective.loss
        self._plain = self._optimizer()

    def _optimizer(self) -> torch.optim.Optimizer:
        made = adamw(self.model, lr=RATE, betas=[0.9, 0.98])
        if not self.settings.fused_optimizer:
            for group in made.param_groups:
                group["fused"], group["foreach"] = False, True
        return made

    @property
    def fill(self) -> float:
        """The share of counted tokens in what it has computed so far, of targets in what the decoder has."""
        return self._tokens / max(self._places, 1)

    def step(self) -> int:
        """Take one optimiser step; return the batch's tokens that count."""
        micro_batch, number = next(self._batches), next(self._numbers)
        if self._counts == "targets":
            tokens, places = int(micro_batch.counts[self._main]), len(micro_batch.batch.target.input_ids)
        else:
            tokens, places = micro_batch.tokens, len(micro_batch.batch.input_ids)
        self._tokens, self._places = self._tokens + tokens, self._places + places
        if self._engine is not None:
            self._engine.train_step([micro_batch.batch], counts=micro_batch.counts, rate_factor=1.0, seeds=[number])
            return tokens
        batch = micro_batch.batch.to(self.device, non_blocking=True)
        if self.settings.compile:
            batch.for_compiled_code()
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.settings.precision == "bf16"):
            loss = self._loss(self.model, batch)[self._main] / max(micro_batch.counts[self._main], 1.0)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIPPING)
        self._plain.step()
        self._plain.zero_grad(set_to_none=True)
        return tokens

    def close(self) -> None:
        """Free what DeepSpeed holds."""
        if self._engine is not None:
            self._engine.close()
