"""Intervals for metrics that are no mean of values per item: correlations, F1. Pure functions; must not import torch.

Every metric is written here a second time, with weights: an item of weight 2 counts as two equal items. So a bootstrap
over whole groups of items is a matrix product and not thousands of calls. `metrics.py` gives the values themselves.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from pretrain.evaluation.metrics import EXACT_MATCH
from pretrain.evaluation.statistics import CONFIDENCE, Estimate

RESAMPLES = 2000
_CELLS = 4_000_000  # numbers in one matrix of weights

Matrix = NDArray[np.float64]
# Weights [resamples, items] -> the metric of every run under them, [runs, resamples].
Statistic = Callable[[Matrix], Matrix]


def weighted_metric(
    name: str, labels: ArrayLike, predictions: ArrayLike, weights: Matrix, questions: Sequence[str] | None = None
) -> Matrix:
    """A metric of one run under weights [R, N] -> [R].

    Args:
        name: as in `metrics.METRICS`, or `exact_match`.
        labels: [N].
        predictions: [N].
        weights: 0 or more; whole groups have one weight.
        questions: [N], for `exact_match`.

    Raises:
        ValueError: no such metric.
    """
    expected, found = np.asarray(labels, dtype=np.float64), np.asarray(predictions, dtype=np.float64)
    if name == "accuracy":
        return _ratio(weights @ (expected == found).astype(np.float64), weights.sum(axis=1))
    if name == EXACT_MATCH:
        assert questions is not None
        _, first, inverse = np.unique(np.asarray(questions), return_index=True, return_inverse=True)
        wrong = np.bincount(inverse, weights=expected != found)
        per_question = weights[:, first]
        return _ratio(per_question @ (wrong == 0).astype(np.float64), per_question.sum(axis=1))
    if name in ("f1", "f1a", "f1_macro", "matthews"):
        return _of_counts(name, _confusion(expected, found, weights))
    if name == "pearson":
        return _correlation(expected[None, :], found[None, :], weights)
    if name == "spearman":
        return _correlation(_ranks(expected, weights), _ranks(found, weights), weights)
    raise ValueError(f"there is no metric '{name}'")


def runs_and_items_interval(
    statistic: Statistic,
    items: int,
    groups: ArrayLike,
    lowest: float,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> Estimate:
    """The mean over runs of a metric, with a t interval for another run AND other items.

    As `statistics.seeds_and_items_interval`, which is for means of values per item: the variance is that between runs,
    var(value per run) / runs, and that of the mean over runs when whole groups of items are resampled; the degrees of
    freedom are Welch's and Satterthwaite's. The bootstrap's variance is multiplied by G / (G - 1), as it divides by G.

    Args:
        statistic: the metric under weights of the items.
        items: their number.
        groups: [items], the name of each item's group.
        lowest: the least value that the metric can have; the greatest is 1.
        seed: of the resampling.
        confidence: coverage of the two-sided interval.
        resamples: bootstrap samples.

    Raises:
        ValueError: fewer than 2 groups.
    """
    group_of, count = group_numbers(groups)
    if count < 2:
        raise ValueError("an interval needs at least 2 clusters of items, but there is 1")
    values = statistic(np.ones((1, items)))[:, 0]
    runs = len(values)
    means = [statistic(weights).mean(axis=0) for weights in resampled_weights(group_of, count, resamples, seed)]
    item_variance = float(np.concatenate(means).var(ddof=1)) * count / (count - 1)
    run_variance = float(values.var(ddof=1)) / runs if runs > 1 else 0.0
    total, mean = item_variance + run_variance, float(values.mean())
    if total == 0.0:
        return Estimate(mean, mean, mean)
    freedom = total**2 / (item_variance**2 / (count - 1) + (run_variance**2 / (runs - 1) if runs > 1 else 0.0))
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * total**0.5
    return Estimate(mean, max(lowest, mean - half), min(1.0, mean + half))


def group_numbers(groups: ArrayLike) -> tuple[NDArray[np.int64], int]:
    """The number of each item's group, [items], by the order of their names, and how many groups there are."""
    _, group_of = np.unique(np.asarray(groups), return_inverse=True)
    return group_of.reshape(-1), int(group_of.max()) + 1


def resampled_weights(group_of: NDArray[np.int64], count: int, resamples: int, seed: int) -> Iterator[Matrix]:
    """Weights of the items when `count` groups are drawn with replacement, in parts [some resamples, items]."""
    generator = np.random.default_rng(seed)
    step = rows_at_once(len(group_of))
    for start in range(0, resamples, step):
        size = min(resamples - start, step)
        drawn = generator.multinomial(count, np.full(count, 1 / count), size=size).astype(np.float64)
        yield drawn[:, group_of]


def rows_at_once(columns: int) -> int:
    """Rows of so many numbers that one matrix may have."""
    return max(1, _CELLS // columns)


def _confusion(expected: Matrix, found: Matrix, weights: Matrix) -> Matrix:
    """[R, labels, labels]: the weight of items with a label (second axis) and a prediction (third)."""
    size = int(max(expected.max(), found.max())) + 1
    cells = expected.astype(np.int64) * size + found.astype(np.int64)
    hot = np.zeros((len(cells), size * size))
    hot[np.arange(len(cells)), cells] = 1.0
    return (weights @ hot).reshape(len(weights), size, size)


def _of_counts(name: str, counts: Matrix) -> Matrix:
    hits = np.diagonal(counts, axis1=1, axis2=2)
    true, given = counts.sum(axis=2), counts.sum(axis=1)
    if name == "matthews":
        total = counts.sum(axis=(1, 2))
        covariance = hits.sum(axis=1) * total - (true * given).sum(axis=1)
        spread = (total**2 - (given**2).sum(axis=1)) * (total**2 - (true**2).sum(axis=1))
        return _ratio(covariance, np.sqrt(np.maximum(spread, 0.0)))
    scores = _ratio(2 * hits, true + given)
    if name == "f1_macro":
        return _ratio(scores.sum(axis=1), (true + given > 0).sum(axis=1).astype(np.float64))
    return scores[:, 1] if scores.shape[1] > 1 else np.zeros(len(scores))


def _correlation(first: Matrix, second: Matrix, weights: Matrix) -> Matrix:
    total = weights.sum(axis=1, keepdims=True)
    left = first - (weights * first).sum(axis=1, keepdims=True) / total
    right = second - (weights * second).sum(axis=1, keepdims=True) / total
    squares = (weights * left**2).sum(axis=1) * (weights * right**2).sum(axis=1)
    return _ratio((weights * left * right).sum(axis=1), np.sqrt(squares))


def _ranks(values: Matrix, weights: Matrix) -> Matrix:
    """Ranks [R, N] of values [N] when item i stands there weights[:, i] times; equal values share their mean rank."""
    _, inverse = np.unique(values, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    borders = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    per_value = np.add.reduceat(weights[:, order], borders, axis=1)
    ranks = per_value.cumsum(axis=1) - (per_value - 1) / 2
    return ranks[:, inverse]


def _ratio(above: Matrix, below: Matrix) -> Matrix:
    """The quotient, 0 where there is nothing below."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
