"""The behavioural report of a challenge set: accuracy by slice, gaps between groups, trends, with intervals.

Pure functions of per-item results; what is shown is data of the task's definition. Must not import torch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from pretrain.evaluation.metric_intervals import runs_and_items_interval, weighted_metric
from pretrain.evaluation.statistics import CONFIDENCE, Estimate, cluster_sums, share_interval
from pretrain.evaluation.tasks.definition import Gap, Item, PairItem, TaskDefinition, Trend

LABEL = "label"
Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Kind = Literal["accuracy", "failure", "gap", "correlation"]


@dataclass(frozen=True)
class Behaviour:
    """One line of a behavioural report, the mean over the runs of a model.

    `test` names the slice, gap or test; `value` is a share (accuracy, failure: of what was expected), a difference of
    two accuracies (gap) or a correlation; `interval` is at 95 %; `n` counts items (failure: cases; correlation: units);
    `note` says what a reader must know of the interval.
    """

    task: str
    test: str
    kind: Kind
    model: Literal["pretrained", "random"]
    value: float
    interval: tuple[float, float]
    n: int
    note: str = ""


@dataclass(frozen=True, eq=False)
class Answers:
    """What the runs of one model made of a task's items.

    `right` [runs, items] holds 1 for a right answer, 0 for a wrong one, a share for a tie. `picked` gives for the
    number of an option or label a matrix of the same shape: 1 where it was the answer.
    """

    right: Matrix
    picked: Callable[[int], Matrix]


def behavioural_report(
    task: str,
    definition: TaskDefinition,
    items: Sequence[Item],
    answers: Mapping[Literal["pretrained", "random"], Answers],
) -> list[Behaviour]:
    """The slices, gaps and trends of a definition, in this order, for each model. Empty for a set that names none.

    Args:
        task: the name in the table of scores.
        definition: says what is shown.
        items: with labels.
        answers: by model, the runs' answers to these items.
    """
    names = {fact for names in definition.slices for fact in names}
    names |= {fact for gap in definition.gaps for fact in (gap.fact, gap.within) if fact is not None}
    names |= {fact for trend in definition.trends for fact in (trend.fact, trend.unit, trend.figure)}
    facts = {name: np.array([fact_of(item, name, definition.labels) for item in items]) for name in names}
    groups = [item.group for item in items]
    found: list[Behaviour] = []
    for model, given in answers.items():
        for test, chosen in slices_of(definition.slices, facts):
            estimate, note = accuracy(given.right[:, chosen], np.array(groups)[chosen].tolist())
            count = int(chosen.sum())
            interval = (estimate.low, estimate.high)
            found.append(Behaviour(task, test, "accuracy", model, estimate.value, interval, count, note))
        for test, first, second in gaps_of(definition.gaps, facts):
            estimate, note = gap_interval(given.right, first, second, groups)
            count = int((first | second).sum())
            interval = (estimate.low, estimate.high)
            found.append(Behaviour(task, test, "gap", model, estimate.value, interval, count, note))
        for trend in definition.trends:
            found += _trend(task, trend, model, given, facts)
    return found


def fact_of(item: Item, name: str, labels: Sequence[str]) -> str:
    """A fact of an item; "" if it has none of that name. `label` is the name (of a choice the number) of the label."""
    if name != LABEL or isinstance(item, PairItem):
        return item.facts.get(name, "")
    if item.label is None:
        return ""
    return labels[int(item.label)] if labels else str(item.label)


def picked_option(answers: Matrix, option: int) -> Matrix:
    """Numbers of answers [runs, items] -> 1 where it is `option`."""
    return (answers == option).astype(np.float64)


def slices_of(slices: Sequence[tuple[str, ...]], facts: Mapping[str, NDArray[np.str_]]) -> Iterator[tuple[str, Mask]]:
    """Name and items of every combination of values that occurs, in the order of their names; items that lack one of
    the facts are in none. A set in which a slice has a single part has nothing to compare, and it is left out."""
    for names in slices:
        columns = [facts[name] for name in names]
        combined = sorted(set(zip(*(column.tolist() for column in columns), strict=True)))
        parts = [values for values in combined if all(values)]
        for values in parts if len(parts) > 1 else []:
            chosen = np.logical_and.reduce([column == value for column, value in zip(columns, values, strict=True)])
            yield ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True)), chosen


def gaps_of(gaps: Sequence[Gap], facts: Mapping[str, NDArray[np.str_]]) -> Iterator[tuple[str, Mask, Mask]]:
    """Name and the items of both sides of every gap that the items have both sides of."""
    for gap in gaps:
        sides = [facts[gap.fact] == value for value in (gap.first, gap.second)]
        places: list[tuple[str, Mask]] = [("", np.ones(len(sides[0]), dtype=bool))]
        if gap.within is not None:
            column = facts[gap.within]
            values = [value for value in sorted(set(column.tolist())) if value]
            places += [(f" ({gap.within}={value})", column == value) for value in values if len(values) > 1]
        for suffix, place in places:
            first, second = (side & place for side in sides)
            if first.any() and second.any():
                yield f"{gap.fact}: {gap.first} - {gap.second}{suffix}", first, second


def accuracy(right: Matrix, groups: Sequence[str]) -> tuple[Estimate, str]:
    """Mean of `right` [runs, items] with an interval over runs and groups, and what must be said of it.

    Items of a single group are resampled themselves, which is said; a single item bounds nothing.
    """
    if right.shape[1] < 2:
        return Estimate(float(right.mean()), 0.0, 1.0), "one item, which bounds nothing"
    if len(set(groups)) < 2:
        numbers = [str(number) for number in range(right.shape[1])]
        return share_interval(right, numbers), "items of one group: the interval says nothing of other groups"
    return share_interval(right, groups), ""


def gap_interval(
    right: Matrix, first: Mask, second: Mask, groups: Sequence[str], confidence: float = CONFIDENCE
) -> tuple[Estimate, str]:
    """The accuracy on some items less that on others, with a t interval for other runs AND other groups of items.

    Items of both sides that share a group (one template, one sentence with two pronouns) are compared with each other:
    the variance is G / (G - 1) * sum over groups of (the group's share of the difference, as a deviation)^2, the
    cluster-robust variance of a difference of two means, which for one item of each side in every group is that of the
    paired t-test. That between runs, var(gap per run) / runs, is added; the degrees of freedom are Welch's and
    Satterthwaite's.

    Where no group and no run differs from another the variance is 0, and the half-width is the largest share of groups
    that may do otherwise and stay unseen in G groups: 1 - ((1 - confidence) / 2)^(1 / G).

    Args:
        right: [runs, items] in [0, 1].
        first: [items], at least one.
        second: [items], none of them in `first`.
        groups: [items].
        confidence: coverage of the two-sided interval.

    Returns:
        The gap, and how many groups have both sides.
    """
    used = first | second
    weights = first / first.sum() - second / second.sum()
    per_run = right @ weights
    value, runs = float(per_run.mean()), len(per_run)
    names = np.asarray(groups)[used]
    count = len(np.unique(names))
    shared = len(set(np.asarray(groups)[first]) & set(np.asarray(groups)[second]))
    note = f"{shared} of {count} groups have both sides"
    if count < 2:  # nothing but the items themselves to resample
        names, count = np.arange(int(used.sum())), int(used.sum())
        note = "items of one group: the interval says nothing of other groups"
    mean = right.mean(axis=0)
    centred = np.where(first, mean - mean[first].mean(), mean - mean[second].mean())
    sums, _ = cluster_sums((centred * weights)[None, used], names)
    item_variance = count / (count - 1) * float((sums**2).sum())
    run_variance = float(per_run.var(ddof=1)) / runs if runs > 1 else 0.0
    total = item_variance + run_variance
    if total < 1e-24:  # rounding of the sums of equal values
        half = 1.0 - ((1.0 - confidence) / 2.0) ** (1.0 / count)
    else:
        freedom = total**2 / (item_variance**2 / (count - 1) + (run_variance**2 / (runs - 1) if runs > 1 else 0.0))
        half = float(stdtrit(freedom, 0.5 + confidence / 2)) * total**0.5
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half)), note


def _trend(
    task: str,
    trend: Trend,
    model: Literal["pretrained", "random"],
    given: Answers,
    facts: Mapping[str, NDArray[np.str_]],
) -> Iterator[Behaviour]:
    """The correlation of units' leans with their figures, the interval over units and runs; none of fewer than 3."""
    picked = given.picked(trend.option)
    sides = [facts[trend.fact] == value for value in (trend.first, trend.second)]
    units, figures, leans = [], [], []
    for unit in sorted(set(facts[trend.unit].tolist())):
        mine = facts[trend.unit] == unit
        first, second = (mine & side for side in sides)
        figure = facts[trend.figure][mine][0]
        if unit and figure and first.any() and second.any():
            units.append(unit)
            figures.append(float(figure))
            leans.append(picked[:, first].mean(axis=1) - picked[:, second].mean(axis=1))
    if len(units) < 3:
        return
    by_run = np.stack(leans, axis=1)

    def statistic(weights: Matrix) -> Matrix:
        return np.stack([weighted_metric("pearson", figures, run, weights) for run in by_run])

    estimate = runs_and_items_interval(statistic, len(units), units, lowest=-1.0)
    test = f"{trend.name}, with {trend.figure}"
    note = f"Pearson correlation over {len(units)} values of {trend.unit}"
    if bool((by_run == by_run[:, :1]).all()):
        estimate = Estimate(0.0, -1.0, 1.0)
        note += "; none leans otherwise than another, which bounds nothing"
    yield Behaviour(task, test, "correlation", model, estimate.value, (estimate.low, estimate.high), len(units), note)
