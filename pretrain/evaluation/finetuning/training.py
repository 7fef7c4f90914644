"""The loop of one fine-tuning run: epochs over bucketed batches, evaluation after each, the best or the last kept."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conf.errors import InputError
from pretrain.evaluation.finetuning.batches import bucketed_batches, collate
from pretrain.evaluation.finetuning.encoding import EncodedItems
from pretrain.evaluation.finetuning.heads import TaskModel, loss_of, make_model, outputs_of
from pretrain.evaluation.finetuning.recipe import Precision, Recipe
from pretrain.evaluation.tasks.definition import Kind
from pretrain.models.encoder import Encoder
from pretrain.models.evaluation_mode import evaluation_mode
from pretrain.optim.adamw import adamw
from pretrain.optim.groups import depths_below_head
from pretrain.optim.schedules import constant, linear, slanted_triangular

EVALUATION_BATCH = 64
ADAM_BETAS = (0.9, 0.999)
ADAM_EPS = 1e-6

Outputs = NDArray[np.float64]


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
) -> FinetuneResult:
    """Fine-tune a copy of an encoder.

    Deterministic: the same arguments, torch and thread count give the same result. `encoder` is not changed; the
    global generator of torch is seeded.

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
    peaks = [float(group["lr"]) for group in optimizer.param_groups]
    lengths = train.item_lengths.tolist()
    total = recipe.epochs * math.ceil(len(train) / recipe.batch_size)
    chosen = next(iter(sets))
    step, epochs, best = 0, list[Epoch](), 0
    kept: dict[str, Tensor] | None = None
    found: Outputs | None = None
    for number in range(recipe.epochs):
        if recipe.gradual_unfreezing:
            _unfreeze(model, number)
        summed = 0.0
        for batch in bucketed_batches(lengths, recipe.batch_size, generator):
            factor = rate_factor(recipe, step, total)
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * factor
            items = collate(train, batch, pad_id)
            with autocast(recipe.precision):
                loss = loss_of(kind, model.logits(items), items)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise InputError(
                    f"the fine-tuning loss is {value} at step {step} of {total}: lower recipe.learning_rate, or "
                    "choose another checkpoint if its weights are broken"
                )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_gradient_norm)
            optimizer.step()
            summed += value * len(batch)
            step += 1
        outputs = predict(model, kind, sets[chosen], pad_id, recipe.precision)
        metric = judge(outputs)
        if not math.isfinite(metric):
            raise InputError(f"the dev metric is {metric} after epoch {number + 1}: lower recipe.learning_rate")
        epochs.append(Epoch(summed / len(train), metric))
        if recipe.patience is None or metric > epochs[best].metric or number == 0:
            best, found = number, outputs
            if recipe.patience is not None:
                kept = copy.deepcopy(model.state_dict())
        elif number - best >= recipe.patience:
            break
    if kept is not None and best != len(epochs) - 1:
        model.load_state_dict(kept)
    assert found is not None
    others = {
        name: predict(model, kind, items, pad_id, recipe.precision) for name, items in sets.items() if name != chosen
    }
    model.requires_grad_(True)
    return FinetuneResult({chosen: found, **others}, tuple(epochs), best, step, model.eval())


@torch.inference_mode()
def predict(model: TaskModel, kind: Kind, data: EncodedItems, pad_id: int, precision: Precision = "fp32") -> Outputs:
    """Probabilities or scores [items, labels], in the order of the items; batched by length. The mode is put back.

    Raises:
        InputError: one is no number (an argmax would take it for the best).
    """
    order = np.argsort(data.item_lengths, kind="stable")
    width = int(np.diff(data.items).max()) if kind == "choice" else model.num_labels
    out = np.zeros((len(data), width), dtype=np.float64)
    with evaluation_mode(model):
        for start in range(0, len(order), EVALUATION_BATCH):
            members = order[start : start + EVALUATION_BATCH]
            batch = collate(data, members.tolist(), pad_id)
            with autocast(precision):
                logits = model.logits(batch)
            outputs = outputs_of(kind, logits, batch).numpy()
            out[members, : outputs.shape[1]] = outputs
    broken = int((~np.isfinite(out)).any(axis=1).sum())
    if broken:
        raise InputError(
            f"the fine-tuned head gives {broken} of {len(out)} items scores that are no numbers: lower "
            "recipe.learning_rate, or choose another checkpoint if its weights are broken"
        )
    return out


def rate_factor(recipe: Recipe, step: int, total: int) -> float:
    """The share of each group's peak rate at update `step` of `total`."""
    if recipe.schedule == "slanted_triangular":
        return slanted_triangular(step, 1, total)
    schedule = linear if recipe.schedule == "linear" else constant
    return schedule(step, 1, total, warmup=round(recipe.warmup * total))


def autocast(precision: Precision) -> torch.autocast:
    """bf16 arithmetic on fp32 weights, or nothing."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16")


def _unfreeze(model: TaskModel, number: int) -> None:
    """Let the head and the `number` layers below it learn, and nothing else."""
    named = list(model.named_parameters())
    for (_, parameter), depth in zip(named, depths_below_head([name for name, _ in named]), strict=True):
        parameter.requires_grad_(depth <= number)
