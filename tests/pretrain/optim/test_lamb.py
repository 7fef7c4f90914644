import numpy as np
import pytest
import torch

from conf.errors import InputError
from pretrain.optim.lamb import lamb

OPTIONS = {"lr": 0.01, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.1}
FACTORS = [0.1, 0.5, 1.0, 1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]


def formula(bias_correction, adapt_vectors):
    def update(weight, gradient, state, step, rate, decay):
        state["m"] = 0.9 * state["m"] + 0.1 * gradient
        state["v"] = 0.98 * state["v"] + 0.02 * gradient**2
        first, second = state["m"], state["v"]
        if bias_correction:
            first, second = first / (1 - 0.9**step), second / (1 - 0.98**step)
        direction = first / (np.sqrt(second) + 1e-6) + decay * weight
        lengths = np.sqrt((weight**2).sum()), np.sqrt((direction**2).sum())
        ratio = lengths[0] / lengths[1] if min(lengths) > 0 and (adapt_vectors or weight.ndim > 1) else 1.0
        return weight - rate * ratio * direction

    return update


@pytest.mark.parametrize("bias_correction", [True, False])
@pytest.mark.parametrize("adapt_vectors", [True, False])
def test_every_update_is_the_formulas(train, reference, assert_same, bias_correction, adapt_vectors):
    make = lambda model: lamb(  # noqa: E731
        model, **OPTIONS, bias_correction=bias_correction, adapt_vectors=adapt_vectors
    )
    assert_same(train(make, FACTORS), reference(formula(bias_correction, adapt_vectors), 0.01, 0.1, FACTORS))


def one_step(weight, gradient):
    model = torch.nn.Linear(2, 2, bias=False).double()
    model.weight.data.copy_(torch.tensor(weight))
    model.weight.grad = torch.tensor(gradient, dtype=torch.float64)
    lamb(model, lr=0.1, betas=[0.9, 0.999], eps=1e-12, weight_decay=0.0).step()
    return model.weight.detach().flatten().tolist()


def test_a_step_has_the_length_of_the_parameter_times_the_rate():
    # Adam's first step is the sign of the gradient, of length 2; the parameter's is 5: each element moves by 0.1 * 5/2.
    assert one_step([[3.0, 4.0], [0.0, 0.0]], [[1.0, -2.0], [3.0, 4.0]]) == pytest.approx([2.75, 4.25, -0.25, -0.25])


def test_the_ratio_is_1_where_a_norm_is_0():
    assert one_step([[0.0, 0.0], [0.0, 0.0]], [[1.0, -2.0], [3.0, 4.0]]) == pytest.approx([-0.1, 0.1, -0.1, -0.1])
    assert one_step([[3.0, 4.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]) == [3.0, 4.0, 0.0, 0.0]


def test_it_says_that_it_needs_whole_parameters():
    assert lamb(torch.nn.Linear(2, 2), **OPTIONS).needs_whole_parameters is True


def test_values_out_of_range_are_named():
    with pytest.raises(InputError, match=r"optimizer\.betas"):
        lamb(torch.nn.Linear(2, 2), **{**OPTIONS, "betas": [0.9, 0.9, 0.9]})
