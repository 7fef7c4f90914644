"""Optimisers as functions of the model, and the rule for which parameters decay.

Each returns a plain torch optimiser: DeepSpeed's own fused ones compile a kernel at first use (minutes on a CPU).
Must not import deepspeed.
"""

import torch
from torch import nn

from conf.errors import InputError


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Split the trainable parameters into decayed and not decayed ones.

    Rule: matrices (two dimensions or more) decay; biases and norm gains, which have one, never do. A group carries
    its parameter `names`, so that they can be shown. Empty groups are left out (ZeRO refuses them).
    """
    decayed: list[tuple[str, nn.Parameter]] = []
    plain: list[tuple[str, nn.Parameter]] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (decayed if parameter.ndim >= 2 else plain).append((name, parameter))
    groups = ((decayed, weight_decay), (plain, 0.0))
    return [
        {
            "params": [parameter for _, parameter in members],
            "names": [name for name, _ in members],
            "weight_decay": decay,
        }
        for members, decay in groups
        if members
    ]


def adamw(
    model: nn.Module,
    *,
    lr: float,
    betas: list[float],
    eps: float = 1e-6,
    weight_decay: float = 0.01,
) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter, 2019) with decoupled weight decay on matrices only.

    `lr` is the peak rate, which a schedule scales. Raises InputError for values outside their range.
    """
    if lr < 0 or eps <= 0 or weight_decay < 0:
        raise InputError(
            f"optimizer.lr and optimizer.weight_decay must not be negative and optimizer.eps must be positive, "
            f"but lr={lr}, weight_decay={weight_decay}, eps={eps}."
        )
    if len(betas) != 2 or not all(0.0 <= beta < 1.0 for beta in betas):
        raise InputError(f"optimizer.betas must be two numbers in [0, 1), but is {list(betas)}.")
    groups = parameter_groups(model, weight_decay)
    return torch.optim.AdamW(groups, lr=lr, betas=(betas[0], betas[1]), eps=eps, weight_decay=weight_decay)
