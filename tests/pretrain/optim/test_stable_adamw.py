import numpy as np
import pytest
import torch

from conf.errors import InputError
from pretrain.optim.adamw import adamw
from pretrain.optim.stable_adamw import stable_adamw

OPTIONS = {"lr": 0.01, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.1}
FACTORS = [0.1, 0.5, 1.0, 1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]


def update(weight, gradient, state, step, rate, decay):
    """By plain moments, corrected afterwards: the same numbers by another way than corrected betas."""
    state["m"] = 0.9 * state["m"] + 0.1 * gradient
    state["v"] = 0.98 * state["v"] + 0.02 * gradient**2
    first, second = state["m"] / (1 - 0.9**step), state["v"] / (1 - 0.98**step)
    growth = np.sqrt((gradient**2 / np.maximum(second, 1e-12)).mean())
    rate = rate / max(1.0, growth)
    return weight - rate * (first / (np.sqrt(second) + 1e-6) + decay * weight)


def test_every_update_is_the_formulas(train, reference, assert_same):
    assert_same(train(lambda model: stable_adamw(model, **OPTIONS), FACTORS), reference(update, 0.01, 0.1, FACTORS))


def test_a_step_is_shorter_than_adamws_where_gradients_have_just_grown(train):
    stable = train(lambda model: stable_adamw(model, **OPTIONS))
    plain = train(lambda model: adamw(model, **OPTIONS))
    # The gradients of step 7 are 30 times the earlier ones.
    moved = [np.abs(run[7]["0.weight"] - run[6]["0.weight"]).max() for run in (stable, plain)]
    assert moved[0] < moved[1] / 2


def test_the_state_is_named_as_adams_and_counts_updates():
    model = torch.nn.Linear(2, 2)
    optimizer = stable_adamw(model, **OPTIONS)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    state = optimizer.state[model.weight]
    assert set(state) == {"step", "exp_avg", "exp_avg_sq"} and int(state["step"]) == 3


def test_it_says_that_it_needs_whole_parameters():
    assert stable_adamw(torch.nn.Linear(2, 2), **OPTIONS).needs_whole_parameters is True


def test_values_out_of_range_are_named():
    with pytest.raises(InputError, match=r"optimizer\.eps"):
        stable_adamw(torch.nn.Linear(2, 2), **{**OPTIONS, "eps": -1.0})
