"""Paired tests against scipy's, by hand, and against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import f1_score

from pretrain.evaluation.metric_intervals import resampled_weights, weighted_metric
from pretrain.evaluation.paired_tests import (
    mcnemar,
    mean_difference,
    mean_randomisation,
    metric_randomisation,
    paired_bootstrap,
)


def single(count):
    return [str(number) for number in range(count)]


def of_means(values):
    """The mean of every run as a statistic of weights."""
    return lambda weights: np.stack([weights @ run / weights.sum(axis=1) for run in np.atleast_2d(values)])


def two_predictions(labels, first, second, name):
    both = np.concatenate([first, second])
    return lambda weights: weighted_metric(name, np.concatenate([labels, labels]), both, weights)


def test_one_run_on_single_items_is_scipys_paired_t_test():
    generator = np.random.default_rng(0)
    first, second = generator.random(40), generator.random(40) + 0.1
    found = mean_difference(first, second, single(40))
    theirs = stats.ttest_rel(second, first)
    bounds = theirs.confidence_interval(0.95)
    assert found.value == pytest.approx((second - first).mean())
    assert found.p == pytest.approx(theirs.pvalue)
    assert (found.low, found.high, found.freedom) == pytest.approx((bounds.low, bounds.high, 39))
    assert found.error == pytest.approx(found.value / theirs.statistic)


def test_items_that_agree_leave_scipys_welch_test_of_the_runs():
    first = np.tile([[0.5], [0.6], [0.55]], (1, 8))
    second = np.tile([[0.7], [0.72], [0.6], [0.8], [0.75]], (1, 8))
    found = mean_difference(first, second, single(8))
    theirs = stats.ttest_ind(second[:, 0], first[:, 0], equal_var=False)
    bounds = theirs.confidence_interval(0.95)
    assert (found.p, found.freedom) == pytest.approx((theirs.pvalue, theirs.df))
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high))


def test_items_in_groups_and_runs_add_up_by_hand():
    first = [[0.0, 1.0, 0.0, 1.0]]
    second = [[1.0, 1.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    first_run = np.array(first[0])
    second_mean = np.mean(second, axis=0)
    np.testing.assert_array_equal(second_mean - first_run, [1.0, 0.0, 0.5, 0.0])
    # The deviations from 0.375 are 0.625, -0.375, 0.125, -0.375: sums 0.25 and -0.25.
    of_items, of_runs = 2 * (0.0625 + 0.0625) / 16, 0.03125 / 2
    found = mean_difference(first, second, ["a", "a", "b", "b"])
    assert found.value == 0.375 and found.groups == 2
    assert found.error == pytest.approx((of_items + of_runs) ** 0.5)
    assert found.freedom == pytest.approx((of_items + of_runs) ** 2 / (of_items**2 + of_runs**2))


def test_the_bootstrap_of_a_mean_comes_to_the_formula():
    generator = np.random.default_rng(1)
    groups = np.repeat(np.arange(8), 5).astype(str)
    level = np.repeat(generator.normal(size=8), 5) / 4 + 0.5
    first = (generator.random((3, 40)) < 0.5).astype(float)
    second = (generator.random((4, 40)) < level).astype(float)
    exact = mean_difference(first, second, groups)
    found = paired_bootstrap(of_means(first), of_means(second), 40, groups, resamples=20_000)
    assert found.value == pytest.approx(exact.value)
    assert found.error == pytest.approx(exact.error, rel=0.03)
    assert found.freedom == pytest.approx(exact.freedom, rel=0.1)
    assert found.p == pytest.approx(exact.p, abs=0.02)
    given = (of_means(first), of_means(second), 40, groups)
    assert paired_bootstrap(*given) == paired_bootstrap(*given, seed=0) != paired_bootstrap(*given, seed=1)


def test_three_resamples_by_hand():
    first, second = np.array([1.0, 0.0, 0.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0, 0.0, 1.0])
    group_of = np.arange(5)
    (weights,) = resampled_weights(group_of, 5, 3, seed=1)
    gains = weights @ (second - first) / 5
    found = paired_bootstrap(of_means(first), of_means(second), 5, single(5), seed=1, resamples=3)
    assert len(set(gains)) > 1 and found.error == pytest.approx((gains.var(ddof=1) * 5 / 4) ** 0.5)


def test_the_bootstrap_scores_both_on_the_same_items():
    generator = np.random.default_rng(2)
    labels = generator.normal(size=60)
    near = labels + 0.5 * generator.normal(size=60)
    first = [lambda weights: weighted_metric("pearson", labels, near, weights)[None, :]]
    same = paired_bootstrap(first[0], first[0], 60, single(60), reach=2.0)
    assert (same.value, same.error, same.p) == (0.0, 0.0, 1.0)
    moved = near + 0.05 * generator.normal(size=60)
    found = paired_bootstrap(
        first[0], lambda weights: weighted_metric("pearson", labels, moved, weights)[None, :], 60, single(60), 2.0
    )
    assert 0.0 < found.error < 0.02  # a fifth of the error of either alone, or less


def test_without_any_spread_the_interval_is_the_exact_one_of_none_in_n():
    right = np.array([1.0, 0.0] * 10)
    found = mean_difference(right, right, single(20))
    exact = stats.binomtest(0, 20).proportion_ci(0.95, method="exact").high
    assert (found.low, found.high) == pytest.approx((-exact, exact))
    assert (found.value, found.error, found.p, found.freedom) == (0.0, 0.0, 1.0, 19)
    always = mean_difference(np.zeros(5), np.ones(5), single(5))
    assert (always.value, always.high) == (1.0, 1.0) and always.low == pytest.approx(0.025 ** (1 / 5))
    assert always.p == stats.binomtest(5, 5).pvalue
    wide = paired_bootstrap(of_means(right), of_means(right), 20, single(20), reach=2.0)
    assert wide.high == pytest.approx(2 * exact)
    assert paired_bootstrap(of_means(right), of_means(right), 20, single(20)).high == pytest.approx(exact)


def test_bounds_stay_within_what_a_difference_can_be():
    found = mean_difference([0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0], single(4))
    assert found.high == 1.0
    assert mean_difference([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0], single(4)).low == -1.0


def test_other_items_and_a_single_group_are_refused():
    with pytest.raises(ValueError, match="has 2 items, but the second 3"):
        mean_difference([0, 1], [0, 1, 1], ["a", "b"])
    with pytest.raises(ValueError, match="at least 2 groups"):
        mean_difference([0, 1], [1, 1], ["a", "a"])
    with pytest.raises(ValueError, match="at least 2 groups"):
        paired_bootstrap(of_means([0, 1]), of_means([1, 1]), 2, ["a", "a"])
    with pytest.raises(ValueError, match=r"shape \(2,\), but the second \(3,\)"):
        mean_randomisation([0, 1], [0, 1, 1], ["a", "b"])
    with pytest.raises(ValueError, match=r"shape \(2,\), but the second \(3,\)"):
        mcnemar([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="right \\(1\\) or wrong \\(0\\)"):
        mcnemar([0, 0.5], [0, 1])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), count=st.integers(2, 8), size=st.integers(1, 3), fine=st.booleans())
def test_randomisation_of_a_mean_is_scipys_exact_permutation_test(seed, count, size, fine):
    generator = np.random.default_rng(seed)
    draw = generator.random if fine else lambda shape: generator.integers(0, 2, shape).astype(float)
    first, second = draw(count * size), draw(count * size)
    groups = np.repeat(single(count), size)
    theirs = stats.permutation_test(
        (second.reshape(count, size).sum(axis=1), first.reshape(count, size).sum(axis=1)),
        lambda a, b, axis: (a - b).mean(axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert mean_randomisation(first, second, groups) == pytest.approx(theirs.pvalue)


def test_on_single_items_it_is_mcnemars_test_however_many_there_are():
    generator = np.random.default_rng(0)
    first, second = (generator.random((2, 3000)) < [[0.6], [0.62]]).astype(float)
    found = mcnemar(first, second)
    theirs = stats.binomtest(found.only_first, found.only_first + found.only_second, 0.5)
    assert found.p == pytest.approx(theirs.pvalue)
    assert mean_randomisation(first, second, single(3000)) == pytest.approx(theirs.pvalue)
    assert mcnemar(second, first).p == found.p


def test_mcnemar_by_hand():
    found = mcnemar([1, 1, 0, 0, 0, 0, 0], [1, 0, 1, 1, 1, 1, 0])
    assert (found.only_first, found.only_second) == (1, 4)
    assert found.p == pytest.approx(2 * (1 + 5) / 2**5)
    assert mcnemar([1, 0], [1, 0]).p == 1.0
    assert mcnemar([1, 0], [0, 1]).p == 1.0


def test_swaps_are_counted_up_to_a_million_sums_and_drawn_beyond():
    # Powers of two have 2^G distinct sums.
    gains = 2.0 ** -np.arange(19)
    assert mean_randomisation(np.zeros(19), gains, single(19)) == pytest.approx(2 / 2**19)
    gains = 2.0 ** -np.arange(20)
    assert mean_randomisation(np.zeros(20), gains, single(20)) == 1 / 10_001
    generator = np.random.default_rng(3)
    first, second = generator.random(30), generator.random(30) + 0.1
    theirs = stats.permutation_test(
        (second, first), lambda a, b, axis: (a - b).mean(axis=axis), permutation_type="samples", n_resamples=20_000,
        vectorized=True, rng=np.random.default_rng(4),
    )  # fmt: skip
    drawn = [mean_randomisation(first, second, single(30), seed) for seed in (0, 1)]
    assert drawn[0] == pytest.approx(theirs.pvalue, abs=0.02) and drawn[0] != drawn[1]
    assert mean_randomisation(first, second, single(30)) == drawn[0]


@pytest.mark.parametrize("name", ["f1", "matthews", "spearman"])
def test_randomisation_of_a_metric_is_scipys_exact_permutation_test(name):
    generator = np.random.default_rng(5)
    labels = np.array([0, 1, 1, 0, 1, 0, 1, 1.0])
    first = generator.integers(0, 2, 8).astype(float)
    second = np.where(generator.random(8) < 0.8, labels, 1 - labels)
    ones = np.ones((1, 8))

    def difference(a, b):
        return float(weighted_metric(name, labels, a, ones)[0] - weighted_metric(name, labels, b, ones)[0])

    theirs = stats.permutation_test(
        (second, first), difference, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    found = metric_randomisation(two_predictions(labels, first, second, name), 8, single(8))
    assert found == pytest.approx(theirs.pvalue)
    if name == "f1":
        assert difference(second, first) == pytest.approx(f1_score(labels, second) - f1_score(labels, first))


def test_whole_groups_are_swapped():
    labels = np.array([1, 1, 0, 0, 1, 0.0])
    statistic = two_predictions(labels, 1 - labels, labels, "f1")
    assert metric_randomisation(statistic, 6, ["a", "a", "a", "b", "b", "b"]) == 2 / 2**2
    assert metric_randomisation(statistic, 6, ["a", "a", "b", "b", "c", "c"]) == 2 / 2**3
    assert mean_randomisation(np.zeros(6), np.ones(6), ["a", "a", "b", "b", "c", "c"]) == pytest.approx(2 / 2**3)


def test_many_groups_of_a_metric_are_drawn():
    labels = np.array([0.0, 1.0] * 15)
    few = two_predictions(labels[:12], 1 - labels[:12], labels[:12], "f1")
    assert metric_randomisation(few, 12, single(12)) == 2 / 2**12  # 4,096 ways, all counted
    assert metric_randomisation(two_predictions(labels, 1 - labels, labels, "f1"), 30, single(30)) == 1 / 10_001
    generator = np.random.default_rng(6)
    first, second = (np.where(generator.random(14) < share, labels[:14], 1 - labels[:14]) for share in (0.5, 0.8))
    statistic = two_predictions(labels[:14], first, second, "matthews")
    exact = metric_randomisation(statistic, 14, single(14), resamples=2**14)
    drawn = [metric_randomisation(statistic, 14, single(14), seed) for seed in (0, 1)]
    assert drawn[0] == pytest.approx(exact, abs=0.02) and drawn[0] != drawn[1]
    assert metric_randomisation(statistic, 14, single(14)) == drawn[0]


@pytest.mark.full
def test_where_nothing_differs_five_in_a_hundred_are_called_different():
    generator = np.random.default_rng(7)
    names = np.repeat(single(40), 3)
    hits = {"t": 0, "swaps": 0, "runs": 0}
    for _ in range(400):
        level = np.repeat(generator.random(40), 3)
        first, second = (generator.random((2, 120)) < level).astype(float)
        hits["t"] += mean_difference(first, second, names).p < 0.05
        hits["swaps"] += mean_randomisation(first, second, names) < 0.05
        runs = np.clip(0.5 + 0.1 * generator.normal(size=(2, 5, 1)), 0, 1)
        many = (generator.random((2, 5, 120)) < runs).astype(float)
        hits["runs"] += mean_difference(many[0], many[1], names).p < 0.05
    assert all(0.015 <= count / 400 <= 0.085 for count in hits.values()), hits
