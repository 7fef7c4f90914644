"""Two evaluations of the same items, row by row: which differences are real. Must not import torch.

A row is a task and metric that both have. Its test follows from what is there: McNemar's for one run a side and
independent items, a randomisation of whole groups for one run a side else, and with several runs a t test whose error
holds other runs and other items. All p values of the table are corrected together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pretrain.evaluation.compared import ComparedRow, Side, TwoCompared, Verdict
from pretrain.evaluation.equivalence import LEVEL, tost, tost_without_spread
from pretrain.evaluation.evaluated import OVERALL, Answers, Evaluation, Incomparable, ReadScore
from pretrain.evaluation.multiple_comparisons import holm
from pretrain.evaluation.paired_tests import (
    Difference,
    mcnemar,
    mean_difference,
    mean_randomisation,
    metric_randomisation,
    paired_bootstrap,
)
from pretrain.evaluation.power import detectable_difference, least_one_sided

CORRELATIONS = ("matthews", "pearson", "spearman")
SEED = 0
# Parts of a signature that must be equal, and those that may differ, with what to say of a difference then.
SAME = ("task", "split", "metric")
TOLD = {
    "recipe": "were fine-tuned by other recipes",
    "train": "were fine-tuned on other training items",
    "score": "score an option in other ways",
    "length": "cut texts at other lengths",
    "cut": "cut other contexts, or could not score other items",
}


@dataclass
class _Notes:
    """Remarks, each with the tasks that it is about."""

    tasks: dict[str, list[str]] = field(default_factory=dict)

    def add(self, remark: str, task: str) -> None:
        known = self.tasks.setdefault(remark, [])
        if task not in known:
            known.append(task)

    def sentences(self) -> list[str]:
        return [f"{', '.join(tasks)}: {remark}" for remark, tasks in self.tasks.items()]


def compare_evaluations(first: Evaluation, second: Evaluation, margin: float) -> TwoCompared:
    """Compare all scores that both have of the same items; what is left out is said in the notes.

    The scores of whole tasks that have parts (`TASK/overall`) are the first rows; the others stand as in `first`.

    Args:
        first: what is compared with.
        second: whose gain it is.
        margin: the largest difference that counts as none.
    """
    notes = _Notes()
    rows = []
    for key, one in first.scores.items():
        other = second.scores.get(key)
        if other is None:
            notes.add(f"left out, for '{second.path}' has no such score", one.task)
            continue
        try:
            rows.append(_row(first, one, second, other, margin, notes))
        except Incomparable as reason:
            notes.add(f"left out, for {reason}", one.task)
    for key, other in second.scores.items():
        if key not in first.scores:
            notes.add(f"left out, for '{first.path}' has no such score", other.task)
    rows.sort(key=lambda row: not row.task.endswith(f"/{OVERALL}"))
    said = notes.sentences()
    if rows and first.model == second.model == "pretrained":
        said.append("both sides are one pretraining each: nothing here speaks of other seeds of pretraining")
    return TwoCompared(*_sides(first, second), margin, tuple(_judged(rows)), tuple(said))


def compare_answers(one: Answers, other: Answers, margin: float) -> ComparedRow:
    """The row of two systems' answers to the same items, but for task, number and corrections."""
    groups: Sequence[str] = one.groups
    if len(set(groups)) < 2:  # one document, one paradigm: its items are all there is to resample
        groups = [str(number) for number in range(len(groups))]
    unit = "items" if len(set(groups)) == len(groups) else "groups"
    reach = 2.0 if one.metric in CORRELATIONS else 1.0
    single = one.runs == other.runs == 1
    if one.values is not None and other.values is not None:
        difference = mean_difference(one.values, other.values, groups)
        test, p = f"t(runs+{unit})", difference.p
        right = np.concatenate([one.values, other.values])
        if single and unit == "items" and np.isin(right, (0.0, 1.0)).all():
            test, p = "mcnemar(items)", mcnemar(one.values[0], other.values[0]).p
        elif single:
            test, p = f"randomisation({unit})", mean_randomisation(one.values[0], other.values[0], groups, SEED)
    else:
        count = len(one.items)
        difference = paired_bootstrap(one.statistic, other.statistic, count, groups, reach, SEED)
        test, p = f"bootstrap(runs+{unit})", difference.p
        if single:
            test = f"randomisation({unit})"
            p = metric_randomisation(lambda weights: one.with_other(other, weights), count, groups, SEED)
    ones = np.ones((1, len(one.items)))
    return ComparedRow(
        task="",
        metric=one.metric,
        n=len(one.items),
        groups=difference.groups,
        runs=(one.runs, other.runs),
        first=float(one.statistic(ones).mean()),
        second=float(other.statistic(ones).mean()),
        difference=difference.value,
        low=difference.low,
        high=difference.high,
        test=test,
        p=p,
        detectable=_detectable(difference, single, reach),
        equivalence_p=_equivalence_p(difference, margin, reach),
    )


