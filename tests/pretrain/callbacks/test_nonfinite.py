import contextlib

import torch
from torch import nn

from pretrain.callbacks.nonfinite import NonFinite, first_nonfinite_module


class Block(nn.Module):
    """Divides by `divisor` between its two layers, in its own forward."""

    def __init__(self, divisor=1.0):
        super().__init__()
        self.first, self.second, self.divisor = nn.Linear(4, 4), nn.Linear(4, 4), divisor

    def forward(self, hidden):
        return self.second(self.first(hidden) / self.divisor)


def model(*divisors):
    torch.manual_seed(0)
    return nn.ModuleDict({"blocks": nn.Sequential(*(Block(divisor) for divisor in divisors)), "head": nn.Linear(4, 2)})


def search(built):
    return first_nonfinite_module(built, lambda: built["head"](built["blocks"](torch.ones(2, 4))))


def test_a_finite_pass_finds_nothing_and_leaves_no_hook():
    built = model(1.0, 1.0)
    assert search(built) is None
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in built.modules())


def test_a_module_whose_parameter_is_not_finite_is_named_with_it():
    built = model(1.0, 1.0)
    with torch.no_grad():
        built["blocks"][1].first.bias[2] = float("inf")
    assert search(built) == NonFinite("blocks.1.first", "its parameter 'bias' is not finite")


def test_what_a_module_computes_between_its_submodules_is_its_own():
    assert search(model(1.0, 0.0, 1.0)) == NonFinite("blocks.1", "what it hands to 'second'")


def test_hooks_are_removed_when_the_pass_raises():
    built = model(1.0)
    with contextlib.suppress(RuntimeError):
        first_nonfinite_module(built, lambda: built["head"](torch.ones(2, 3)))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in built.modules())


def test_compiled_modules_are_looked_into():
    built = model(1.0, 0.0)
    compiled = torch.compile(built["blocks"], backend="eager")
    compiled(torch.ones(2, 4))  # compiled without hooks
    assert first_nonfinite_module(built, lambda: compiled(torch.ones(2, 4))).module == "blocks.1"
