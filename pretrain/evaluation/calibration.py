"""Are a model's probabilities as good as they say? Pure functions; must not import torch or know any task.

A model that is 80 % sure should be right 80 % of the time. `ece` says how far off that is on average over bins of
confidence, `brier` how far the probabilities are from what was true.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

BINS = 15


@dataclass(frozen=True)
class Bin:
    """The predictions whose confidence lies in one bin: their mean confidence, the share that is right, how many."""

    confidence: float
    accuracy: float
    count: int


@dataclass(frozen=True)
class Calibration:
    """Calibration of one model on one task.

    `ece` and `brier` are means over `runs`, each on `n` items; `bins`, those that hold any prediction in rising order
    of confidence, hold the predictions of all runs together.
    """

    task: str
    model: str
    runs: int
    n: int
    ece: float
    brier: float
    bins: tuple[Bin, ...]


def reliability_bins(confidences: ArrayLike, right: ArrayLike, bins: int = BINS) -> list[Bin]:
    """Predictions in bins of equal width over [0, 1]; a bin holds its upper edge, empty ones are left out.

    Args:
        confidences: any shape, each the probability that the model gives to what it predicts.
        right: the same shape, 1 where that is right, else 0.
        bins: their number.

    Raises:
        ValueError: the shapes differ, there is nothing, or a confidence is no probability.
    """
    sure, true = np.asarray(confidences, dtype=np.float64).reshape(-1), np.asarray(right, dtype=np.float64).reshape(-1)
    if sure.shape != true.shape or not sure.size:
        raise ValueError(f"there are {sure.size} confidences of {true.size} predictions: expected as many, above 0")
    if not ((sure >= 0.0) & (sure <= 1.0)).all():
        raise ValueError("a confidence must lie between 0 and 1")
    place = np.searchsorted(np.linspace(0.0, 1.0, bins + 1)[1:-1], sure, side="left")
    found = []
    for number in np.unique(place):
        mine = place == number
        found.append(Bin(float(sure[mine].mean()), float(true[mine].mean()), int(mine.sum())))
    return found


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    """Mean distance of accuracy from confidence over bins, each by its number of predictions (Guo et al. 2017)."""
    total = sum(one.count for one in bins)
    return sum(one.count * abs(one.accuracy - one.confidence) for one in bins) / total


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Mean over items of the sum over all labels of (probability - 1 or 0)^2, by Brier (1950): from 0 to 2.

    With two labels it is twice what is often given for the probability of one of them alone.

    Args:
        probabilities: [items, labels].
        labels: [items], numbers of the true labels.

    Raises:
        ValueError: not as many labels as items.
    """
    given, true = np.asarray(probabilities, dtype=np.float64), np.asarray(labels).astype(np.int64)
    if given.ndim != 2 or true.shape != given.shape[:1]:
        raise ValueError(f"probabilities of shape {given.shape} do not go with labels of shape {true.shape}")
    target = np.zeros_like(given)
    target[np.arange(len(true)), true] = 1.0
    return float(((given - target) ** 2).sum(axis=1).mean())


def calibration(
    task: str,
    model: str,
    probabilities: Sequence[NDArray[np.float64]],
    predictions: Sequence[NDArray[np.float64]],
    labels: ArrayLike,
) -> Calibration:
    """Calibration over the runs of a model.

    Args:
        task: the name of the scores beside it.
        model: "pretrained" or "random".
        probabilities: one [items, labels] a run.
        predictions: one [items] a run, the numbers of the labels that it decided for; a head of more labels, folded
            onto the task's, may decide for another than the likeliest.
        labels: [items].
    """
    expected = np.asarray(labels).astype(np.int64)
    rows = np.arange(len(expected))
    sure = [
        np.minimum(run[rows, chosen.astype(np.int64)], 1.0)  # rounded shares may sum to a little more
        for run, chosen in zip(probabilities, predictions, strict=True)
    ]
    right = [(chosen.astype(np.int64) == expected).astype(np.float64) for chosen in predictions]
    single = [expected_calibration_error(reliability_bins(one, true)) for one, true in zip(sure, right, strict=True)]
    return Calibration(
        task=task,
        model=model,
        runs=len(sure),
        n=len(expected),
        ece=float(np.mean(single)),
        brier=float(np.mean([brier_score(run, expected) for run in probabilities])),
        bins=tuple(reliability_bins(np.concatenate(sure), np.concatenate(right))),
    )
