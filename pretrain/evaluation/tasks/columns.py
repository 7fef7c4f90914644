"""Rows with columns as items: the one thing that most classification tasks need. Must not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pretrain.evaluation.sources.rows import Row
from pretrain.evaluation.tasks.definition import PairItem, TextItem


@dataclass(frozen=True)
class Texts:
    """A row as a labelled text or pair.

    `spelled` maps the set's spellings of labels to the task's names, `no_label` lists spellings of "no agreement"
    (such a row's label is None). `group` is a column; without one a row is its own group. `facts` are columns kept
    where a row has them. `id` joins several columns with `-`; without one the row's number is the id.
    """

    text_a: str
    text_b: str | None
    labels: tuple[str, ...]
    label: str = "label"
    id: tuple[str, ...] = ()
    group: str | None = None
    facts: tuple[str, ...] = ()
    spelled: Mapping[str, str] = field(default_factory=dict)
    no_label: tuple[str, ...] = ()

    def __call__(self, row: Row) -> TextItem:
        """The item of a row.

        Raises:
            InputError: a missing column, no text, or another label.
        """
        name = identity(row, self.id)
        return TextItem(
            id=name,
            text_a=row.text(self.text_a),
            text_b=None if self.text_b is None else row.text(self.text_b),
            label=row.label(self.label, self.labels, self.spelled, self.no_label),
            group=name if self.group is None else row.name(self.group),
            facts=kept(row, self.facts),
        )


@dataclass(frozen=True)
class Scores:
    """A row as a pair with a score from `lowest` to `highest`."""

    text_a: str
    text_b: str
    score: str
    lowest: float
    highest: float
    id: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def __call__(self, row: Row) -> TextItem:
        """The item of a row.

        Raises:
            InputError: a missing column, no text, or no score within the bounds.
        """
        name = identity(row, self.id)
        score = row.number_within(self.score, self.lowest, self.highest)
        return TextItem(name, row.text(self.text_a), row.text(self.text_b), score, name, kept(row, self.facts))


@dataclass(frozen=True)
class Pairs:
    """A row as a minimal pair; pairs of one phenomenon are one group where no column says otherwise."""

    good: str
    bad: str
    phenomenon: str | None = None
    group: str | None = None
    id: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def __call__(self, row: Row) -> PairItem:
        """The item of a row.

        Raises:
            InputError: a missing column, or no text. Two equal sentences are read: BLiMP has some, which are ties.
        """
        good, bad = row.text(self.good), row.text(self.bad)
        for column, text in ((self.good, good), (self.bad, bad)):
            if not text.strip():
                raise row.error(f"field '{column}', must be a sentence, but is empty")
        phenomenon = "all" if self.phenomenon is None else row.name(self.phenomenon)
        group = phenomenon if self.group is None else row.name(self.group)
        return PairItem(identity(row, self.id), good, bad, phenomenon, group, kept(row, self.facts))


def identity(row: Row, columns: tuple[str, ...]) -> str:
    """The id of a row: its columns joined, or its number."""
    return "-".join(row.name(column) for column in columns) if columns else str(row.number)


def kept(row: Row, columns: tuple[str, ...]) -> dict[str, str]:
    """The columns of facts that a row has, as texts."""
    return {column: str(row.values[column]) for column in columns if row.values.get(column) not in (None, "")}
