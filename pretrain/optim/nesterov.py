"""Stochastic gradient descent with Nesterov's momentum, the optimiser of convolutional sequence-to-sequence models.

The kept implementation is torch's: its update is the one of Sutskever et al. (2013) in the form of Bengio et al.
(2013), which fairseq's `nag` writes with the rate inside the momentum; the two agree at any schedule. Must not import
deepspeed.
"""

import torch
from torch import nn

from conf.errors import InputError
from pretrain.optim.groups import parameter_groups


def nesterov(
    model: nn.Module,
    *,
    lr: float,
    momentum: float = 0.99,
    weight_decay: float = 0.0,
    layer_decay: float = 1.0,
) -> torch.optim.Optimizer:
    """Return torch's SGD with v = momentum v + g, w = w - lr (g + momentum v), over the groups of `groups.py`.

    g is the gradient plus `weight_decay` times the weight (matrices only): the penalty goes through the momentum, so it
    shrinks weights by about lr * weight_decay / (1 - momentum) a step, not by lr * weight_decay as in AdamW. `lr` is
    the peak rate, which a schedule scales. The defaults are those of Gehring et al. (2017), whose gradients are clipped
    to a norm of 0.1 (trainer.gradient_clipping): with a momentum of 0.99 steps grow to a hundred gradients.

    Raises InputError for values outside their range.
    """
    for name, value in (("lr", lr), ("weight_decay", weight_decay)):
        if not value >= 0.0:
            raise InputError(f"optimizer.{name} must not be negative, but is {value}.")
    if not 0.0 < momentum < 1.0:
        raise InputError(f"optimizer.momentum must be above 0 and below 1, but is {momentum}.")
    groups = parameter_groups(model, lr=lr, weight_decay=weight_decay, layer_decay=layer_decay)
    return torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=True, fused=True)
