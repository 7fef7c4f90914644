"""Metrics as pure functions of per-item results. Must not import torch or know any task.

Every metric is the mean of a value per item, so that intervals can resample items; the value per item is returned.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

ACCURACY = "accuracy"
PAIR_ACCURACY = "pair_accuracy"
METRIC_VERSION = 1


def correct(labels: ArrayLike, predictions: ArrayLike) -> NDArray[np.float64]:
    """1 where the prediction is the label, else 0; its mean is the accuracy.

    Raises:
        ValueError: the two do not have the same shape.
    """
    expected, found = np.asarray(labels), np.asarray(predictions)
    if expected.shape != found.shape:
        raise ValueError(f"labels have shape {expected.shape}, but predictions {found.shape}")
    return (expected == found).astype(np.float64)


def pair_correct(good: ArrayLike, bad: ArrayLike, tolerance: float = 0.0) -> NDArray[np.float64]:
    """1 where the good sentence scores higher, 0 where the bad one does, 1/2 for a tie.

    A tie counts one half, because a scorer that sees no difference must get what a coin would.

    Args:
        good: scores of the good sentences.
        bad: scores of the bad ones.
        tolerance: differences up to this are ties.

    Raises:
        ValueError: shapes differ, or a score is not a number (NaN would silently count as a loss).
    """
    better, worse = np.asarray(good, dtype=np.float64), np.asarray(bad, dtype=np.float64)
    if better.shape != worse.shape:
        raise ValueError(f"good scores have shape {better.shape}, but bad ones {worse.shape}")
    with np.errstate(invalid="ignore"):  # infinity less infinity is refused below
        difference = better - worse
    if np.isnan(difference).any():
        raise ValueError(f"{int(np.isnan(difference).sum())} pairs have a score that is not a number")
    return np.where(np.abs(difference) <= tolerance, 0.5, (difference > 0).astype(np.float64))


def majority_share(labels: ArrayLike) -> float:
    """Accuracy of always giving the most frequent label: what a model must beat to have learned anything."""
    _, counts = np.unique(np.asarray(labels), return_counts=True)
    return float(counts.max() / counts.sum())
