"""What our own optimisers of Adam's family share: options in their range, and the two moments of each parameter.

States are named as in torch's Adam (`exp_avg`, `exp_avg_sq`, `step`), which checkpoints and ZeRO know how to carry.
Imports torch and the error class only.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from conf.errors import InputError


def check_adam_options(*, lr: float, betas: Sequence[float], eps: float, weight_decay: float) -> None:
    """Raise InputError for a value outside its range, naming the option."""
    for name, value in (("lr", lr), ("weight_decay", weight_decay)):
        if not value >= 0.0:
            raise InputError(f"optimizer.{name} must not be negative, but is {value}.")
    if not eps > 0.0:
        raise InputError(f"optimizer.eps must be above 0, but is {eps}.")
    if len(betas) != 2 or not all(0.0 <= beta < 1.0 for beta in betas):
        raise InputError(f"optimizer.betas must be two numbers in [0, 1), but is {list(betas)}.")


@dataclass
class Members:
    """The parameters of a group that have a gradient, and their state; all lists run in parallel."""

    parameters: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)
    first: list[Tensor] = field(default_factory=list)  # exp_avg
    second: list[Tensor] = field(default_factory=list)  # exp_avg_sq
    steps: list[int] = field(default_factory=list)  # updates made, this one included

    def by_step(self) -> Iterator[tuple[int, "Members"]]:
        """Yield members that are at the same update together; that is all of them, unless some had no gradient."""
        for step in sorted(set(self.steps)):
            at = [index for index, own in enumerate(self.steps) if own == step]
            lists = (self.parameters, self.gradients, self.first, self.second)
            parameters, gradients, first, second = ([items[index] for index in at] for items in lists)
            yield step, Members(parameters, gradients, first, second, [step] * len(at))


class MomentOptimizer(torch.optim.Optimizer, ABC):
    """An optimiser with Adam's two moments, one `update` for all parameters of a group that are at the same step.

    A subclass writes `update`. `step` counts in fp32 scalars on the host, as torch's Adam does where it is not fused.
    """

    def __init__(self, groups: list[dict[str, Any]], *, betas: Sequence[float], eps: float, **defaults: Any) -> None:
        first, second = betas
        super().__init__(groups, {"lr": 0.0, "weight_decay": 0.0, "betas": (first, second), "eps": eps, **defaults})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step with the gradients at hand, or with those that `closure` computes; return its loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for step, members in self._members(group).by_step():
                self.update(group, members, step)
        return loss

    @abstractmethod
    def update(self, group: dict[str, Any], members: Members, step: int) -> None:
        """Change moments and parameters of `members` in place; `step` counts updates from 1."""

    def _members(self, group: dict[str, Any]) -> Members:
        members = Members()
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros((), dtype=torch.float32)
                state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
                state["exp_avg_sq"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            state["step"] += 1
            members.parameters.append(parameter)
            members.gradients.append(parameter.grad)
            members.first.append(state["exp_avg"])
            members.second.append(state["exp_avg_sq"])
            members.steps.append(int(state["step"]))
        return members


def decay_moments(members: Members, beta_1: float, beta_2: float) -> None:
    """Move the moments towards the gradient and its square: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2."""
    torch._foreach_mul_(members.first, beta_1)
    torch._foreach_add_(members.first, members.gradients, alpha=1.0 - beta_1)
    torch._foreach_mul_(members.second, beta_2)
    torch._foreach_addcmul_(members.second, members.gradients, members.gradients, value=1.0 - beta_2)
