import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pretrain.loss_scale import LossScale


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5), st.integers(4, 20))
def test_the_scale_is_that_of_torchs_scaler(finite, window, exponent):
    """torch's GradScaler as the oracle, by its own update of scale and growth tracker (above 1, where ours stays)."""
    ours = LossScale(2.0**exponent, window)
    scale, tracker = torch.tensor(2.0**exponent), torch.tensor(0, dtype=torch.int32)
    for step in finite:
        ours.update(finite=step)
        torch._amp_update_scale_(scale, tracker, torch.tensor(0.0 if step else 1.0), 2.0, 0.5, window)
        scale.clamp_(min=1.0)
        assert ours.factor == float(scale)
        assert ours.clean_steps == int(tracker)


@given(st.lists(st.booleans(), max_size=60), st.lists(st.booleans(), max_size=60))
def test_a_restored_scale_goes_on_as_the_first_would(before, after):
    first, second = LossScale(2.0**8, 3), LossScale(2.0**16, 3)
    for finite in before:
        first.update(finite=finite)
    second.restore(first.factor, first.clean_steps)
    for finite in after:
        first.update(finite=finite)
        second.update(finite=finite)
    assert (first.factor, first.clean_steps) == (second.factor, second.clean_steps)


def test_the_scale_stays_a_power_of_two_between_1_and_the_largest():
    low, high = LossScale(2.0, 1), LossScale(2.0**1022, 1)
    for _ in range(3):
        low.update(finite=False)
        high.update(finite=True)
    assert low.factor == 1.0
    assert high.factor == 2.0**1023
    assert math.frexp(high.factor)[0] == pytest.approx(0.5)
