"""Holm's correction: by hand, by its rule, and in what it promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain.evaluation.multiple_comparisons import holm


def test_holm_by_hand():
    # In order .01, .02, .03, .04: times 4, 3, 2, 1 is .04, .06, .06, .04, and none may be below the one before.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.9]).tolist() == [1.0, 1.0]
    assert holm([0.03]).tolist() == [0.03] and holm([]).tolist() == []


def test_what_is_no_probability_is_refused():
    for bad in ([0.5, 1.05], [-0.1], [float("nan")]):
        with pytest.raises(ValueError, match="between 0 and 1"):
            holm(bad)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.001, 0.5))
def test_it_rejects_step_by_step_as_the_rule_says(p_values, level):
    corrected = holm(p_values)
    rejected = np.zeros(len(p_values), dtype=bool)
    for step, index in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[index] * (len(p_values) - step) > level:
            break
        rejected[index] = True
    np.testing.assert_array_equal(corrected <= level, rejected)
    assert (corrected >= np.minimum(np.asarray(p_values), 1.0)).all() and (corrected <= 1.0).all()


def test_among_true_nulls_one_is_rejected_no_more_often_than_the_level():
    tables = np.random.default_rng(0).random((2000, 20))
    false = np.mean([(holm(row) < 0.05).any() for row in tables])
    assert 0.03 < false < 0.065 and np.mean((tables < 0.05).any(axis=1)) > 0.6
