import pytest
import torch

from conf.errors import InputError
from pretrain.optim.optimizers import adamw, parameter_groups


def small_model():
    return torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))


def test_weight_decay_is_never_on_biases_and_norms():
    decayed, plain = parameter_groups(small_model(), 0.1)
    assert decayed["names"] == ["0.weight", "1.weight"] and decayed["weight_decay"] == 0.1
    assert plain["names"] == ["1.bias", "2.weight", "2.bias"] and plain["weight_decay"] == 0.0


def test_adamw_agrees_with_the_formula_on_the_first_two_updates():
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    optimizer = adamw(model, lr=0.1, betas=[0.9, 0.99], eps=1e-6, weight_decay=0.5)
    weight, first, second = 1.0, 0.0, 0.0
    for step, gradient in enumerate((0.3, -0.7), start=1):
        model.weight.grad = torch.full_like(model.weight, gradient)
        optimizer.step()
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        weight -= 0.1 * 0.5 * weight
        weight -= 0.1 * (first / (1 - 0.9**step)) / ((second / (1 - 0.99**step)) ** 0.5 + 1e-6)
        assert model.weight.item() == pytest.approx(weight, rel=1e-6)


@pytest.mark.parametrize("wrong", [{"lr": -1.0}, {"eps": 0.0}, {"betas": [0.9]}, {"betas": [0.9, 1.0]}])
def test_values_out_of_range_are_named(wrong):
    options = {"lr": 0.1, "betas": [0.9, 0.99], **wrong}
    with pytest.raises(InputError, match=f"optimizer.{next(iter(wrong))}"):
        adamw(small_model(), **options)
