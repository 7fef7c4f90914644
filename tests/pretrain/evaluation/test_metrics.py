"""Metrics: scikit-learn and the formulas themselves as oracles, ties by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from conf.errors import InputError
from pretrain.evaluation.metrics import (
    METRICS,
    correct,
    exact_match,
    f1,
    f1_macro,
    labelled_scores,
    majority_share,
    matthews,
    pair_correct,
    pearson,
    spearman,
)


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


def by_hand(labels, predictions):
    """True and false positives, false and true negatives of label 1."""
    pairs = list(zip(labels, predictions, strict=True))
    return [pairs.count(cell) for cell in ((1, 1), (0, 1), (1, 0), (0, 0))]


BINARY = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=30)


@pytest.mark.filterwarnings("ignore:A single label")
@settings(max_examples=40)
@given(BINARY)
def test_f1_and_matthews_equal_their_formulas(pairs):
    labels, predictions = zip(*pairs, strict=True)
    tp, fp, fn, tn = by_hand(labels, predictions)
    assert f1(labels, predictions) == pytest.approx(2 * tp / max(2 * tp + fp + fn, 1), abs=1e-12)
    root = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert matthews(labels, predictions) == pytest.approx((tp * tn - fp * fn) / root if root else 0.0, abs=1e-12)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30))
def test_macro_f1_is_the_mean_over_the_labels_that_occur(pairs):
    labels, predictions = np.array(pairs).T
    occurring = np.union1d(labels, predictions)
    expected = np.mean([f1(labels == label, predictions == label) for label in occurring])
    assert f1_macro(labels, predictions) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=2, max_size=30))
def test_correlations_equal_their_formulas(pairs):
    x, y = np.array(pairs, dtype=float).T
    constant = np.ptp(x) == 0 or np.ptp(y) == 0
    expected = 0.0 if constant else np.corrcoef(x, y)[0, 1]
    assert pearson(x, y) == pytest.approx(expected, abs=1e-9)
    ranks = [np.array([(side < value).sum() + (side <= value).sum() for value in side]) for side in (x, y)]
    assert spearman(x, y) == pytest.approx(0.0 if constant else np.corrcoef(*ranks)[0, 1], abs=1e-9)


def test_exact_match_by_hand():
    questions = ["a", "a", "b", "c", "c"]
    assert exact_match([1, 0, 1, 0, 0], [1, 0, 1, 1, 0], questions) == pytest.approx(2 / 3)
    assert METRICS["f1a"]([1, 0, 1, 0, 0], [1, 0, 1, 1, 0]) == pytest.approx(0.8)
    with pytest.raises(ValueError, match="there are 1 questions of answers, but 2 answers"):
        exact_match([1, 0], [1, 0], ["a"])


def test_items_without_a_label_do_not_count():
    scores = labelled_scores(["accuracy", "exact_match"], [1, None, 0, 1], [1, 0, 0, 0], ["a", "a", "a", "b"])
    assert scores == {"accuracy": pytest.approx(2 / 3), "exact_match": 0.5}
    with pytest.raises(InputError, match="matthews, f1 cannot be given: all 2 labels are hidden"):
        labelled_scores(["matthews", "f1"], [None, None], [0, 1])
    with pytest.raises(InputError, match="exact_match needs the question of each item"):
        labelled_scores(["exact_match"], [1], [1])
    with pytest.raises(InputError, match=r"must be one of accuracy, .*, exact_match, but is 'bleu'"):
        labelled_scores(["bleu"], [1], [1])
    with pytest.raises(ValueError, match="there are 2 labels, but predictions have shape"):
        labelled_scores(["accuracy"], [1, 0], [1])


@pytest.mark.parametrize("metric", list(METRICS.values()))
def test_every_metric_refuses_what_is_no_number_and_lists_of_other_lengths(metric):
    for predictions in ([float("nan"), 1.0], [float("inf"), 1.0]):
        with pytest.raises(ValueError, match="1 predictions are not numbers"):
            metric([0, 1], predictions)
    for labels, predictions in (([1, 0], [1]), ([], [])):
        with pytest.raises(ValueError, match="two lists of one length above 0"):
            metric(labels, predictions)


@pytest.mark.parametrize("metric", ["matthews", "pearson", "spearman"])
def test_a_run_that_always_says_the_same_scores_zero(metric):
    assert METRICS[metric]([0, 1, 1], [1, 1, 1]) == 0.0
