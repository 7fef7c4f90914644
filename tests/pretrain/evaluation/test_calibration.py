"""Calibration against scikit-learn and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from pretrain.evaluation.calibration import (
    Bin,
    brier_score,
    calibration,
    expected_calibration_error,
    reliability_bins,
)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), count=st.integers(1, 200), edges=st.booleans())
def test_bins_are_scikit_learns(seed, count, edges):
    generator = np.random.default_rng(seed)
    sure = generator.integers(0, 16, count) / 15 if edges else generator.random(count)
    right = (generator.random(count) < sure).astype(float)
    found = reliability_bins(sure, right)
    if len(set(right)) == 2 or right.max() == 1.0:
        true, mean = calibration_curve(right, sure, n_bins=15, pos_label=1.0)
        assert [one.accuracy for one in found] == pytest.approx(true)
        assert [one.confidence for one in found] == pytest.approx(mean)
    assert sum(one.count for one in found) == count


def test_the_error_by_hand():
    bins = reliability_bins([0.95, 0.97, 0.99, 0.62, 0.61], [1, 1, 0, 0, 1])
    assert [(one.confidence, one.accuracy, one.count) for one in bins] == [
        (pytest.approx(0.615), 0.5, 2),
        (pytest.approx(0.97), pytest.approx(2 / 3), 3),
    ]
    assert expected_calibration_error(bins) == pytest.approx(0.4 * 0.115 + 0.6 * (0.97 - 2 / 3))
    assert expected_calibration_error([Bin(0.8, 0.8, 5)]) == 0.0


def test_fifteen_bins_of_equal_width():
    inside = (np.arange(15) + 0.5) / 15
    assert len(reliability_bins(inside, np.ones(15))) == 15
    assert len(reliability_bins([1 / 15, 1 / 15 + 1e-9], [1, 1])) == 2  # the upper edge belongs to the bin


def test_brier_of_two_labels_is_twice_scikit_learns_and_of_three_by_hand():
    generator = np.random.default_rng(0)
    labels, share = generator.integers(0, 2, 50), generator.random(50)
    both = np.stack([1 - share, share], axis=1)
    assert brier_score(both, labels) == pytest.approx(2 * brier_score_loss(labels, share))
    assert brier_score([[0.2, 0.5, 0.3]], [1]) == pytest.approx(0.04 + 0.25 + 0.09)
    assert brier_score([[1.0, 0.0]], [1]) == 2.0


def test_runs_are_averaged_and_share_their_bins():
    labels = np.array([1, 0])
    sharp = np.array([[0.1, 0.9], [0.9, 0.1]])
    blunt = np.array([[0.3, 0.7], [0.3, 0.7]])
    found = calibration("t", "pretrained", [sharp, blunt], [sharp.argmax(1).astype(float), np.ones(2)], labels)
    assert (found.task, found.model, found.runs, found.n) == ("t", "pretrained", 2, 2)
    assert found.ece == pytest.approx((0.1 + 0.2) / 2)
    assert found.brier == pytest.approx((0.02 + (0.18 + 0.98) / 2) / 2)
    assert [(one.confidence, one.accuracy, one.count) for one in found.bins] == [
        (pytest.approx(0.7), 0.5, 2),
        (pytest.approx(0.9), 1.0, 2),
    ]


def test_the_confidence_is_that_of_the_decision_even_if_it_is_not_the_likeliest():
    # Folded from (.4, .3, .3): the decision was label 0, though label 1 has .6.
    found = calibration("t", "pretrained", [np.array([[0.4, 0.6]])], [np.zeros(1)], [0])
    assert found.bins == (Bin(0.4, 1.0, 1),)
    over = calibration("t", "pretrained", [np.array([[1.000001, 0.0]])], [np.zeros(1)], [0])  # rounded shares
    assert over.bins[0].confidence == 1.0


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="0 confidences of 0"):
        reliability_bins([], [])
    with pytest.raises(ValueError, match="2 confidences of 1"):
        reliability_bins([0.5, 0.5], [1])
    with pytest.raises(ValueError, match="between 0 and 1"):
        reliability_bins([1.05], [1])
    with pytest.raises(ValueError, match="do not go with"):
        brier_score([[0.5, 0.5]], [0, 1])
