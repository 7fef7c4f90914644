"""A fine-tuning run on several ranks, or on a GPU, under DeepSpeed: every rank learns from its share of each batch.

What is minimised is the mean over the whole batch, as in one process: a rank without an item (the last batch of an
epoch may be smaller than the ranks are many) takes part with a weight of 0. Predictions are shared out too. Must not
import Hydra or the trainer.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from conf.errors import InputError
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group
from pretrain.engine import TrainingEngine
from pretrain.evaluation.finetuning.batches import TaskBatch, collate
from pretrain.evaluation.finetuning.encoding import EncodedItems
from pretrain.evaluation.finetuning.heads import TaskModel, loss_of, outputs_of
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.finetuning.updates import (
    Outputs,
    Weights,
    evaluation_batches,
    require_numbers,
    width_of,
)
from pretrain.evaluation.tasks.definition import Kind

_LOSS, _OUTPUTS = "loss", "outputs"


def require_fitting(options: DeepSpeedOptions, recipe: Recipe) -> None:
    """Raise InputError, naming the options, where a recipe and DeepSpeed's options exclude each other."""
    if options.precision not in ("auto", recipe.precision):
        raise InputError(
            f"recipe.precision is {recipe.precision}, but deepspeed.precision is {options.precision}: leave that "
            f"at auto, or give both the same value"
        )
    if options.compile is True:
        raise InputError(
            "deepspeed.compile=true is not for fine-tuning, whose batches all differ in shape: set it to false or auto"
        )
    if recipe.gradual_unfreezing:
        raise InputError(
            "recipe.gradual_unfreezing changes what is learned while DeepSpeed has shared it out: set it to false, or "
            "fine-tune without deepspeed"
        )


class OnRanks:
    """Makes `Updates` for `finetune`, which every rank calls with the same arguments: `OnRanks(group, options)`."""

    def __init__(self, group: Group, options: DeepSpeedOptions) -> None:
        self.group, self.options = group, options

    def __call__(
        self, model: TaskModel, kind: Kind, optimizer: torch.optim.Optimizer, recipe: Recipe, pad_id: int
    ) -> "UpdatesOnRanks":
        """The model in training under DeepSpeed. Raises InputError as `require_fitting`."""
        require_fitting(self.options, recipe)
        return UpdatesOnRanks(self.group, self.options, model, kind, optimizer, recipe, pad_id)


class UpdatesOnRanks:
    """`Updates` of which every method is a collective call."""

    def __init__(
        self,
        group: Group,
        options: DeepSpeedOptions,
        model: TaskModel,
        kind: Kind,
        optimizer: torch.optim.Optimizer,
        recipe: Recipe,
        pad_id: int,
    ) -> None:
        self._group, self._model, self._kind, self._pad_id = group, model, kind, pad_id
        self._plain = copy.deepcopy(model)  # what `finish` returns: a stage may take the engine's weights apart
        self._seed, self._steps = torch.initial_seed(), 0

        def loss(module: nn.Module, batch: TaskBatch) -> dict[str, Tensor]:
            """The summed loss of a rank's items; in evaluation mode their outputs."""
            logits = cast(TaskModel, module).logits(batch)
            if not module.training:
                return {_OUTPUTS: outputs_of(kind, logits, batch)}
            return {_LOSS: loss_of(kind, logits, batch) * batch.weight}

        self._engine = TrainingEngine(
            model,
            loss,
            optimizer,
            replace(options, compile=False, precision=recipe.precision),
            group.ranks,
            micro_batch_size=max(1, recipe.batch_size // group.ranks.world_size),
            gradient_clipping=recipe.max_gradient_norm,
        )

    def update(self, data: EncodedItems, chosen: Sequence[int], rate_factor: float) -> float:
        """See `Updates`: rank r takes every item whose place in the batch is r modulo the number of ranks."""
        ranks = self._group.ranks
        mine = list(chosen[ranks.rank :: ranks.world_size])
        batch = collate(data, mine or chosen[:1], self._pad_id)
        if not mine:
            batch = replace(batch, weight=torch.zeros(()))
        outcome = self._engine.train_step(
            [batch],
            counts={_LOSS: float(len(chosen))},
            rate_factor=rate_factor,
            # Dropout of another rank, step or run must not repeat.
            seeds=[int(np.random.default_rng([self._seed, self._steps, ranks.rank]).integers(2**62))],
        )
        self._steps += 1
        (total,) = self._group.sum([float(outcome.losses[_LOSS])])
        return math.nan if outcome.skipped else total / len(chosen)

    def predict(self, data: EncodedItems) -> Outputs:
        """See `Updates`. Every rank makes as many forward passes: a stage may gather weights in each."""
        ranks = self._group.ranks
        batches = evaluation_batches(data)
        found: list[tuple[list[int], Outputs]] = []
        for turn in range(math.ceil(len(batches) / ranks.world_size)):
            number = turn * ranks.world_size + ranks.rank
            members = batches[min(number, len(batches) - 1)]
            outputs = self._engine.evaluate(collate(data, members, self._pad_id))[_OUTPUTS]
            if number < len(batches):
                found.append((members, outputs.cpu().numpy()))
        out = np.zeros((len(data), width_of(data, self._kind, self._model.num_labels)), dtype=np.float64)
        for members, theirs in (part for of_rank in self._group.gather(found) for part in of_rank):
            out[members, : theirs.shape[1]] = theirs
        return require_numbers(out)

    def weights(self) -> Weights:
        """See `Updates`; empty on other ranks than the first."""
        return self._engine.full_state().weights

    def finish(self, kept: Weights | None) -> TaskModel:
        """See `Updates`; only on the first rank the weights are those that were learned."""
        weights = self.weights() if kept is None else kept
        self._engine.close()
        if self._group.ranks.is_main:
            self._plain.load_state_dict(weights)
        return self._plain.eval()
