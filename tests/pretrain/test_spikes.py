import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.spikes import SpikeRule

norms = st.floats(0.0, 1e6)
windows = st.integers(2, 20)


def accepted(rule, values):
    return [norm for norm in values if rule.judge(norm) is None]


@given(st.lists(norms, max_size=60), windows, st.floats(0.1, 20.0))
def test_the_last_accepted_norms_are_remembered_and_no_refused_one(values, window, sigmas):
    rule = SpikeRule(sigmas, window)
    kept = accepted(rule, values)
    assert rule.recent == kept[-window:]


@given(st.lists(norms, min_size=2, max_size=20), norms)
def test_a_spike_lies_beyond_so_many_sigmas_of_the_window(values, norm):
    """numpy's mean and deviation as the oracle, away from the border."""
    rule = SpikeRule(3.0, len(values), values)
    mean, deviation = np.mean(values), np.std(values)
    limit = mean + 3.0 * max(deviation, 1e-3 * mean)
    if abs(norm - limit) > 1e-6 * (1 + limit):
        assert (rule.judge(norm) is not None) == (norm > limit)


@given(st.lists(norms, max_size=19))
def test_nothing_is_a_spike_before_the_window_is_full(values):
    rule = SpikeRule(0.1, 20)
    assert accepted(rule, values) == values
    assert rule.judge(1e30) is None


@given(st.lists(norms, max_size=60), st.lists(norms, max_size=30), windows)
def test_a_restored_rule_goes_on_as_the_first_would(before, after, window):
    first = SpikeRule(1.0, window)
    accepted(first, before)
    second = SpikeRule(1.0, window)
    second.restore(first.recent)
    assert accepted(first, after) == accepted(second, after)
    assert first.recent == second.recent


@given(norms, windows, st.floats(0, 1e-4))
def test_rounding_noise_on_equal_norms_is_no_spike(norm, window, noise):
    rule = SpikeRule(1.0, window, [norm] * window)
    assert rule.judge(norm * (1 + noise)) is None


def test_the_reason_names_norm_sigmas_window_and_limit():
    rule = SpikeRule(6, 4, [1.0, 2.0, 1.0, 2.0])
    assert rule.judge(4.6) == "gradient norm 4.6 is beyond 6 sigma of the last 4 (4.5)"
    assert rule.judge(4.4) is None
    assert rule.recent == [2.0, 1.0, 2.0, 4.4]


def test_of_a_longer_history_the_newest_norms_count():
    assert SpikeRule(6, 2, [1.0, 2.0, 3.0]).recent == [2.0, 3.0]


@pytest.mark.parametrize("norm", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_is_not_for_this_rule(norm):
    with pytest.raises(ValueError, match="must be finite"):
        SpikeRule(6).judge(norm)


def test_the_last_128_norms_count_where_nothing_else_is_said():
    assert SpikeRule(6, recent=[1.0] * 127).judge(1e6) is None
    assert SpikeRule(6, recent=[1.0] * 128).judge(1e6) is not None
    rule = SpikeRule(6, recent=[100.0, *[1.0] * 128])
    assert rule.recent == [1.0] * 128


def test_options_out_of_range_are_named():
    with pytest.raises(InputError, match="sigmas must be above 0"):
        SpikeRule(0.0)
    with pytest.raises(InputError, match="window must be at least 2"):
        SpikeRule(6.0, 1)
