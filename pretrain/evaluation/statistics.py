"""How sure a score is: intervals that respect what items have in common. Pure functions; must not import torch.

Items that share a template, or sentences of one document, or predictions of one trained model, are not independent:
200 pairs of one contrast are nearly one coin toss. So whole clusters are resampled or whole clusters' sums give the
variance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, stdtrit  # scipy.stats takes half a second to import, for the same figures

CONFIDENCE = 0.95
RESAMPLES = 10_000


@dataclass(frozen=True)
class Estimate:
    """A score with its interval, `low <= value <= high` but for the rounding of a bootstrap."""

    value: float
    low: float
    high: float


def cluster_sums(values: NDArray[np.float64], clusters: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums and counts per cluster, clusters in the order of their names.

    Args:
        values: [repetitions, items], one row per trained or initialised model.
        clusters: [items], the name of each item's cluster.

    Returns:
        Two arrays [clusters, repetitions].
    """
    _, inverse = np.unique(np.asarray(clusters), return_inverse=True)
    size = int(inverse.max()) + 1
    sums = np.stack([np.bincount(inverse, weights=row, minlength=size) for row in values], axis=1)
    per_cluster = np.bincount(inverse, minlength=size).astype(np.float64)
    return sums.astype(np.float64), np.repeat(per_cluster[:, None], len(values), axis=1)


def expanded_level(confidence: float, size: int) -> float:
    """The tail (one side) at which to cut a bootstrap distribution of `size` resampled units.

    A percentile interval is too narrow for few units: it lacks the factor sqrt(n / (n - 1)) and uses normal instead
    of t quantiles. Cutting at Phi(-sqrt(n / (n - 1)) t) mends both (Hesterberg 2015, "What Teachers Should Know About
    the Bootstrap", the expanded percentile interval).
    """
    if size < 2:
        raise ValueError(f"an interval needs at least 2 units to resample, but there is {size}")
    t = stdtrit(size - 1, 0.5 + confidence / 2)
    return float(ndtr(-np.sqrt(size / (size - 1)) * t))


def cluster_bootstrap(
    values: ArrayLike,
    clusters: ArrayLike,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    expand: bool = True,
) -> Estimate:
    """Mean of all values with a bootstrap interval that resamples whole clusters.

    With several repetitions (rows) these are resampled too, independently of the clusters: the pigeonhole bootstrap
    for crossed factors (Owen 2007), whose interval is never too narrow for either. One repetition is not resampled:
    the interval then speaks of this one model.

    Args:
        values: [items] or [repetitions, items].
        clusters: [items].
        seed: of the resampling; the same seed gives the same interval.
        confidence: coverage of the two-sided interval.
        resamples: bootstrap samples.
        expand: correct for few units (`expanded_level`; the smaller number of clusters and repetitions counts).

    Raises:
        ValueError: fewer than 2 clusters.
    """
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    sums, counts = cluster_sums(table, clusters)
    number, repetitions = sums.shape
    units = number if repetitions == 1 else min(number, repetitions)
    tail = expanded_level(confidence, units) if expand else (1 - confidence) / 2
    if number < 2:
        raise ValueError("an interval needs at least 2 clusters, but there is 1")
    generator = np.random.default_rng(seed)
    rows = generator.multinomial(number, np.full(number, 1 / number), size=resamples).astype(np.float64)
    if repetitions == 1:
        columns = np.ones((resamples, 1))
    else:
        columns = generator.multinomial(repetitions, np.full(repetitions, 1 / repetitions), size=resamples).astype(
            np.float64
        )
    means = ((rows @ sums) * columns).sum(axis=1) / ((rows @ counts) * columns).sum(axis=1)
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(float(sums.sum() / counts.sum()), float(low), float(high))


