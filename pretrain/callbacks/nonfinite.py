"""Where a number that is not finite comes from: the batch is run again with a look at every module's activations.

Must not import deepspeed.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from pretrain.trainer import Callback, StepResult, Trainer

logger = logging.getLogger(__name__)
MOST_SEARCHES = 3


@dataclass(frozen=True)
class NonFinite:
    """The first place of a forward pass that holds a NaN or an infinity: the path of a module, and what of it."""

    module: str
    what: str

    def __str__(self) -> str:
        """Say it in a clause."""
        return f"module '{self.module or '(the whole model)'}' ({self.what})"


def first_nonfinite_module(model: nn.Module, run: Callable[[], object]) -> NonFinite | None:
    """Call `run`, which calls `model`, and return the first module with a non-finite activation, None if there is none.

    A module is named if its output is not finite and nothing inside it was found before. If a submodule is handed a
    value that is not finite, the module around it has computed that by itself, and is named instead. Compiled code is
    run uncompiled. The model's hooks are as before when this returns or raises.
    """
    found: list[NonFinite] = []

    def before(name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        if not found and not _all_finite((args, kwargs)):
            around, _, child = name.rpartition(".")
            found.append(NonFinite(around, f"what it hands to '{child}'"))

    def after(name: str, module: nn.Module, args: Any, output: Any) -> None:
        if not found and not _all_finite(output):
            bad = [key for key, value in module.named_parameters(recurse=False) if not _all_finite(value)]
            found.append(NonFinite(name, f"its parameter '{bad[0]}' is not finite" if bad else "its output"))

    handles = []
    try:
        for name, module in model.named_modules():
            if name:
                handles.append(module.register_forward_pre_hook(partial(before, name), with_kwargs=True))
            handles.append(module.register_forward_hook(partial(after, name)))
        with torch.compiler.set_stance("force_eager"):
            run()
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


def _all_finite(value: Any) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in _floats(value))


def _floats(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.numel():
            yield value.detach()
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floats(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _floats(item)


def explain(trainer: Trainer) -> str:
    """Return what the search finds in the last step's batches, as a clause with the rank. A collective call.

    The step must not have changed the weights, or they are those after it.
    """
    stage = trainer.stage
    # Batches are a pure function of their place, so those of the last step are made again.
    batches = [micro_batch.batch for micro_batch in stage.loader.step(_first_sample_of_last_step(trainer))]
    finding: str | None = None
    for batch in batches:  # all of them on every rank: a forward pass may be a collective call
        losses: dict[str, torch.Tensor] = {}

        def run(batch: Any = batch, losses: dict[str, torch.Tensor] = losses) -> None:
            losses.update(trainer.engine.evaluate(batch))

        place = first_nonfinite_module(trainer.engine.model, run)
        if finding is None and place is not None:
            finding = f"the first non-finite activation is that of {place}"
        elif finding is None and not _all_finite(losses):
            finding = "all modules' activations are finite, but the loss computed from them is not"
    for rank, said in enumerate(trainer.group.gather(finding)):
        if said is not None:
            return f"on rank {rank}, {said}"
    return "the forward pass is finite everywhere without dropout, so it arose in the backward pass (or by dropout)"


def _first_sample_of_last_step(trainer: Trainer) -> int:
    return trainer.first_sample - trainer.stage.layout.global_batch_size


class FindNonFinite(Callback):
    """With `trainer.find_nonfinite`, says of the first few steps skipped for a non-finite gradient where it arose."""

    def __init__(self) -> None:
        self._searches = 0

    def on_step(self, trainer: Trainer, result: StepResult) -> None:
        """Search, if the step was skipped for that reason; its weights are still those that gave it."""
        wanted = trainer.options.find_nonfinite and self._searches < MOST_SEARCHES
        if not wanted or result.skipped is None or "non-finite" not in result.skipped:
            return
        self._searches += 1
        with trainer.clock.paused():
            said = explain(trainer)
        if trainer.group.ranks.is_main:
            logger.warning("step %d: %s", trainer.progress.step, said)
