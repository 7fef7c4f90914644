"""Intervals: hand computations, scipy where it has the same thing, and the coverage they promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pretrain.evaluation.statistics import (
    Estimate,
    cluster_bootstrap,
    cluster_sums,
    exact_interval,
    exact_share,
    expanded_level,
    seeds_and_items_interval,
    verdict,
)


def test_cluster_sums_by_hand():
    sums, counts = cluster_sums(np.array([[1.0, 0.0, 1.0], [0.5, 0.5, 0.0]]), ["b", "a", "b"])
    np.testing.assert_array_equal(sums, [[0.0, 0.5], [2.0, 0.5]])
    np.testing.assert_array_equal(counts, [[1.0, 1.0], [2.0, 2.0]])


def test_equals_scipy_where_every_item_is_its_own_cluster():
    values = np.random.default_rng(3).random(80)
    ours = cluster_bootstrap(values, np.arange(80), resamples=40_000, expand=False)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=40_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert ours.value == pytest.approx(values.mean(), abs=1e-12)
    assert ours.low == pytest.approx(theirs.low, abs=2e-3)
    assert ours.high == pytest.approx(theirs.high, abs=2e-3)


def test_two_clusters_by_hand():
    # Clusters A = (1, 1) and B = (0, 0): resampled means are 1, 1/2, 1/2, 0 with equal chances.
    found = cluster_bootstrap([1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"], confidence=0.4, expand=False)
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    found = cluster_bootstrap([1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"], confidence=0.9, expand=False)
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)


def test_copies_of_items_within_their_clusters_change_nothing():
    generator = np.random.default_rng(0)
    values, clusters = generator.random(40), np.repeat(np.arange(10), 4)
    once = cluster_bootstrap(values, clusters)
    many = cluster_bootstrap(np.repeat(values, 50), np.repeat(clusters, 50))
    assert once.low == pytest.approx(many.low) and once.high == pytest.approx(many.high)


def test_repetitions_that_differ_widen_the_interval_though_items_are_many():
    generator = np.random.default_rng(0)
    clusters = np.repeat(np.arange(50), 10)
    means = np.array([0.3, 0.4, 0.5, 0.6, 0.7])[:, None]
    table = (generator.random((5, 500)) < means).astype(float)
    crossed = cluster_bootstrap(table, clusters)
    averaged = cluster_bootstrap(table.mean(axis=0), clusters)
    assert crossed.value == pytest.approx(averaged.value)
    assert crossed.high - crossed.low > 4 * (averaged.high - averaged.low)
    assert crossed.low <= 0.4 and crossed.high >= 0.6


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), clusters=st.integers(2, 12), repetitions=st.integers(1, 4))
def test_interval_holds_the_value_and_stays_within_the_values(seed, clusters, repetitions):
    generator = np.random.default_rng(seed)
    names = generator.integers(0, clusters, 60) % clusters
    names[:clusters] = np.arange(clusters)
    table = generator.integers(0, 2, (repetitions, 60)).astype(float)
    found = cluster_bootstrap(table, names, resamples=2000)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert found == cluster_bootstrap(table, names, resamples=2000)  # the same seed, the same interval


def test_expanded_level_by_hand():
    # n = 10: t(0.975, 9) = 2.262157, times sqrt(10 / 9) = 2.384527; Phi(-2.384527) = 0.008551
    assert expanded_level(0.95, 10) == pytest.approx(0.008551, abs=2e-6)
    assert expanded_level(0.95, 100_000) == pytest.approx(0.025, abs=1e-5)
    with pytest.raises(ValueError, match="at least 2"):
        expanded_level(0.95, 1)


def test_the_expanded_interval_covers_with_few_clusters_and_the_plain_one_does_not():
    generator = np.random.default_rng(0)
    clusters = np.repeat(np.arange(6), 5)
    hits = {True: 0, False: 0}
    for _ in range(200):
        values = np.repeat(generator.normal(size=6), 5) + 0.1 * generator.normal(size=30)
        for expand in hits:
            found = cluster_bootstrap(values, clusters, resamples=1000, expand=expand)
            hits[expand] += found.low <= 0.0 <= found.high
    assert hits[True] / 200 > 0.92
    assert hits[False] / 200 < 0.90


def test_with_items_that_agree_it_is_the_t_interval_over_seeds():
    # Each seed is right on the same share of every cluster, so that only seeds vary.
    table = np.array([[1.0, 1.0, 0.0, 1.0] * 5, [1.0, 0.0, 0.0, 1.0] * 5, [1.0, 1.0, 1.0, 1.0] * 5])
    clusters = np.repeat(np.arange(5), 4)
    found = seeds_and_items_interval(table, clusters)
    theirs = stats.ttest_1samp(table.mean(axis=1), 0.0).confidence_interval(0.95)
    assert found.value == pytest.approx(0.75)
    assert found.low == pytest.approx(theirs.low)
    assert found.high == 1.0 < theirs.high


def test_with_one_seed_and_single_items_it_is_the_t_interval_over_items():
    values = np.random.default_rng(2).integers(0, 2, 40).astype(float)
    found = seeds_and_items_interval(values, np.arange(40))
    theirs = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert found.low == pytest.approx(theirs.low) and found.high == pytest.approx(theirs.high)


def test_both_parts_of_the_variance_by_hand():
    # Seeds' means 0.5 and 0.75: variance 0.03125, over 2 seeds 0.015625.
    # Clusters a = items 0, 1 and b = items 2, 3: per-item means 1, 0.5, 0.5, 0.5, less 0.625: sums 0.25 and -0.25;
    # 2 / 1 * (0.0625 + 0.0625) / 16 = 0.015625. Degrees of freedom: 0.03125^2 / (2 * 0.015625^2) = 2.
    table = [[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]]
    found = seeds_and_items_interval(table, ["a", "a", "b", "b"], confidence=0.5)
    half = stats.t.ppf(0.75, 2) * 0.03125**0.5
    assert found.value == 0.625
    assert found.low == pytest.approx(0.625 - half) and found.high == pytest.approx(0.625 + half)


def test_bounds_stay_within_shares_and_equal_values_have_no_width():
    assert seeds_and_items_interval([[1.0, 0.0, 0.0, 0.0]], range(4)).low == 0.0
    assert seeds_and_items_interval(np.ones((3, 8)), range(8)) == Estimate(1.0, 1.0, 1.0)


def test_one_cluster_has_no_interval():
    with pytest.raises(ValueError, match="at least 2"):
        cluster_bootstrap([1.0, 0.0], ["a", "a"])
    with pytest.raises(ValueError, match="at least 2"):
        seeds_and_items_interval([1.0, 0.0], ["a", "a"])


@pytest.mark.parametrize(("right", "n"), [(0, 1), (1, 1), (0, 7), (3, 7), (7, 7), (499, 1000), (1, 2)])
def test_the_exact_interval_is_scipys(right, n):
    for confidence in (0.95, 0.5):
        theirs = stats.binomtest(right, n).proportion_ci(confidence, method="exact")
        found = exact_interval(right, n, confidence)
        assert (found.value, found.low, found.high) == pytest.approx((right / n, theirs.low, theirs.high))
    assert exact_interval(right, n) == exact_interval(right, n, 0.95)


def test_the_exact_interval_is_for_one_model_and_items_that_are_right_or_wrong():
    assert exact_share([1, 1, 0, 1], list("abcd")) == exact_interval(3, 4)
    assert exact_share([[1, 1, 0, 1]], list("abcd"), 0.5) == exact_interval(3, 4, 0.5)
    assert exact_share([1, 1, 0, 1], list("abca")) is None
    assert exact_share([1, 1, 0, 0.5], list("abcd")) is None
    assert exact_share([[1, 1, 0, 1], [1, 1, 0, 1]], list("abcd")) is None
    for right, n in ((-1, 4), (5, 4), (0, 0)):
        with pytest.raises(ValueError, match="at most all can be right"):
            exact_interval(right, n)


def test_verdict_needs_intervals_apart():
    assert verdict(Estimate(0.8, 0.7, 0.9), Estimate(0.5, 0.4, 0.6)) == "wins"
    assert verdict(Estimate(0.5, 0.4, 0.6), Estimate(0.8, 0.7, 0.9)) == "loses"
    assert verdict(Estimate(0.8, 0.6, 0.9), Estimate(0.5, 0.4, 0.6)) == "undecided"
