"""Dropout: the rate, the mean, the gradient and the seed."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.models.dropout import dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_the_rate_is_as_asked_and_the_rest_is_scaled_by_it(probability, dtype):
    torch.manual_seed(0)
    out = dropout(torch.ones(1000, 1001, dtype=dtype), probability)
    zeros = float((out == 0).float().mean())
    assert zeros == pytest.approx(probability, abs=4 * (probability * (1 - probability) / out.numel()) ** 0.5)
    assert float(out.max()) == pytest.approx(1 / (1 - probability), rel=1e-3 if dtype == torch.float32 else 8e-3)
    assert len(out.unique()) == 2


def test_the_mean_stays_though_the_rate_is_rounded():
    # 0.3 is no multiple of 2^-16: what is kept must be divided by the rounded share.
    torch.manual_seed(0)
    dropped = round(0.3 * 2**16)
    assert float(dropout(torch.ones(100), 0.3).max()) == torch.tensor(2**16 / (2**16 - dropped)).item()


def test_elements_are_dropped_independently_of_their_neighbours():
    # Four elements share one 64-bit draw: all 16 patterns of four must be as likely as for independent ones.
    torch.manual_seed(0)
    kept = (dropout(torch.ones(400_000), 0.5) > 0).view(-1, 4).long()
    counts = torch.bincount((kept * torch.tensor([1, 2, 4, 8])).sum(1), minlength=16).double()
    expected = len(kept) / 16
    assert float(((counts - expected) ** 2 / expected).sum()) < 37.7  # chi-square, 15 degrees, p = 0.001


@settings(max_examples=30, deadline=None)
@given(
    shape=st.lists(st.integers(0, 7), min_size=0, max_size=4),
    probability=st.floats(0, 1, exclude_max=True),
    seed=st.integers(0, 2**31),
)
def test_the_gradient_is_dropped_like_the_values_and_the_seed_gives_both(shape, probability, seed):
    x = torch.full(shape, 2.0, requires_grad=True)
    torch.manual_seed(seed)
    out = dropout(x, probability)
    torch.manual_seed(seed)
    assert torch.equal(out, dropout(x, probability))
    (gradient,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(gradient * 2, out.detach())


def test_views_are_dropped_in_their_own_shape():
    x = torch.ones(6, 4).t()
    assert dropout(x, 0.5).shape == (4, 6)


def test_evaluation_and_probability_0_are_the_identity():
    x = torch.randn(5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0) is x


def test_compiled_code_uses_the_compilers_own():
    torch.manual_seed(3)
    expected = F.dropout(torch.ones(64), 0.5)
    torch.manual_seed(3)
    compiled = torch.compile(lambda x: dropout(x, 0.5), backend="eager")
    assert torch.equal(compiled(torch.ones(64)), expected)
