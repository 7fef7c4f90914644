import numpy as np
import pytest
import torch

from conf.errors import InputError
from pretrain.optim.adabound import adabound

OPTIONS = {"lr": 0.01, "betas": [0.9, 0.98], "eps": 1e-8, "weight_decay": 0.1, "final_lr": 0.1, "gamma": 0.05}
FACTORS = [0.1, 0.5, 1.0, 1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]


def update(weight, gradient, state, step, rate, decay):
    state["m"] = 0.9 * state["m"] + 0.1 * gradient
    state["v"] = 0.98 * state["v"] + 0.02 * gradient**2
    own = rate * np.sqrt(1 - 0.98**step) / (1 - 0.9**step) / (np.sqrt(state["v"]) + 1e-8)
    final = 0.1 * rate / 0.01
    own = np.clip(own, final * (1 - 1 / (0.05 * step + 1)), final * (1 + 1 / (0.05 * step)))
    return weight - rate * decay * weight - own * state["m"]


def test_every_update_is_the_formulas(train, reference, assert_same):
    assert_same(train(lambda model: adabound(model, **OPTIONS), FACTORS), reference(update, 0.01, 0.1, FACTORS))


def test_both_bounds_hold_the_rate_at_exact_points():
    # gamma 0.5, t = 1: bounds final * (1 - 1 / 1.5) = 1/3 final and final * 3. Adam's own rate is lr / |g|.
    for gradient, rate in ((1.0, 0.1), (1e-3, 0.3), (1e3, 1 / 30)):
        model = torch.nn.Linear(1, 1, bias=False).double()
        model.weight.data.zero_()
        model.weight.grad = torch.full_like(model.weight, gradient)
        adabound(model, lr=0.01, betas=[0.9, 0.999], final_lr=0.1, gamma=0.5, weight_decay=0.0).step()
        # Corrections aside, lr sqrt(1 - b2) / (1 - b1) / sqrt((1 - b2) g^2) = lr / (0.1 |g|), times m = 0.1 g.
        assert -model.weight.item() == pytest.approx(rate * 0.1 * gradient, rel=1e-5)


def test_a_peak_rate_of_0_changes_nothing():
    model = torch.nn.Linear(2, 2)
    before = model.weight.detach().clone()
    optimizer = adabound(model, lr=0.0, betas=[0.9, 0.999])
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize("wrong", [{"final_lr": 0.0}, {"gamma": 0.0}, {"gamma": 1.0}, {"lr": -1.0}])
def test_values_out_of_range_are_named(wrong):
    with pytest.raises(InputError, match=f"optimizer.{next(iter(wrong))}"):
        adabound(torch.nn.Linear(2, 2), **{**OPTIONS, **wrong})