def seeds_and_items_interval(values: ArrayLike, clusters: ArrayLike, confidence: float = CONFIDENCE) -> Estimate:
    """Mean over trained models and items with a t interval for another seed AND other items.

    The variance is the sum of two parts: between seeds, var(mean per seed) / seeds; and between clusters of items,
    G / (G - 1) * sum over clusters of (sum of the seed-averaged deviations)^2 / items^2 (the cluster-robust variance
    of a mean). The degrees of freedom are Welch's and Satterthwaite's. With one seed only the second part is there.
    Bounds are kept within [0, 1]: the values are shares.

    Args:
        values: [seeds, items] of values in [0, 1], the same items in every row.
        clusters: [items], for example the document that an item comes from.
        confidence: coverage of the two-sided interval.

    Raises:
        ValueError: fewer than 2 clusters.
    """
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    seeds, items = table.shape
    mean = float(table.mean())
    per_item = table.mean(axis=0, keepdims=True)
    sums, _ = cluster_sums(per_item - mean, clusters)
    groups = len(sums)
    if groups < 2:
        raise ValueError("an interval needs at least 2 clusters of items, but there is 1")
    item_variance = groups / (groups - 1) * float((sums**2).sum()) / items**2
    seed_variance = float(table.mean(axis=1).var(ddof=1)) / seeds if seeds > 1 else 0.0
    total = item_variance + seed_variance
    if total == 0.0:
        return Estimate(mean, mean, mean)
    freedom = total**2 / (item_variance**2 / (groups - 1) + (seed_variance**2 / (seeds - 1) if seeds > 1 else 0.0))
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * total**0.5
    return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half))


def exact_interval(right: int, n: int, confidence: float = CONFIDENCE) -> Estimate:
    """The share of right among n independent items, with the exact binomial interval of Clopper and Pearson (1934).

    Its bounds are the shares at which so many right, or so few, would have a chance of (1 - confidence) / 2.

    Raises:
        ValueError: no item, or more right than there are.
    """
    if not 0 <= right <= n or n < 1:
        raise ValueError(f"of at least 1 item at most all can be right, but these are {right} of {n}")
    tail = (1 - confidence) / 2
    low = float(betaincinv(right, n - right + 1, tail)) if right else 0.0
    high = float(betaincinv(right + 1, n - right, 1 - tail)) if right < n else 1.0
    return Estimate(right / n, low, high)


def exact_share(values: ArrayLike, groups: ArrayLike, confidence: float = CONFIDENCE) -> Estimate | None:
    """`exact_interval`, where it holds: one model, every item a group of its own and either right (1) or wrong (0).

    Args:
        values: [items] or [runs, items].
        groups: [items].

    Returns:
        None where it does not hold.
    """
    table, names = np.atleast_2d(np.asarray(values, dtype=np.float64)), np.asarray(groups)
    if len(table) > 1 or len(np.unique(names)) < len(names) or not np.isin(table, (0.0, 1.0)).all():
        return None
    return exact_interval(int(table.sum()), table.size, confidence)


def share_interval(values: ArrayLike, clusters: ArrayLike) -> Estimate:
    """`seeds_and_items_interval`, which for a share of exactly 0 or 1 would have no width.

    There the bound is that of an exact interval for G of G clusters: (1 - confidence) / 2 to the power 1 / G (Clopper
    and Pearson 1934).
    """
    estimate = seeds_and_items_interval(values, clusters)
    width = 1 - ((1 - CONFIDENCE) / 2) ** (1 / len(np.unique(np.asarray(clusters))))
    if estimate.value == 1.0:
        return Estimate(1.0, 1 - width, 1.0)
    if estimate.value == 0.0:
        return Estimate(0.0, 0.0, width)
    return estimate


def verdict(pretrained: Estimate, random: Estimate) -> str:
    """ "wins" or "loses" if the two intervals do not meet, else "undecided".

    Stricter than a test of the difference: two intervals may overlap and the difference still be real, never the
    other way round.
    """
    if pretrained.low > random.high:
        return "wins"
    if pretrained.high < random.low:
        return "loses"
    return "undecided"
