"""Two systems on the same items: how large is the difference, and is it real? Pure functions; must not import torch.

Items that have something in common stand or fall together, so whole groups of them are resampled and swapped. A
difference is always the second system's score less the first's.

With one run a side all these speak of those two models on other items of the kind. With several runs a side the
spread between runs is part of the error too, and the answer is about the ways in which the models were made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, gammaln, stdtr, stdtrit  # scipy.stats takes half a second to import

from pretrain.evaluation.metric_intervals import RESAMPLES as BOOTSTRAP_RESAMPLES
from pretrain.evaluation.metric_intervals import Matrix, Statistic, group_numbers, resampled_weights, rows_at_once
from pretrain.evaluation.statistics import CONFIDENCE, cluster_sums

RESAMPLES = 10_000
EXACT_UP_TO = 1_000_000  # distinct sums that a randomisation test counts instead of drawing
_ROUNDING = 1e-9  # what is nearer than this is equal

# Weights [resamples, 2 * items] -> a metric [resamples]: the first system's answers to all items, then the second's.
PairStatistic = Callable[[Matrix], Matrix]


@dataclass(frozen=True)
class Difference:
    """Second less first, with a 95 % interval.

    `error` is its standard error with `freedom` degrees of freedom, over `groups` groups of items and the runs; `p` is
    that of a two-sided t test of no difference.
    """

    value: float
    low: float
    high: float
    error: float
    freedom: float
    groups: int
    p: float


@dataclass(frozen=True)
class McNemar:
    """Items that only the first, only the second system has right, and the two-sided p."""

    only_first: int
    only_second: int
    p: float


def mean_difference(
    first: ArrayLike, second: ArrayLike, groups: ArrayLike, confidence: float = CONFIDENCE
) -> Difference:
    """The difference of two means of values per item: what `paired_bootstrap` comes to with endless resamples.

    The variance is the sum of G / (G - 1) * sum over groups of (sum of the deviations of the paired differences,
    averaged over runs)^2 / items^2, and var(mean of a run) / runs for each system with several runs; the degrees of
    freedom are Welch's and Satterthwaite's.

    Args:
        first: [items] or [runs, items], values in [0, 1].
        second: the same items; not necessarily as many runs.
        groups: [items], the name of each item's group.
        confidence: coverage of the two-sided interval.

    Raises:
        ValueError: other items, or fewer than 2 groups.
    """
    one, other = (np.atleast_2d(np.asarray(values, dtype=np.float64)) for values in (first, second))
    if one.shape[1] != other.shape[1]:
        raise ValueError(f"the first system has {one.shape[1]} items, but the second {other.shape[1]}")
    paired = other.mean(axis=0) - one.mean(axis=0)
    sums, _ = cluster_sums((paired - paired.mean())[None, :], groups)
    count = _checked(len(sums))
    of_items = count / (count - 1) * float((sums**2).sum()) / paired.size**2
    spreads = [(values.mean(axis=1), len(values)) for values in (one, other)]
    return _difference(float(paired.mean()), of_items, count, spreads, 1.0, confidence)


def paired_bootstrap(
    first: Statistic,
    second: Statistic,
    items: int,
    groups: ArrayLike,
    reach: float = 1.0,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    resamples: int = BOOTSTRAP_RESAMPLES,
) -> Difference:
    """The difference of any metric, by resampling whole groups: both systems are scored on the same resampled items.

    The error has two parts, as that of `metric_intervals.runs_and_items_interval`: the variance of the difference over
    resampled groups, times G / (G - 1), as a bootstrap divides by G; and the variance over resampled runs,
    independently of the groups, which is var(value of a run) / runs and needs no drawing.

    Args:
        first: the metric of every run of the first system under weights of the items.
        second: the same of the second.
        items: their number.
        groups: [items].
        reach: the largest difference that the metric can have: 1 for shares, 2 for correlations.
        seed: of the resampling.
        confidence: coverage of the two-sided interval.
        resamples: bootstrap samples.

    Raises:
        ValueError: fewer than 2 groups.
    """
    group_of, count = group_numbers(groups)
    _checked(count)
    ones = np.ones((1, items))
    spreads = [(values, len(values)) for values in (first(ones)[:, 0], second(ones)[:, 0])]
    drawn = [
        second(weights).mean(axis=0) - first(weights).mean(axis=0)
        for weights in resampled_weights(group_of, count, resamples, seed)
    ]
    of_items = float(np.concatenate(drawn).var(ddof=1)) * count / (count - 1)
    value = float(spreads[1][0].mean() - spreads[0][0].mean())
    return _difference(value, of_items, count, spreads, reach, confidence)


def mean_randomisation(
    first: ArrayLike, second: ArrayLike, groups: ArrayLike, seed: int = 0, resamples: int = RESAMPLES
) -> float:
    """Two-sided p of a difference of means: the share of swaps that give one at least as large, either way.

    If the two systems are alike, swapping their values in any of the groups gives what might as well have been seen
    (Noreen 1989). Swaps whose groups differ by the same amount are counted together, so that the p is exact unless
    there are more than `EXACT_UP_TO` distinct sums; else `resamples` swaps are drawn, and (1 + as large) / (1 + all)
    is the p.

    Args:
        first: [items], values of one run.
        second: [items].
        groups: [items]; a whole group is swapped or not.
        seed: of the drawing.
        resamples: swaps to draw.

    Raises:
        ValueError: other items.
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape or one.ndim != 1:
        raise ValueError(f"the first system has values of shape {one.shape}, but the second {other.shape}")
    sums, _ = cluster_sums((other - one)[None, :], groups)
    seen = abs(float(sums.sum())) - _ROUNDING
    unlike = np.round(np.abs(sums[:, 0]), 12).astype(np.float64)
    sizes, counts = np.unique(unlike[unlike > 0], return_counts=True)
    distribution = _swapped_sums(sizes, counts)
    if distribution is not None:
        found, chances = distribution
        return min(1.0, float(chances[np.abs(found) >= seen].sum()))
    generator = np.random.default_rng(seed)
    swapped = np.zeros(resamples)
    for size, count in zip(sizes, counts, strict=True):
        swapped += size * (2.0 * generator.binomial(count, 0.5, resamples) - count)
    return float((1 + (np.abs(swapped) >= seen).sum()) / (1 + resamples))


