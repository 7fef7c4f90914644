"""AdaBound (Luo et al. 2019): Adam whose rate for each element is squeezed between two bounds that meet in SGD's.

Ours: torch has none, and the authors' package has not been maintained since 2019 and uses forms of torch's calls
that are deprecated (it was compared once, update for update, without decay). Must not import deepspeed.
"""

from typing import Any

import torch
from torch import nn

from conf.errors import InputError
from pretrain.optim.groups import parameter_groups
from pretrain.optim.moments import Members, MomentOptimizer, check_adam_options, decay_moments


def adabound(
    model: nn.Module,
    *,
    lr: float,
    betas: list[float],
    final_lr: float = 0.1,
    gamma: float = 1e-3,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    layer_decay: float = 1.0,
) -> torch.optim.Optimizer:
    """Return AdaBound over the model's parameter groups (`groups.py`: decay on matrices only, layer-wise rates).

    `lr` is Adam's peak rate at the start and `final_lr` SGD's at the end, both scaled by the schedule; `gamma` is how
    fast the bounds close. `weight_decay` is decoupled, as in AdamW (the paper adds it to the gradient).

    Raises InputError for values outside their range.
    """
    check_adam_options(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
    if not final_lr > 0.0:
        raise InputError(f"optimizer.final_lr must be above 0, but is {final_lr}.")
    if not 0.0 < gamma < 1.0:
        raise InputError(f"optimizer.gamma must be above 0 and below 1, but is {gamma}.")
    groups = parameter_groups(model, lr=lr, weight_decay=weight_decay, layer_decay=layer_decay)
    for group in groups:
        group["peak_lr"] = group["lr"]
    return AdaBound(groups, betas=betas, eps=eps, final_lr=final_lr, gamma=gamma)


class AdaBound(MomentOptimizer):
    """w = w - clip(lr / (sqrt(v^) + eps'), low, high) m / (1 - b1^t) element by element (Luo et al. 2019, algorithm 2).

    low = f (1 - 1 / (gamma t + 1)) and high = f (1 + 1 / (gamma t)), with t from 1 and f = final_lr lr / peak lr. As in
    the authors' code the corrections of both moments are part of the rate that is clipped:
    lr sqrt(1 - b2^t) / (1 - b1^t) / (sqrt(v) + eps).
    """

    def update(self, group: dict[str, Any], members: Members, step: int) -> None:
        """As `MomentOptimizer.update`."""
        beta_1, beta_2 = group["betas"]
        decay_moments(members, beta_1, beta_2)
        rate = group["lr"] * (1.0 - beta_2**step) ** 0.5 / (1.0 - beta_1**step)
        final = group["final_lr"] * group["lr"] / group["peak_lr"] if group["peak_lr"] else 0.0
        low, high = final * (1.0 - 1.0 / (group["gamma"] * step + 1.0)), final * (1.0 + 1.0 / (group["gamma"] * step))
        rates = torch._foreach_sqrt(members.second)
        torch._foreach_add_(rates, group["eps"])
        torch._foreach_reciprocal_(rates)
        torch._foreach_mul_(rates, rate)
        torch._foreach_clamp_min_(rates, low)
        torch._foreach_clamp_max_(rates, high)
        torch._foreach_mul_(members.parameters, 1.0 - group["lr"] * group["weight_decay"])
        torch._foreach_addcmul_(members.parameters, rates, members.first, value=-1.0)
