"""Parameter groups: which parameters decay, and at which share of the peak rate each layer learns.

Every optimiser of this folder gets its groups here, so the rule exists once. A group carries its parameter `names` and
its own peak `lr`, which a schedule scales. Imports torch and the error class only.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from conf.errors import InputError

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_EMBEDDINGS = re.compile(r"(?:^|\.)embeddings\.")
_TOKENS = re.compile(r"(?:^|\.)embeddings\.token\.")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def parameter_groups(
    model: nn.Module, *, lr: float, weight_decay: float, layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """Split the trainable parameters into groups for a torch optimiser.

    Decay: matrices (two dimensions or more, embeddings too) decay by `weight_decay`; biases and norm gains, which have
    one dimension, never do. Rate: what follows the last layer (final norm, pooler, heads) learns at `lr`, the layer n
    steps below it at lr * layer_decay ** n, and the embeddings below the first layer (Clark et al. 2020, ELECTRA;
    counted as in BEiT, Bao et al. 2022, whose top layer is one step below the head). An output matrix that is tied to
    the embedding is the embedding. Encoder and decoder of one model count each for itself, since the top layers of both
    are what the decoder's last layer reads; a token embedding that they share is below the taller one. Groups come in
    order of falling rate, decayed before not decayed, so the first group's rate is `lr`; empty groups are left out
    (ZeRO refuses them).

    Raises InputError for a `layer_decay` outside (0, 1], or below 1 for a model without `embeddings` and `layers`.
    """
    if not 0.0 < layer_decay <= 1.0:
        raise InputError(f"optimizer.layer_decay must be above 0 and at most 1, but is {layer_decay}.")
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    depths = depths_below_head([name for name, _ in named]) if layer_decay < 1.0 else [0] * len(named)
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for (name, parameter), depth in sorted(zip(named, depths, strict=True), key=lambda item: item[1]):
        decays = parameter.ndim >= 2
        group = groups.setdefault(
            (depth, not decays),
            {
                "params": [],
                "names": [],
                "lr": lr * layer_decay**depth,
                "weight_decay": weight_decay if decays else 0.0,
            },
        )
        group["params"].append(parameter)
        group["names"].append(name)
    return [groups[key] for key in sorted(groups)]


def depths_below_head(names: list[str]) -> list[int]:
    """How many steps below the head each parameter lies: 0 for the head, 1 for the last layer, most for embeddings.

    Raises InputError for names of a model without `embeddings` and `layers`.
    """
    layers = {name: (name[: found.start()], int(found[1])) for name in names if (found := _LAYER.search(name))}
    if not layers or not any(_EMBEDDINGS.search(name) for name in names):
        raise InputError(
            "optimizer.layer_decay needs a model whose parameters are named 'embeddings.' and 'layers.<number>.', but "
            f"this one has {', '.join(names[:3])} ...: set optimizer.layer_decay=1."
        )
    heights: dict[str, int] = {}  # of each stack, by what stands before 'layers' in its parameters' names
    for stack, layer in layers.values():
        heights[stack] = max(heights.get(stack, 0), layer + 1)

    def depth(name: str) -> int:
        if name in layers:
            stack, layer = layers[name]
            return heights[stack] - layer
        found = _EMBEDDINGS.search(name)
        if found is None:
            return 0
        own = max(heights.values()) if _TOKENS.search(name) else heights.get(name[: found.start()])
        return 1 + (own if own is not None else max(heights.values()))

    return [depth(name) for name in names]


@dataclass(frozen=True)
class GroupRow:
    """One parameter group in figures: its peak rate, its decay, its number of trained numbers, its parameters."""

    lr: float
    weight_decay: float
    parameters: int
    names: tuple[str, ...]


def describe_groups(optimizer: torch.optim.Optimizer) -> list[GroupRow]:
    """Return one row a parameter group, for an optimiser whose groups come from `parameter_groups`."""
    return [
        GroupRow(
            lr=float(group["lr"]),
            weight_decay=float(group["weight_decay"]),
            # ZeRO stage 3 leaves an empty tensor in a parameter's place and its size beside it.
            parameters=sum(getattr(parameter, "ds_numel", parameter.numel()) for parameter in group["params"]),
            names=tuple(group["names"]),
        )
        for group in optimizer.param_groups
    ]


def folded_names(names: Iterable[str]) -> list[str]:
    """Return names, those that differ only in their first number as one: `layers.0-11.mlp.input.weight (12)`."""
    folded: dict[str, list[int]] = {}
    for name in names:
        found = _NUMBER.search(name)
        key = name if found is None else f"{name[: found.start()]}\0{name[found.end() :]}"
        folded.setdefault(key, []).extend([] if found is None else [int(found[0])])
    return [
        key.replace("\0", _ranges(numbers)) + (f" ({len(numbers)})" if len(numbers) > 1 else "")
        for key, numbers in folded.items()
    ]


def _ranges(numbers: list[int]) -> str:
    """Return whole numbers as ranges: [0, 1, 2, 5] -> "0-2,5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