def metric_randomisation(
    statistic: PairStatistic, items: int, groups: ArrayLike, seed: int = 0, resamples: int = RESAMPLES
) -> float:
    """Two-sided p of a difference of any metric by swapping the systems' answers in whole groups.

    As `mean_randomisation`; exact where there are not more ways to swap than `resamples`.

    Args:
        statistic: the metric of one run. It gets weights of 2 * items answers, the first system's, then the second's:
            swapping an item moves its weight of 1 from one to the other.
        items: their number.
        groups: [items].
        seed: of the drawing.
        resamples: swaps to draw.
    """
    group_of, count = group_numbers(groups)
    exact = 2**count <= resamples
    ways = 2**count if exact else resamples
    generator = np.random.default_rng(seed)
    step = rows_at_once(2 * items)
    seen = abs(_swapped_difference(statistic, np.zeros((1, items)))[0]) - _ROUNDING
    as_large = 0
    for start in range(0, ways, step):
        rows = np.arange(start, min(ways, start + step))
        if exact:
            swaps = (rows[:, None] >> np.arange(count)) & 1
        else:
            swaps = generator.integers(0, 2, size=(len(rows), count))
        found = _swapped_difference(statistic, swaps[:, group_of].astype(np.float64))
        as_large += int((np.abs(found) >= seen).sum())
    return as_large / ways if exact else (1 + as_large) / (1 + ways)


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """McNemar's test (1947) in its exact form, for one run a side and items that are independent.

    Of the items that one system alone has right each is as often the one's as the other's, if they are alike: a
    binomial test with 1/2, both tails.

    Args:
        first: [items], 1 where right, else 0.
        second: [items].

    Raises:
        ValueError: other items, or values that are neither 0 nor 1.
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.shape != other.shape or one.ndim != 1:
        raise ValueError(f"the first system has values of shape {one.shape}, but the second {other.shape}")
    if not np.isin(np.concatenate([one, other]), (0.0, 1.0)).all():
        raise ValueError("McNemar's test is of items that are right (1) or wrong (0), but there are other values")
    only_first, only_second = int((one > other).sum()), int((other > one).sum())
    tail = float(bdtr(min(only_first, only_second), only_first + only_second, 0.5))
    return McNemar(only_first, only_second, min(1.0, 2.0 * tail))


def _difference(
    value: float,
    of_items: float,
    count: int,
    spreads: Sequence[tuple[NDArray[np.float64], int]],
    reach: float,
    confidence: float,
) -> Difference:
    parts = [(of_items, count - 1)]
    parts += [(float(values.var(ddof=1)) / runs, runs - 1) for values, runs in spreads if runs > 1]
    total = sum(variance for variance, _ in parts)
    if total < _ROUNDING**2:
        return _without_spread(value, count, reach, confidence)
    freedom = total**2 / sum(variance**2 / units for variance, units in parts)
    error = total**0.5
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * error
    p = 2.0 * float(stdtr(freedom, -abs(value) / error))
    return Difference(value, max(-reach, value - half), min(reach, value + half), error, freedom, count, p)


def _without_spread(value: float, count: int, reach: float, confidence: float) -> Difference:
    """Every group shows the same difference, mostly none: that is no proof that another would.

    As for a share of exactly 0, the bound is that of an exact interval for none of G groups, (1 - confidence) / 2 to
    the power 1 / G (Clopper and Pearson 1934); p is that of a sign test of the groups.
    """
    half = reach * (1 - ((1 - confidence) / 2) ** (1 / count))
    p = 1.0 if abs(value) < _ROUNDING else 2.0 * 0.5**count
    return Difference(value, max(-reach, value - half), min(reach, value + half), 0.0, count - 1.0, count, p)


def _swapped_sums(
    sizes: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """All sums of +-size, and their chances; None where there are too many."""
    found: NDArray[np.float64] = np.zeros(1)
    chances: NDArray[np.float64] = np.ones(1)
    for size, count in zip(sizes, counts.tolist(), strict=True):
        if len(found) * (count + 1) > EXACT_UP_TO:
            return None
        kept = np.arange(count + 1)
        logs = gammaln(count + 1) - gammaln(kept + 1) - gammaln(count - kept + 1) - count * np.log(2.0)
        sums = np.round(found[:, None] + size * (2.0 * kept - count), 12).reshape(-1)
        weights = (chances[:, None] * np.exp(logs)).reshape(-1)
        found, place = np.unique(sums, return_inverse=True)
        chances = np.bincount(place, weights=weights).astype(np.float64)
    return found, chances


def _swapped_difference(statistic: PairStatistic, swapped: Matrix) -> Matrix:
    """[R] from swaps [R, items], 1 where the systems change places."""
    first = statistic(np.concatenate([1.0 - swapped, swapped], axis=1))
    return statistic(np.concatenate([swapped, 1.0 - swapped], axis=1)) - first


def _checked(count: int) -> int:
    if count < 2:
        raise ValueError("a difference with an interval needs at least 2 groups of items, but there is 1")
    return count
