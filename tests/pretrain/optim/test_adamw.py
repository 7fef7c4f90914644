import math

import numpy as np
import pytest
import torch

from conf.errors import InputError
from pretrain.optim.adamw import UncorrectedAdamW, adamw

OPTIONS = {"lr": 0.01, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.1}
FACTORS = [0.1, 0.5, 1.0, 1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]


def formula(bias_correction):
    def update(weight, gradient, state, step, rate, decay):
        state["m"] = 0.9 * state["m"] + 0.1 * gradient
        state["v"] = 0.98 * state["v"] + 0.02 * gradient**2
        first, second = state["m"], state["v"]
        if bias_correction:
            first, second = first / (1 - 0.9**step), second / (1 - 0.98**step)
        return weight - rate * (first / (np.sqrt(second) + 1e-6) + decay * weight)

    return update


@pytest.mark.parametrize("bias_correction", [True, False])
def test_every_update_is_the_formulas(train, reference, assert_same, bias_correction):
    ours = train(lambda model: adamw(model, **OPTIONS, bias_correction=bias_correction), FACTORS)
    assert_same(ours, reference(formula(bias_correction), 0.01, 0.1, FACTORS))


def test_without_bias_correction_the_first_update_is_longer_as_the_docstring_says():
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(0.0)
    optimizer = adamw(model, lr=1.0, betas=[0.9, 0.999], eps=1e-12, weight_decay=0.0, bias_correction=False)
    model.weight.grad = torch.full_like(model.weight, 0.7)
    optimizer.step()
    assert -model.weight.item() == pytest.approx(0.1 / math.sqrt(0.001), rel=1e-5)


def test_both_forms_keep_state_under_the_same_names():
    for bias_correction in (True, False):
        model = torch.nn.Linear(2, 3)
        optimizer = adamw(model, **OPTIONS, bias_correction=bias_correction)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        for parameter in model.parameters():
            state = optimizer.state[parameter]
            assert set(state) == {"step", "exp_avg", "exp_avg_sq"} and int(state["step"]) == 1
            assert state["exp_avg"].shape == state["exp_avg_sq"].shape == parameter.shape


def test_the_corrected_form_is_torchs_own_and_fused():
    optimizer = adamw(torch.nn.Linear(2, 3), **OPTIONS)
    assert type(optimizer) is torch.optim.AdamW
    assert optimizer.param_groups[0]["fused"] is True
    assert type(adamw(torch.nn.Linear(2, 3), **OPTIONS, bias_correction=False)) is UncorrectedAdamW


@pytest.mark.parametrize(
    "wrong",
    [
        {"lr": -1.0},
        {"lr": math.nan},
        {"eps": 0.0},
        {"weight_decay": -0.1},
        {"betas": [0.9]},
        {"betas": [0.9, 1.0]},
        {"layer_decay": 0.0},
        {"layer_decay": 1.1},
    ],
)
def test_values_out_of_range_are_named(wrong):
    with pytest.raises(InputError, match=f"optimizer.{next(iter(wrong))}"):
        adamw(torch.nn.Linear(2, 3), **{**OPTIONS, **wrong})
