"""Metrics as pure functions of per-item results. Must not import torch or know any task.

`correct` and `pair_correct` give a value per item, whose mean is the accuracy, so that intervals can resample items.
The others are of all items at once; `METRICS` names them for tasks.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conf.errors import InputError

ACCURACY = "accuracy"
PAIR_ACCURACY = "pair_accuracy"
EXACT_MATCH = "exact_match"
PASS_RATE = "pass_rate"  # of the cases of a check list; not a function of labels
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


def choice_correct(scores: Sequence[Sequence[float]], labels: Sequence[int]) -> NDArray[np.float64]:
    """For each item 1 where its right option scores highest, 1/k where k options do and it is one of them, else 0.

    As with pairs, a scorer that sees no difference gets what chance would.

    Args:
        scores: one number an option, of items with any numbers of options; an item without scores counts as wrong.
        labels: numbers of the right options.

    Raises:
        ValueError: not as many labels as items, or a score is not a number.
    """
    if len(scores) != len(labels):
        raise ValueError(f"there are scores of {len(scores)} items, but {len(labels)} labels")
    found = np.zeros(len(labels))
    for index, (options, label) in enumerate(zip(scores, labels, strict=True)):
        if any(value != value for value in options):
            raise ValueError(f"item {index} has a score that is not a number: {list(options)}")
        if options and options[label] == max(options):
            found[index] = 1.0 / list(options).count(max(options))
    return found


def majority_share(labels: ArrayLike) -> float:
    """Accuracy of always giving the most frequent label: what a model must beat to have learned anything."""
    _, counts = np.unique(np.asarray(labels), return_counts=True)
    return float(counts.max() / counts.sum())


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Share of right predictions."""
    return float(correct(*_checked(labels, predictions)).mean())


def matthews(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Matthews correlation (1975), for any number of labels that of Gorodkin (2004); 0 where one side is constant."""
    from sklearn.metrics import matthews_corrcoef  # a second to import

    return float(matthews_corrcoef(*_checked(labels, predictions)))


def f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """F1 of label 1, the one that GLUE counts; 0 where it is neither predicted nor there."""
    from sklearn.metrics import f1_score

    return float(f1_score(*_checked(labels, predictions), pos_label=1, average="binary", zero_division=0.0))


def f1_macro(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Unweighted mean of the F1 of every label that occurs among labels or predictions."""
    from sklearn.metrics import f1_score

    return float(f1_score(*_checked(labels, predictions), average="macro", zero_division=0.0))


def pearson(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Linear correlation; 0 where one side is constant (a run that learned nothing must count as such, not as NaN)."""
    expected, found = _checked(labels, predictions)
    if np.ptp(expected) == 0 or np.ptp(found) == 0:
        return 0.0
    from scipy.stats import pearsonr

    return float(pearsonr(expected, found).statistic)


def spearman(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Correlation of ranks, equal values sharing the mean of theirs; 0 where one side is constant."""
    expected, found = _checked(labels, predictions)
    if np.ptp(expected) == 0 or np.ptp(found) == 0:
        return 0.0
    from scipy.stats import spearmanr

    return float(spearmanr(expected, found).statistic)


def exact_match(labels: ArrayLike, predictions: ArrayLike, questions: Sequence[Hashable]) -> float:
    """Share of questions all of whose answers are judged right (MultiRC's EM).

    Args:
        labels: one per answer.
        predictions: one per answer.
        questions: the question of each answer.
    """
    right = correct(*_checked(labels, predictions))
    if len(questions) != len(right):
        raise ValueError(f"there are {len(questions)} questions of answers, but {len(right)} answers")
    whole: dict[Hashable, bool] = {}
    for question, is_right in zip(questions, right, strict=True):
        whole[question] = whole.get(question, True) and bool(is_right)
    return sum(whole.values()) / len(whole)


# MultiRC's F1a is the F1 of "this answer is right" over the answers of all questions (Khashabi et al. 2018, section 4).
METRICS: Mapping[str, Callable[[ArrayLike, ArrayLike], float]] = {
    ACCURACY: accuracy,
    "matthews": matthews,
    "f1": f1,
    "f1_macro": f1_macro,
    "f1a": f1,
    "pearson": pearson,
    "spearman": spearman,
}


def labelled_scores(
    metrics: Sequence[str],
    labels: Sequence[float | None],
    predictions: ArrayLike,
    questions: Sequence[Hashable] | None = None,
) -> dict[str, float]:
    """Metrics by name over the items that have a label.

    Args:
        metrics: names out of `METRICS`, or `exact_match`.
        labels: None where hidden.
        predictions: one per item, hidden or not.
        questions: the question of each item, which `exact_match` needs.

    Raises:
        InputError: a metric that does not exist, `exact_match` without questions, or no item with a label.
        ValueError: lengths differ, or a prediction is not a number.
    """
    found = np.asarray(predictions)
    if found.shape != (len(labels),):
        raise ValueError(f"there are {len(labels)} labels, but predictions have shape {found.shape}")
    known = [index for index, label in enumerate(labels) if label is not None]
    if not known:
        raise InputError(
            f"{', '.join(metrics)} cannot be given: all {len(labels)} labels are hidden; score a split with labels"
        )
    expected = np.array([labels[index] for index in known])
    scores = {}
    for name in metrics:
        if name == EXACT_MATCH:
            if questions is None:
                raise InputError(f"{EXACT_MATCH} needs the question of each item, but the task gives none")
            scores[name] = exact_match(expected, found[known], [questions[index] for index in known])
        elif name in METRICS:
            scores[name] = METRICS[name](expected, found[known])
        else:
            raise InputError(f"the metric must be one of {', '.join([*METRICS, EXACT_MATCH])}, but is '{name}'")
    return scores


def _checked(labels: ArrayLike, predictions: ArrayLike) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    expected, found = np.asarray(labels), np.asarray(predictions)
    if expected.shape != found.shape or expected.ndim != 1 or not expected.size:
        raise ValueError(
            f"labels and predictions must be two lists of one length above 0, but have shapes {expected.shape} and "
            f"{found.shape}"
        )
    for name, values in (("labels", expected), ("predictions", found)):
        bad = sum(not math.isfinite(value) for value in values.tolist())
        if bad:
            raise ValueError(f"{bad} {name} are not numbers")
    return expected, found
