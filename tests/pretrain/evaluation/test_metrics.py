"""Metrics: scikit-learn as the oracle, ties by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from pretrain.evaluation.metrics import correct, majority_share, pair_correct


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1))
def test_accuracy_equals_scikit_learn(pairs):
    labels, predictions = zip(*pairs, strict=True)
    assert correct(labels, predictions).mean() == pytest.approx(accuracy_score(labels, predictions), abs=1e-12)


def test_a_tie_counts_one_half():
    np.testing.assert_array_equal(pair_correct([-1.0, -3.0, -2.0], [-2.0, -1.0, -2.0]), [1.0, 0.0, 0.5])
    np.testing.assert_array_equal(pair_correct([1.0], [1.1], tolerance=0.2), [0.5])


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.randoms(use_true_random=False))
def test_swapping_good_and_bad_gives_the_complement(good, random):
    bad = [random.choice([value, random.uniform(-5, 5)]) for value in good]
    assert np.all(pair_correct(good, bad) + pair_correct(bad, good) == 1.0)


def test_scores_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="1 pairs have a score that is not a number"):
        pair_correct([float("nan"), 1.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="not a number"):
        pair_correct([float("inf")], [float("inf")])


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="shape"):
        correct([1, 0], [1])
    with pytest.raises(ValueError, match="shape"):
        pair_correct([1.0, 0.0], [1.0])


def test_majority_share_by_hand():
    assert majority_share([0, 1, 1, 2]) == 0.5
