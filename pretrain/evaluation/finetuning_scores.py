"""From the outputs of fine-tuning runs to scores: per metric and set, over the sizes of a learning curve."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pretrain.evaluation.calibration import Calibration, calibration
from pretrain.evaluation.metric_intervals import runs_and_items_interval, weighted_metric
from pretrain.evaluation.metrics import ACCURACY, correct, majority_share
from pretrain.evaluation.statistics import Estimate, exact_share, share_interval
from pretrain.evaluation.tasks.finetuning_job import EvaluatedSet

CORRELATIONS = ("matthews", "pearson", "spearman")


@dataclass(frozen=True, eq=False)
class RunScores:
    """The runs of one model on one set: predictions [runs, items], and the values of a metric, one a run."""

    predictions: NDArray[np.float64]
    values: dict[str, tuple[float, ...]]
    failed: int


def score_runs(judged: EvaluatedSet, outputs: NDArray[np.float64]) -> RunScores:
    """Metrics of each run, outputs [runs, items, labels]; see `has_failed` for what `failed` counts."""
    scores = [judged.score(run) for run in outputs]
    predictions = np.stack([judged.predictions(run) for run in outputs])
    failed = sum(has_failed(judged, run) for run in predictions)
    return RunScores(predictions, {name: tuple(one[name] for one in scores) for name in judged.metrics}, failed)


def has_failed(judged: EvaluatedSet, predictions: NDArray[np.float64]) -> bool:
    """Whether a run is no better than one that knows nothing: that always gives the most frequent label, or, for a
    regression, always the mean (whose squared error is the variance)."""
    labels = judged.items.labels
    if judged.kind == "regression":
        return bool(((predictions - labels) ** 2).mean() >= labels.var())
    return bool(correct(labels, predictions).mean() <= majority_share(labels))


def curve_interval(
    judged: EvaluatedSet,
    metric: str,
    predictions: NDArray[np.float64],
    weights: NDArray[np.float64],
    groups: Sequence[str],
) -> tuple[Estimate, str]:
    """The mean over runs of a metric, with an interval for other seeds and other items, and what that is called.

    Of several sizes it is the sum of their metrics times their weights: the area under the curve. The accuracy of a
    single run on items that have nothing in common has an exact interval.

    Args:
        judged: the set.
        metric: one of the set's.
        predictions: [runs, sizes, items].
        weights: [sizes], of one size 1.
        groups: [items], what items have in common.
    """
    labels = judged.items.labels
    name = "t(seeds+groups)" if len(predictions) > 1 else "t(groups)"
    if metric == ACCURACY:
        right = np.stack([[correct(labels, size) for size in run] for run in predictions])
        values = np.einsum("k,rkn->rn", weights, right)
        exact = exact_share(values, groups) if len(weights) == 1 else None
        if exact is not None:
            return exact, "exact(items)"
        return share_interval(values, groups), name

    def statistic(item_weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack(
            [
                np.sum(
                    [
                        weight * weighted_metric(metric, labels, size, item_weights, judged.questions)
                        for weight, size in zip(weights, run, strict=True)
                    ],
                    axis=0,
                )
                for run in predictions
            ]
        )

    lowest = -1.0 if metric in CORRELATIONS else 0.0
    return runs_and_items_interval(statistic, len(labels), groups, lowest), name


def calibration_of_runs(judged: EvaluatedSet, task: str, model: str, outputs: NDArray[np.float64]) -> Calibration:
    """Calibration of the runs of one model, outputs [runs, items, labels of the head] of anything but a regression."""
    return calibration(
        task,
        model,
        [judged.probabilities(run) for run in outputs],
        [judged.predictions(run) for run in outputs],
        judged.items.labels,
    )