def _row(
    first: Evaluation, one: ReadScore, second: Evaluation, other: ReadScore, margin: float, notes: _Notes
) -> ComparedRow:
    for name in SAME:
        if one.signature.get(name) != other.signature.get(name):
            raise Incomparable(
                f"its {name} is {one.signature.get(name)} in the first and {other.signature.get(name)} in the second"
            )
    mine, theirs = first.answers(one), second.answers(other)
    _check_items(one, other, mine, theirs)
    for name, words in TOLD.items():
        if one.signature.get(name) != other.signature.get(name):
            notes.add(f"the two {words} ({name} in their signatures), and the difference is of that too", one.task)
    if first.model == second.model == "pretrained" and one.signature.get("model") == other.signature.get("model"):
        notes.add("both are of the same checkpoint (model in their signatures)", one.task)
    for score, answers, which in ((one, mine, "first"), (other, theirs, "second")):
        if score.failed:
            notes.add(
                f"{score.failed} of {answers.runs} runs of the {which} are no better than knowing nothing; they stay "
                "in the mean",
                score.task,
            )
        if score.seeds and answers.runs == 1:
            notes.add(
                f"the {which} has one seed, so that p and interval speak of this one run and say nothing about other "
                "seeds: give seeds=[1,2,3,4,5] to both evaluations",
                score.task,
            )
    row = compare_answers(mine, theirs, margin)
    if row.runs == (1, 1) and least_one_sided(row.groups) is None:
        notes.add(
            f"with {row.groups} groups of items no difference of single runs can be significant, however large",
            one.task,
        )
    return replace(row, task=one.task)


def _check_items(one: ReadScore, other: ReadScore, mine: Answers, theirs: Answers) -> None:
    """Refuse two scores of other items."""
    if len(mine.items) != len(theirs.items):
        raise Incomparable(f"the first has {len(mine.items)} items and the second {len(theirs.items)}")
    for left, right in zip(mine.items, theirs.items, strict=True):
        if left.identity != right.identity:
            raise Incomparable(
                f"the items differ: where the first has '{left.record['id']}', the second has another or a changed "
                f"'{right.record['id']}'"
            )
    # The rows of a fine-tuned task do not hold the texts; their hash does.
    texts = [score.signature.get("items") for score in (one, other)]
    if "set" in mine.items[0].record and texts[0] != texts[1]:
        raise Incomparable(f"the items' texts differ (items={texts[0]} and {texts[1]} in their signatures)")


def _detectable(difference: Difference, single: bool, reach: float) -> float:
    least = least_one_sided(difference.groups)
    if least is None and single:
        return reach
    if difference.error == 0.0:
        return reach if least is None else min(reach, reach * least)
    return min(reach, detectable_difference(difference.error, difference.freedom))


def _equivalence_p(difference: Difference, margin: float, reach: float) -> float:
    if difference.error == 0.0:
        return tost_without_spread(difference.value, difference.groups, margin, reach)
    return tost(difference.value, difference.error, difference.freedom, margin)


def _judged(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """The rows with corrected p values and verdicts."""
    different = holm([row.p for row in rows])
    equal = holm([row.equivalence_p for row in rows])
    judged = []
    for row, p, equivalence_p in zip(rows, different.tolist(), equal.tolist(), strict=True):
        verdict: Verdict = "undecided"
        if p < LEVEL:
            verdict = "better" if row.difference > 0 else "worse"
        elif equivalence_p < LEVEL:
            verdict = "equivalent"
        judged.append(replace(row, p_corrected=p, equivalence_p_corrected=equivalence_p, verdict=verdict))
    return judged


def _sides(first: Evaluation, second: Evaluation) -> tuple[Side, Side]:
    """Both by the shortest ends of their paths that differ, and by their models where these do."""
    one, other = (evaluation.path.resolve().parts for evaluation in (first, second))
    length = 1
    while one[-length:] == other[-length:] and length < max(len(one), len(other)):
        length += 1
    names = [str(Path(*parts[-(1 if one == other else length) :])) for parts in (one, other)]
    if first.model != second.model:
        names = [f"{name} ({evaluation.model})" for name, evaluation in zip(names, (first, second), strict=True)]
    sides = [
        Side(name, str(evaluation.path), evaluation.model, evaluation.checkpoint)
        for name, evaluation in zip(names, (first, second), strict=True)
    ]
    return sides[0], sides[1]
