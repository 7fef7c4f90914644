import pytest
import torch

from conf.errors import InputError
from pretrain.optim.nesterov import nesterov

FACTORS = [1.0, 0.8, 0.8, 0.1, 0.1, 1.0, 1.0, 0.5, 0.5, 0.01, 0.01, 0.01]


def by_velocity(weight, gradient, state, step, rate, decay):
    """With the rate inside the velocity, as fairseq writes it: v' = mu (rate / old rate) v - rate g, which is rescaled
    when the rate changes, and w' = w + mu v' - rate g (Bengio et al. 2013, equations 6 and 7)."""
    gradient = gradient + decay * weight
    velocity = state["m"] * (rate / state.get("rate", rate)) * 0.9 - rate * gradient
    state["m"], state["rate"] = velocity, rate
    return weight + 0.9 * velocity - rate * gradient


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_every_update_is_the_formulas(train, reference, assert_same, decay):
    make = lambda model: nesterov(model, lr=0.05, momentum=0.9, weight_decay=decay)  # noqa: E731
    assert_same(train(make, FACTORS), reference(by_velocity, 0.05, decay, FACTORS))


def test_two_steps_by_hand():
    # w = 1, g = 1 twice, rate 0.1, momentum 0.5: v = 1, w = 1 - 0.1 (1 + 0.5) = 0.85; v = 1.5, w = 0.85 - 0.1 (1.75).
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    optimizer = nesterov(model, lr=0.1, momentum=0.5)
    for wanted in (0.85, 0.675):
        model.weight.grad = torch.ones(1, 1)
        optimizer.step()
        assert float(model.weight.detach()) == pytest.approx(wanted)


def test_the_published_recipe_is_the_default():
    (group,) = nesterov(torch.nn.Linear(2, 2, bias=False), lr=0.25).param_groups
    assert (group["lr"], group["momentum"], group["nesterov"], group["weight_decay"]) == (0.25, 0.99, True, 0.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lr": -0.1}, r"optimizer\.lr must not be negative, but is -0.1"),
        ({"weight_decay": -1.0}, r"optimizer\.weight_decay must not be negative"),
        ({"momentum": 1.0}, r"optimizer\.momentum must be above 0 and below 1, but is 1.0"),
        ({"momentum": 0.0}, r"optimizer\.momentum must be above 0 and below 1, but is 0.0"),
    ],
)
def test_values_out_of_range_are_named(wrong, message):
    with pytest.raises(InputError, match=message):
        nesterov(torch.nn.Linear(2, 2), **{"lr": 0.1, **wrong})
