"""The loop of one fine-tuning run: epochs over bucketed batches, evaluation after each, the best or the last kept."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from conf.errors import InputError
from pretrain.evaluation.finetuning.batches import bucketed_batches
from pretrain.evaluation.finetuning.encoding import EncodedItems
from pretrain.evaluation.finetuning.heads import TaskModel, make_model
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.finetuning.updates import Alone, MakeUpdates, Outputs, Weights, diverged
from pretrain.evaluation.tasks.definition import Kind
from pretrain.models.encoder import Encoder
from pretrain.optim.adamw import adamw
from pretrain.optim.groups import depths_below_head
from pretrain.optim.schedules import constant, linear, slanted_triangular

ADAM_BETAS = (0.9, 0.999)
ADAM_EPS = 1e-6


@dataclass(frozen=True)
class Epoch:
    """The mean training loss of an epoch, and the metric of the chosen set after it."""

    loss: float
    metric: float


@dataclass(frozen=True, eq=False)
class FinetuneResult:
    """What a run gives: for each evaluated set an array [items, labels] of probabilities (regression: scores, [items,
    1]), each epoch that ran, the number (from 0) of the one that counts, the optimiser steps, and the tuned model."""

    outputs: dict[str, Outputs]
    epochs: tuple[Epoch, ...]
    best: int
    steps: int
    model: TaskModel


def finetune(
    encoder: Encoder,
    kind: Kind,
    num_labels: int,
    train: EncodedItems,
    sets: Mapping[str, EncodedItems],
    judge: Callable[[Outputs], float],
    recipe: Recipe,
    seed: int,
    pad_id: int,
    make_updates: MakeUpdates = Alone,
) -> FinetuneResult:
    """Fine-tune a copy of an encoder.

    Deterministic: the same arguments, torch, number of ranks and of threads give the same result. `encoder` is not
    changed; the global generator of torch is seeded.

    Args:
        encoder: its pooler, if it has one, is what BERT's classifier starts from.
        kind: of the items.
        num_labels: labels of a classification or of spans.
        train: items with labels.
        sets: what is predicted at the end; the first is also predicted after every epoch.
        judge: the metric of the first set's outputs, higher is better.
        recipe: the options.
        seed: of the head's weights, dropout and the order of items.
        pad_id: the token that pads.
        make_updates: in this process alone, or on several ranks, of which each calls this function alike.

    Raises:
        InputError: no items, an item to learn from without a label, or the loss or a metric is no number (the run
            diverged).
    """
    if not len(train) or not sets or not all(len(items) for items in sets.values()):
        raise InputError("fine-tuning needs at least one training and one dev item, but a set is empty")
    if np.isnan(train.labels).any():
        raise InputError(
            f"{int(np.isnan(train.labels).sum())} of {len(train)} training items have no label: leave them out"
        )
    torch.manual_seed(seed)
    generator = np.random.default_rng(seed)
    model = make_model(kind, encoder, num_labels, recipe.dropout, recipe.pooling).float().train()
    optimizer = adamw(
        model,
        lr=recipe.learning_rate,
        betas=list(ADAM_BETAS),
        eps=ADAM_EPS,
        weight_decay=recipe.weight_decay,
        layer_decay=1.0 / recipe.layer_factor,
    )
    updates = make_updates(model, kind, optimizer, recipe, pad_id)
    lengths = train.item_lengths.tolist()
    total = recipe.epochs * math.ceil(len(train) / recipe.batch_size)
    chosen, *further = sets
    step, epochs, best = 0, list[Epoch](), 0
    kept: Weights | None = None
    outputs: dict[str, Outputs] = {}
    for number in range(recipe.epochs):
        if recipe.gradual_unfreezing:
            _unfreeze(model, number)
        summed = 0.0
        for batch in bucketed_batches(lengths, recipe.batch_size, generator):
            value = updates.update(train, batch, rate_factor(recipe, step, total))
            if not math.isfinite(value):
                raise diverged(value, step, total)
            summed += value * len(batch)
            step += 1
        found = updates.predict(sets[chosen])
        metric = judge(found)
        if not math.isfinite(metric):
            raise InputError(f"the dev metric is {metric} after epoch {number + 1}: lower recipe.learning_rate")
        epochs.append(Epoch(summed / len(train), metric))
        if recipe.patience is None or metric > epochs[best].metric or number == 0:
            best = number
            if recipe.patience is not None or number == recipe.epochs - 1:
                outputs = {chosen: found, **{name: updates.predict(sets[name]) for name in further}}
            if recipe.patience is not None:
                kept = updates.weights()
        elif number - best >= recipe.patience:
            break
    return FinetuneResult(outputs, tuple(epochs), best, step, updates.finish(kept))


def rate_factor(recipe: Recipe, step: int, total: int) -> float:
    """The share of each group's peak rate at update `step` of `total`."""
    if recipe.schedule == "slanted_triangular":
        return slanted_triangular(step, 1, total)
    schedule = linear if recipe.schedule == "linear" else constant
    return schedule(step, 1, total, warmup=round(recipe.warmup * total))


def _unfreeze(model: TaskModel, number: int) -> None:
    """Let the head and the `number` layers below it learn, and nothing else."""
    named = list(model.named_parameters())
    for (_, parameter), depth in zip(named, depths_below_head([name for name, _ in named]), strict=True):
        parameter.requires_grad_(depth <= number)
