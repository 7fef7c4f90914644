"""Weighted metrics against the plain ones on repeated items; intervals against simulation and the mean's own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.evaluation.metric_intervals import runs_and_items_interval, weighted_metric
from pretrain.evaluation.metrics import METRICS, exact_match
from pretrain.evaluation.statistics import seeds_and_items_interval

NAMES = list(METRICS)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), labels=st.integers(2, 4))
def test_an_item_of_weight_two_counts_as_two_items(name, seed, labels):
    generator = np.random.default_rng(seed)
    count = int(generator.integers(3, 30))
    expected = generator.integers(labels, size=count).astype(float)
    found = generator.integers(labels, size=count).astype(float)
    if name in ("f1", "f1a"):
        expected, found = expected % 2, found % 2
    if name in ("pearson", "spearman"):
        found = found + generator.normal(size=count).round(1)
    weights = generator.integers(0, 4, size=(5, count)).astype(float)
    weights[:, 0] = 1
    got = weighted_metric(name, expected, found, weights)
    for row, value in zip(weights.astype(int), got, strict=True):
        plain = METRICS[name](np.repeat(expected, row), np.repeat(found, row))
        assert value == pytest.approx(plain, abs=1e-9)


def test_exact_match_counts_questions():
    labels, found = [1, 0, 1, 1, 0, 0], [1, 0, 1, 0, 0, 0]
    questions = ["a", "a", "b", "b", "c", "c"]
    ones = np.ones((1, 6))
    assert weighted_metric("exact_match", labels, found, ones, questions)[0] == exact_match(labels, found, questions)
    twice = np.array([[1, 1, 1, 1, 2, 2.0]])
    assert weighted_metric("exact_match", labels, found, twice, questions)[0] == pytest.approx(3 / 4)


def test_of_a_mean_it_is_the_interval_for_means():
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 5).astype(str)
    right = (generator.random((4, 300)) < 0.7).astype(float)
    exact = seeds_and_items_interval(right, groups)
    found = runs_and_items_interval(
        lambda weights: np.stack([weights @ run / weights.sum(axis=1) for run in right]), 300, groups, 0.0
    )
    assert found.value == pytest.approx(exact.value)
    assert found.high - found.low == pytest.approx(exact.high - exact.low, rel=0.06)


def test_few_groups_are_as_uncertain_as_the_exact_formula_says():
    right = np.array([[1, 1, 1, 0, 0, 0, 1, 0.0]])
    groups = ["a", "a", "b", "b", "c", "c", "d", "d"]
    exact = seeds_and_items_interval(right, groups, confidence=0.5)
    found = runs_and_items_interval(
        lambda weights: (weights @ right[0] / 8)[None, :], 8, groups, 0.0, confidence=0.5, resamples=20_000
    )
    assert found.high - found.low == pytest.approx(exact.high - exact.low, rel=0.03)


def test_bounds_stay_within_what_the_metric_can_be_and_one_group_is_refused():
    labels = np.arange(10.0)

    def statistic(weights):
        return weighted_metric("pearson", labels, labels + np.array([0, 1] * 5), weights)[None, :]

    found = runs_and_items_interval(statistic, 10, [str(i) for i in range(10)], -1.0)
    assert -1.0 <= found.low < found.value < found.high <= 1.0
    with pytest.raises(ValueError, match="at least 2 clusters"):
        runs_and_items_interval(statistic, 10, ["one"] * 10, -1.0)


@pytest.mark.full
def test_the_interval_covers_the_true_correlation_as_often_as_it_says():
    generator = np.random.default_rng(1)
    rho, covered = 0.6, 0
    for number in range(300):
        x = generator.normal(size=120)
        y = rho * x + np.sqrt(1 - rho**2) * generator.normal(size=120)
        found = runs_and_items_interval(
            lambda weights, x=x, y=y: weighted_metric("pearson", x, y, weights)[None, :],
            120,
            [str(i) for i in range(120)],
            -1.0,
            seed=number,
            resamples=400,
        )
        covered += found.low <= rho <= found.high
    assert 0.91 <= covered / 300 <= 0.985
