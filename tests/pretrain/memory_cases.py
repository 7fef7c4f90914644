"""What the ranks of test_estimates.py run: training steps of the real engine, with all tensors counted."""

import gc
from dataclasses import dataclass

import torch
from torch import nn

from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group
from pretrain.engine import TrainingEngine
from pretrain.optim.adamw import adamw

WIDTH = 256


@dataclass(frozen=True)
class Inputs:
    """A batch for a model of plain layers."""

    values: torch.Tensor

    def to(self, device: torch.device, non_blocking: bool = False) -> "Inputs":
        return Inputs(self.values.to(device))


def held_bytes() -> int:
    """The bytes of all tensors that are alive, each storage once; gradients are not in Python's own list."""
    storages = {}
    for item in gc.get_objects():
        if isinstance(item, torch.Tensor):
            for tensor in (item, item.grad if item.is_leaf else None):
                if tensor is not None and tensor.untyped_storage().data_ptr():
                    storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return sum(storages.values())


def training_memory(group: Group, stages: list[int]) -> list[dict[str, int]]:
    """For each stage the number of parameters, and bytes after the first of two micro-batches and after the step."""
    found = []
    for stage in stages:
        gc.collect()
        before = held_bytes()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
        figures = {"parameters": sum(parameter.numel() for parameter in model.parameters())}
        engine = TrainingEngine(
            model,
            lambda model, batch: {"square": model(batch.values).square().sum()},
            adamw(model, lr=1e-3, betas=[0.9, 0.98]),
            DeepSpeedOptions(stage=stage, precision="fp32", bucket_size=1000),
            group.ranks,
            micro_batch_size=4,
            gradient_clipping=1.0,
        )
        backward = engine._engine.backward

        def count_after(*args: object, figures: dict = figures, before: int = before, backward=backward, **more):
            backward(*args, **more)
            gc.collect()
            figures.setdefault("accumulating", held_bytes() - before)

        engine._engine.backward = count_after
        batches = [Inputs(torch.randn(4, WIDTH)) for _ in range(2)]
        engine.train_step(batches, counts={"square": 8.0}, rate_factor=1.0, seeds=[0, 1])
        gc.collect()
        figures["after"] = held_bytes() - before
        found.append(figures)
        engine.close()
        del engine, model, backward, count_after
    return found
