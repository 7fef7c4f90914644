"""AdamW (Loshchilov and Hutter, 2019), and BERT's original form of it without bias correction.

The kept implementation is torch's, in its fused form: one pass over each parameter, on CUDA and on a CPU (where it
takes a quarter of the plain form's time). DeepSpeed's FusedAdam and CPUAdam are not taken: they compute the same, but
compile at first use (minutes). torch has none without bias correction, so that form is ours. Must not import deepspeed.
"""

from typing import Any

import torch
from torch import nn

from pretrain.optim.groups import parameter_groups
from pretrain.optim.moments import Members, MomentOptimizer, check_adam_options, decay_moments


def adamw(
    model: nn.Module,
    *,
    lr: float,
    betas: list[float],
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    bias_correction: bool = True,
    layer_decay: float = 1.0,
) -> torch.optim.Optimizer:
    """Return AdamW over the model's parameter groups (`groups.py`: decay on matrices only, layer-wise rates).

    `lr` is the peak rate, which a schedule scales. `bias_correction`: false is BERT's released optimiser (Devlin et al.
    2019), whose moments start at 0 uncorrected, so that its first updates are lr (1 - b1) / sqrt(1 - b2), 3.2 lr with
    betas of 0.9 and 0.999.

    Raises InputError for values outside their range.
    """
    check_adam_options(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
    groups = parameter_groups(model, lr=lr, weight_decay=weight_decay, layer_decay=layer_decay)
    if not bias_correction:
        return UncorrectedAdamW(groups, betas=betas, eps=eps)
    return torch.optim.AdamW(groups, lr=lr, betas=(betas[0], betas[1]), eps=eps, weight_decay=weight_decay, fused=True)


class UncorrectedAdamW(MomentOptimizer):
    """w = w - lr (m / (sqrt(v) + eps) + weight_decay w), with m and v as they are (BERT's optimization.py)."""

    def update(self, group: dict[str, Any], members: Members, step: int) -> None:
        """As `MomentOptimizer.update`."""
        decay_moments(members, *group["betas"])
        denominators = torch._foreach_sqrt(members.second)
        torch._foreach_add_(denominators, group["eps"])
        torch._foreach_mul_(members.parameters, 1.0 - group["lr"] * group["weight_decay"])
        torch._foreach_addcdiv_(members.parameters, members.first, denominators, value=-group["lr"])
