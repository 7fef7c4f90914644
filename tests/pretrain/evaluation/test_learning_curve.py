"""Areas under learning curves: the published weights, and rules that hold for all sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.evaluation.learning_curve import area_weights, subset

SIZES = st.lists(st.integers(1, 100_000), min_size=2, max_size=8, unique=True).map(sorted)


def test_winograndes_sizes_have_the_published_weights():
    weights = area_weights([160, 640, 2558, 10234, 40398])
    assert weights.round(6).tolist() == [0.125312, 0.250554, 0.250571, 0.249446, 0.124116]


@given(SIZES, st.floats(0, 1))
def test_the_area_is_numpys_trapezoid_over_the_range_and_a_flat_curve_is_its_value(sizes, value):
    weights = area_weights(sizes)
    assert weights @ np.full(len(sizes), value) == pytest.approx(value)
    scores = np.linspace(0.3, 0.9, len(sizes)) ** 2
    logs = np.log2(sizes)
    assert weights @ scores == pytest.approx(np.trapezoid(scores, logs) / (logs[-1] - logs[0]))


def test_sizes_that_make_no_curve_are_refused():
    with pytest.raises(InputError, match="needs at least 2 sizes, but has 1"):
        area_weights([5])
    with pytest.raises(InputError, match=r"must rise from at least 1, but are \[640, 160\]"):
        area_weights([640, 160])


@given(st.integers(2, 200), st.data(), st.integers(0, 9))
def test_smaller_training_sets_are_parts_of_larger_ones(count, data, seed):
    small = data.draw(st.integers(1, count))
    large = data.draw(st.integers(small, count))
    few, many = subset(count, small, seed), subset(count, large, seed)
    assert len(few) == small and set(few) <= set(many) <= set(range(count))
    assert few == sorted(set(few))


def test_another_seed_draws_another_set():
    assert subset(100, 20, 1) != subset(100, 20, 2)
    with pytest.raises(InputError, match="a training set of 5 items was asked for, but there are 4"):
        subset(4, 5, 0)
