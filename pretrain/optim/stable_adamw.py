"""StableAdamW (Wortsman et al. 2023): AdamW that shortens its step on a parameter whose gradients have just grown.

ModernBERT's optimiser. Ours: torch has none; the package torch-optimi, which its authors used, computes the same (it
was compared once, update for update), but would be one more dependency for one formula, and its state differs from
Adam's. Must not import deepspeed.
"""

from typing import Any

import torch
from torch import Tensor, nn

from pretrain.optim.groups import parameter_groups
from pretrain.optim.moments import Members, MomentOptimizer, check_adam_options, decay_moments


def stable_adamw(
    model: nn.Module,
    *,
    lr: float,
    betas: list[float],
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    layer_decay: float = 1.0,
) -> torch.optim.Optimizer:
    """Return StableAdamW over the model's parameter groups (`groups.py`: decay on matrices only, layer-wise rates).

    `lr` is the peak rate, which a schedule scales. It takes the place of gradient clipping, which may be 0 with it.
    `weight_decay` is multiplied by the rate, as in AdamW: a "fully decoupled" decay d of another library (ModernBERT:
    1e-5), which is multiplied by the schedule's factor only, is weight_decay = d / lr here.

    Raises InputError for values outside their range.
    """
    check_adam_options(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
    groups = parameter_groups(model, lr=lr, weight_decay=weight_decay, layer_decay=layer_decay)
    return StableAdamW(groups, betas=betas, eps=eps)


class StableAdamW(MomentOptimizer):
    """Algorithm 2 of Wortsman et al. (2023), for each parameter by itself.

    The bias correction is in the betas, b_t = b (1 - b^(t-1)) / (1 - b^t), so the moments that are kept are corrected
    ones: m, v. rms = sqrt(mean(g^2 / max(v, eps^2))), rate = lr / max(1, rms), and then
    w = w - rate weight_decay w - rate m / (sqrt(v) + eps). The mean runs over the whole of a parameter: ZeRO stages 1
    to 3 would hand over pieces of many parameters glued together.
    """

    needs_whole_parameters = True

    def update(self, group: dict[str, Any], members: Members, step: int) -> None:
        """As `MomentOptimizer.update`."""
        eps = group["eps"]
        decay_moments(members, *(beta * (1 - beta ** (step - 1)) / (1 - beta**step) for beta in group["betas"]))
        for parameter, gradient, first, second in zip(
            members.parameters, members.gradients, members.first, members.second, strict=True
        ):
            rate = group["lr"] / _growth(gradient, second, eps).clamp(min=1.0)
            parameter.mul_(1.0 - rate * group["weight_decay"])
            parameter.sub_(first.div(second.sqrt().add_(eps)).mul_(rate))


def _growth(gradient: Tensor, second: Tensor, eps: float) -> Tensor:
    """Return sqrt(mean(g^2 / max(v, eps^2))), a scalar on the device: about 1, and more where gradients have grown."""
    return gradient.square().div_(second.clamp(min=eps**2)).mean().sqrt()
