"""LAMB (You et al. 2020): Adam whose step on each parameter has the length of that parameter.

Ours: torch has none, DeepSpeed's runs on CUDA only, compiles at first use and clamps the ratio, and apex is not
maintained for current torch. Must not import deepspeed.
"""

from typing import Any

import torch
from torch import Tensor, nn

from pretrain.optim.groups import parameter_groups
from pretrain.optim.moments import Members, MomentOptimizer, check_adam_options, decay_moments


def lamb(
    model: nn.Module,
    *,
    lr: float,
    betas: list[float],
    eps: float = 1e-6,
    weight_decay: float = 0.01,
    bias_correction: bool = True,
    adapt_vectors: bool = True,
    layer_decay: float = 1.0,
) -> torch.optim.Optimizer:
    """Return LAMB over the model's parameter groups (`groups.py`: decay on matrices only, layer-wise rates).

    `lr` is the peak rate, relative to each parameter's norm. `bias_correction`: as in the paper's algorithm 2 (true).
    `adapt_vectors`: whether biases and norm gains have a trust ratio too, as in the paper's algorithm; the authors'
    BERT code leaves them out (false), and takes plain Adam steps there.

    Raises InputError for values outside their range.
    """
    check_adam_options(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
    groups = parameter_groups(model, lr=lr, weight_decay=weight_decay, layer_decay=layer_decay)
    return Lamb(groups, betas=betas, eps=eps, bias_correction=bias_correction, adapt_vectors=adapt_vectors)


class Lamb(MomentOptimizer):
    """u = m / (sqrt(v) + eps) + weight_decay w, then w = w - lr ratio u (You et al. 2020, algorithm 2).

    ratio = |w| / |u|, and 1 where either norm is 0, for each parameter by itself. So every update needs the whole of a
    parameter: ZeRO stages 1 to 3 would hand over pieces of many parameters glued together.
    """

    needs_whole_parameters = True

    def update(self, group: dict[str, Any], members: Members, step: int) -> None:
        """As `MomentOptimizer.update`."""
        beta_1, beta_2 = group["betas"]
        decay_moments(members, beta_1, beta_2)
        corrected = group["bias_correction"]
        denominators = torch._foreach_sqrt(members.second)
        if corrected:
            torch._foreach_div_(denominators, (1.0 - beta_2**step) ** 0.5)
        torch._foreach_add_(denominators, group["eps"])
        updates = torch._foreach_div(members.first, denominators)
        if corrected:
            torch._foreach_div_(updates, 1.0 - beta_1**step)
        torch._foreach_add_(updates, members.parameters, alpha=group["weight_decay"])
        for parameter, update in zip(members.parameters, updates, strict=True):
            if group["adapt_vectors"] or parameter.ndim >= 2:
                update.mul_(_trust_ratio(parameter, update))
        torch._foreach_add_(members.parameters, updates, alpha=-group["lr"])


def _trust_ratio(parameter: Tensor, update: Tensor) -> Tensor:
    """|parameter| / |update|, 1 where either is 0; a scalar on the device, so that nothing waits for it."""
    weight, step = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(update)
    return torch.where((weight > 0) & (step > 0), weight / step, torch.ones_like(weight))
