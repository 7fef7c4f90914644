"""From what a head says of a check list's texts to failures: pure functions. Must not import torch.

Ribeiro et al. 2020, "Beyond Accuracy": the failure rate of a test is the share of its cases that fail.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError
from pretrain.evaluation.behaviour import Behaviour, accuracy
from pretrain.evaluation.scores import ModelName
from pretrain.evaluation.tasks.definition import Item, TaskDefinition, TextItem

_ROUNDING = 1e-9  # of the tolerance: 0.4 - 0.3 is a little more than 0.1


@dataclass(frozen=True, eq=False)
class Case:
    """A case: its items by number, and for each label of the head whether it is accepted."""

    name: str
    test: str
    capability: str
    type: str
    group: str
    members: tuple[int, ...]
    accepted: NDArray[np.bool_]
    direction: str | None


@dataclass(frozen=True, eq=False)
class CheckedList:
    """The cases of a check list for a head. `names` are the head's labels, folded; equal names are one prediction."""

    cases: tuple[Case, ...]
    names: tuple[str, ...]
    tolerance: float

    @property
    def groups(self) -> list[str]:
        """What each case has in common with others."""
        return [case.group for case in self.cases]

    def types(self) -> list[tuple[str, NDArray[np.bool_]]]:
        """Name and cases of each type, and last of all ("")."""
        kinds = np.array([case.type for case in self.cases])
        names = sorted(set(kinds.tolist()))
        parts = [(name, kinds == name) for name in names] if len(names) > 1 else []
        return [*parts, ("", np.ones(len(kinds), dtype=bool))]

    def failures(self, outputs: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which cases fail, given probabilities [items, labels of the head] of one run."""
        numbers = {name: number for number, name in enumerate(dict.fromkeys(self.names))}
        decided = np.array([numbers[name] for name in self.names])[outputs.argmax(axis=1)]
        return np.array([self._fails(case, outputs, decided) for case in self.cases])

    def _fails(self, case: Case, outputs: NDArray[np.float64], decided: NDArray[np.int64]) -> bool:
        members = list(case.members)
        if case.type == "INV":
            return bool((decided[members] != decided[members[0]]).any())
        if case.type == "MFT":
            return not bool(case.accepted[outputs[members].argmax(axis=1)].all())
        shares = outputs[members][:, case.accepted].sum(axis=1)
        moved = shares[1:] - shares[0]
        against = -moved if case.direction == "up" else moved
        return bool((against > self.tolerance + _ROUNDING).any())


def checked_list(head: TaskDefinition, definition: TaskDefinition, items: Sequence[Item]) -> CheckedList:
    """The cases of a definition's items, for a head trained on another task.

    Raises:
        InputError: the head tells no labels apart, or a case expects a label that it never gives.
    """
    if head.kind != "classification":
        raise InputError(
            f"task {definition.name} is a check list for heads of labels, but task {head.name} is {head.kind}: train "
            "on a classification"
        )
    assert definition.checks is not None
    names = tuple(definition.folds.get(label, label) for label in head.labels)
    members: list[list[int]] = []
    for number, item in enumerate(items):
        if item.facts["member"] == "0":
            members.append([])
        members[-1].append(number)
    cases = []
    for numbers in members:
        first = items[numbers[0]]
        accepted = tuple(filter(None, first.facts.get("accepted", "").split("|")))
        for name in accepted:
            if name not in names and name not in head.labels:
                raise InputError(
                    f"case '{first.facts['case']}' of test '{first.facts['test']}' expects the label '{name}', but the "
                    f"head has {', '.join(head.labels)} (task {head.name}): write one of these, or fold them "
                    "(task.definition.folds)"
                )
        known = [label in accepted or name in accepted for label, name in zip(head.labels, names, strict=True)]
        facts = first.facts
        cases.append(
            Case(
                facts["case"],
                facts["test"],
                facts["capability"],
                facts["type"],
                first.group,
                tuple(numbers),
                np.array(known),
                facts.get("direction"),
            )
        )
    return CheckedList(tuple(cases), names, definition.checks.tolerance)


def whole_cases(items: Sequence[Item], limit: int | None) -> list[Item]:
    """The first items, at most `limit` (but at least two cases), so that no case is cut in two."""
    starts = [number for number, item in enumerate(items) if item.facts["member"] == "0"] + [len(items)]
    if limit is None or limit >= len(items):
        return list(items)
    fitting = [start for start in starts if start <= limit]
    return list(items[: max(fitting[-1], starts[min(2, len(starts) - 1)])])


def failure_report(
    task: str,
    model: ModelName,
    checked: CheckedList,
    items: Sequence[Item],
    failed: NDArray[np.bool_],
    outputs: NDArray[np.float64],
) -> list[Behaviour]:
    """Failure rates of a model: of every test, every capability, every type, and over all cases.

    Args:
        task: the name in the table of scores.
        model: whose runs they are.
        checked: the cases.
        items: their texts.
        failed: [runs, cases].
        outputs: of the first run, [items, labels], for an example.
    """
    cases = checked.cases
    own = [f"{case.capability}: {case.test} ({case.type})" for case in cases]
    columns = [own, [f"all of {case.capability}" for case in cases], [f"all {case.type}" for case in cases]]
    if len({case.capability for case in cases}) == 1:
        del columns[1]
    parts = [(name, [value == name for value in column]) for column in columns for name in dict.fromkeys(column)]
    found = []
    for test, chosen in parts:
        mask = np.array(chosen)
        groups = [group for group, keep in zip(checked.groups, chosen, strict=True) if keep]
        estimate, note = accuracy(failed[:, mask].astype(np.float64), groups)
        if test in own:
            example = next((number for number in np.flatnonzero(mask) if failed[0, number]), None)
            if example is not None:
                shown = example_of(checked, cases[example], items, outputs)
                note = f"{note}; {shown}" if note else shown
        interval = (estimate.low, estimate.high)
        found.append(Behaviour(task, test, "failure", model, estimate.value, interval, int(mask.sum()), note))
    return found


def checked_rows(
    name: str,
    checked: CheckedList,
    items: Sequence[Item],
    outputs: Mapping[str, NDArray[np.float64]],
    failures: Mapping[str, NDArray[np.bool_]],
) -> list[dict[str, Any]]:
    """A row a text, for `items/`: what each run said of it, and whether the case that it belongs to failed.

    Args:
        name: of the set.
        checked: the cases.
        items: their texts.
        outputs: by run, [items, labels of the head].
        failures: by run, [cases].
    """
    rows = []
    for number, case in enumerate(checked.cases):
        for member in case.members:
            item = items[member]
            row: dict[str, Any] = {"set": name, "id": item.id, "group": item.group, "label": None}
            row |= {"facts": dict(item.facts), "texts": checked_texts(item)}
            row["predictions"] = {run: checked.names[int(given[member].argmax())] for run, given in outputs.items()}
            row["failed"] = {run: bool(failed[number]) for run, failed in failures.items()}
            rows.append(row)
    return rows


def example_of(checked: CheckedList, case: Case, items: Sequence[Item], outputs: NDArray[np.float64]) -> str:
    """A failed case in words: its texts, and what the head said of each."""
    said = []
    for number in case.members[:3]:
        row = outputs[number]
        share = f"p {row[case.accepted].sum():.2f}" if case.type == "DIR" else checked.names[int(row.argmax())]
        texts = " / ".join(f'"{text}"' for text in checked_texts(items[number]))
        said.append(f"{texts} [{share}]")
    return "e.g. " + ", ".join(said)


def checked_texts(item: Item) -> list[str]:
    """The text or the two texts of an item."""
    assert isinstance(item, TextItem)
    return [item.text_a] if item.text_b is None else [item.text_a, item.text_b]
