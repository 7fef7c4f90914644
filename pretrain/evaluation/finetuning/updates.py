"""How a fine-tuning run makes an update and predicts, in one process; `on_ranks` does the same on several.

Knows a model, an optimiser and a recipe; no epochs, no metric, no task.
"""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conf.errors import InputError
from pretrain.evaluation.finetuning.batches import collate
from pretrain.evaluation.finetuning.encoding import EncodedItems
from pretrain.evaluation.finetuning.heads import TaskModel, loss_of, outputs_of
from pretrain.evaluation.finetuning.recipe import Precision, Recipe
from pretrain.evaluation.tasks.definition import Kind
from pretrain.models.evaluation_mode import evaluation_mode

EVALUATION_BATCH = 64

Outputs = NDArray[np.float64]
Weights = dict[str, Tensor]


class Updates(Protocol):
    """A model in training."""

    def update(self, data: EncodedItems, chosen: Sequence[int], rate_factor: float) -> float:
        """Make one update on these items at this share of the peak rates; their mean loss before it.

        A loss that is no number is returned, not learned from.
        """
        ...

    def predict(self, data: EncodedItems) -> Outputs:
        """Probabilities or scores [items, labels], in the order of the items."""
        ...

    def weights(self) -> Weights:
        """A copy of the weights as they are now, for `finish`; on other ranks than the first it may be empty."""
        ...

    def finish(self, kept: Weights | None) -> TaskModel:
        """End the training: the model with the weights that were kept, or with the last ones, in evaluation mode."""
        ...


# (model, kind, optimiser, recipe, id of the padding token) -> the model in training.
MakeUpdates = Callable[[TaskModel, Kind, torch.optim.Optimizer, Recipe, int], Updates]


class Alone:
    """`Updates` in this process."""

    def __init__(
        self, model: TaskModel, kind: Kind, optimizer: torch.optim.Optimizer, recipe: Recipe, pad_id: int
    ) -> None:
        self._model, self._kind, self._optimizer, self._recipe, self._pad_id = model, kind, optimizer, recipe, pad_id
        self._peaks = [float(group["lr"]) for group in optimizer.param_groups]

    def update(self, data: EncodedItems, chosen: Sequence[int], rate_factor: float) -> float:
        """See `Updates`."""
        for group, peak in zip(self._optimizer.param_groups, self._peaks, strict=True):
            group["lr"] = peak * rate_factor
        items = collate(data, chosen, self._pad_id)
        with autocast(self._recipe.precision):
            loss = loss_of(self._kind, self._model.logits(items), items)
        value = float(loss.detach())
        if math.isfinite(value):
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._recipe.max_gradient_norm)
            self._optimizer.step()
        return value

    def predict(self, data: EncodedItems) -> Outputs:
        """See `Updates`."""
        return predict(self._model, self._kind, data, self._pad_id, self._recipe.precision)

    def weights(self) -> Weights:
        """See `Updates`."""
        return copy.deepcopy(self._model.state_dict())

    def finish(self, kept: Weights | None) -> TaskModel:
        """See `Updates`."""
        if kept is not None:
            self._model.load_state_dict(kept)
        return self._model.requires_grad_(True).eval()


def evaluation_batches(data: EncodedItems) -> list[list[int]]:
    """All items once, those of like length together."""
    order = np.argsort(data.item_lengths, kind="stable")
    return [order[start : start + EVALUATION_BATCH].tolist() for start in range(0, len(order), EVALUATION_BATCH)]


def width_of(data: EncodedItems, kind: Kind, num_labels: int) -> int:
    """Columns of the outputs: labels, or the most options that an item has."""
    return int(np.diff(data.items).max()) if kind == "choice" else num_labels


@torch.inference_mode()
def predict(model: TaskModel, kind: Kind, data: EncodedItems, pad_id: int, precision: Precision = "fp32") -> Outputs:
    """Probabilities or scores [items, labels], in the order of the items; batched by length. The mode is put back.

    Raises:
        InputError: as `require_numbers`.
    """
    out = np.zeros((len(data), width_of(data, kind, model.num_labels)), dtype=np.float64)
    with evaluation_mode(model):
        for members in evaluation_batches(data):
            batch = collate(data, members, pad_id)
            with autocast(precision):
                logits = model.logits(batch)
            outputs = outputs_of(kind, logits, batch).numpy()
            out[members, : outputs.shape[1]] = outputs
    return require_numbers(out)


def require_numbers(outputs: Outputs) -> Outputs:
    """The same; raises InputError if one is no number (an argmax would take it for the best)."""
    broken = int((~np.isfinite(outputs)).any(axis=1).sum())
    if broken:
        raise InputError(
            f"the fine-tuned head gives {broken} of {len(outputs)} items scores that are no numbers: lower "
            "recipe.learning_rate, or choose another checkpoint if its weights are broken"
        )
    return outputs


def autocast(precision: Precision) -> torch.autocast:
    """bf16 arithmetic on fp32 weights, or nothing."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16")


def diverged(value: float, step: int, total: int) -> InputError:
    """The error for a loss that is no number."""
    return InputError(
        f"the fine-tuning loss is {value} at step {step} of {total}: lower recipe.learning_rate, or choose another "
        "checkpoint if its weights are broken"
    )
