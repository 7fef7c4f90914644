"""From numbers of options to accuracies with intervals: over all items of a task and over parts of them.

Must not import torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pretrain.evaluation.behaviour import Answers
from pretrain.evaluation.metrics import ACCURACY, METRIC_VERSION, PAIR_ACCURACY, choice_correct, pair_correct
from pretrain.evaluation.scores import ModelName, Outcome, short, signature
from pretrain.evaluation.statistics import Estimate, exact_share, share_interval
from pretrain.evaluation.tasks.definition import ChoiceItem, PairItem

Scores = Sequence[Sequence[float] | None]


@dataclass(frozen=True)
class ScoredItems:
    """A task's items with what each model gave them.

    `scores` by model: the checkpoint's first (`pretrained`), then one for each of the `seeds` of random weights; one
    number an option, None for an item that was not scored. `fingerprints` are those of both kinds of models,
    `signature` is what the signature of every score begins with.
    """

    task: str
    items: Sequence[ChoiceItem | PairItem]
    scores: Mapping[str, Scores]
    seeds: tuple[int, ...]
    fingerprints: Mapping[ModelName, str]
    signature: Mapping[str, str]

    @property
    def models(self) -> list[tuple[ModelName, slice, tuple[int, ...]]]:
        """Each kind of model with the rows of its runs among all scores, and their seeds: the checkpoint has none."""
        models: list[tuple[ModelName, slice, tuple[int, ...]]] = [("pretrained", slice(0, 1), ())]
        if len(self.scores) > 1:
            models.append(("random", slice(1, None), self.seeds))
        return models


def item_values(items: Sequence[ChoiceItem | PairItem], scores: Scores) -> NDArray[np.float64]:
    """[items] in [0, 1]: 1 where the right option or the good sentence scores highest, a share for a tie, else 0.

    An item without scores counts as wrong. Raises ValueError for a score that is not a number.
    """
    rows = [[] if row is None else list(row) for row in scores]
    labels = [0 if isinstance(item, PairItem) else item.label for item in items]
    pairs = [isinstance(item, PairItem) for item in items]
    if all(pairs):
        there = np.array([bool(row) for row in rows])
        won = np.zeros(len(rows))
        good, bad = (np.array([row[side] for row in rows if row]) for side in range(2))
        won[there] = pair_correct(good, bad)
        return won
    assert all(label is not None for label in labels)  # items without a label were left out
    return choice_correct(rows, [int(label) for label in labels if label is not None])


def slices(items: Sequence[ChoiceItem | PairItem], breakdown: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """Which items belong to each part of the task: a phenomenon each, then a value each of the facts named.

    A task without such parts has none; one that has a single phenomenon neither.
    """
    found: dict[str, NDArray[np.bool_]] = {}
    phenomena = np.array([item.phenomenon if isinstance(item, PairItem) else "" for item in items])
    names = list(dict.fromkeys(phenomena.tolist()))
    if len(names) > 1:
        found |= {name: phenomena == name for name in names}
    for fact in breakdown:
        values = np.array([item.facts.get(fact, "") for item in items])
        found |= {f"{fact}={value}": values == value for value in dict.fromkeys(values.tolist()) if value}
    return found


def add_scores(outcome: Outcome, scored: ScoredItems, breakdown: Sequence[str]) -> None:
    """Add the accuracy of each part of the task and, last, that over all items (`TASK/overall`, or just `TASK`)."""
    values = np.stack([item_values(scored.items, scores) for scores in scored.scores.values()])
    parts = slices(scored.items, breakdown)
    for name, chosen in parts.items():
        _add(outcome, scored, f"{scored.task}/{name}", values, chosen)
    _add(outcome, scored, overall_name(scored, breakdown), values, np.ones(len(scored.items), dtype=bool))


def overall_name(scored: ScoredItems, breakdown: Sequence[str]) -> str:
    """The name of the score over all items: `TASK/overall` where the task has parts."""
    return f"{scored.task}/overall" if slices(scored.items, breakdown) else scored.task


def answers_of(scored: ScoredItems) -> dict[ModelName, Answers]:
    """What each kind of model made of the items: the checkpoint in one run, random weights in one for each seed."""
    runs = list(scored.scores.values())
    found: dict[ModelName, Answers] = {}
    for model, rows, _ in scored.models:
        right = np.stack([item_values(scored.items, scores) for scores in runs[rows]])
        found[model] = Answers(right, partial(_picked, runs[rows]))
    return found


def _picked(runs: Sequence[Scores], option: int) -> NDArray[np.float64]:
    """[runs, items]: 1 where the option scores highest, a share for a tie, 0 where it does not or is not there."""
    found = []
    for scores in runs:
        rows = [[] if row is None or len(row) <= option else list(row) for row in scores]
        found.append(choice_correct(rows, [option] * len(rows)))
    return np.stack(found)


def _add(
    outcome: Outcome, scored: ScoredItems, name: str, values: NDArray[np.float64], chosen: NDArray[np.bool_]
) -> None:
    count = int(chosen.sum())
    if count < 2:
        outcome.notes.append(f"{name} has {count} item, too few for an interval, and is left out")
        return
    groups = [item.group for item, keep in zip(scored.items, chosen, strict=True) if keep]
    unit = "groups"
    if len(set(groups)) < 2:  # one paradigm: its items are all there is to resample
        groups, unit = [str(number) for number in range(count)], "items"
    pairs = isinstance(scored.items[0], PairItem)
    metric = PAIR_ACCURACY if pairs else ACCURACY
    estimates: dict[ModelName, tuple[Estimate, tuple[int, ...], str]] = {}
    for model, rows, seeds in scored.models:
        mine = values[rows, chosen]
        with_seeds = "initialisations+" if seeds else ""
        exact = exact_share(mine, groups)
        signed = signature(
            **scored.signature,
            metric=f"{metric}.{METRIC_VERSION}",
            interval=f"t({with_seeds}{unit})" if exact is None else "exact(items)",
            model=short(scored.fingerprints[model]),
            seeds=",".join(map(str, seeds)) or "none",
        )
        estimates[model] = (share_interval(mine, groups) if exact is None else exact, seeds, signed)
    outcome.add(name, metric, count, estimates)


def item_rows(items: Sequence[ChoiceItem | PairItem], scores: Mapping[str, Scores]) -> list[dict[str, Any]]:
    """One record an item: the item, and by model its options' scores and, of a choice, the number of the highest."""
    rows = []
    for index, item in enumerate(items):
        mine = {model: numbers[index] for model, numbers in scores.items()}
        row = {**asdict(item), "scores": {model: None if own is None else list(own) for model, own in mine.items()}}
        if isinstance(item, ChoiceItem):
            row["predictions"] = {model: None if own is None else int(np.argmax(own)) for model, own in mine.items()}
        rows.append(row)
    return rows
