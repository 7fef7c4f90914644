"""Finds and reads the items of a task that is fine-tuned on: to learn from, to choose an epoch by, to score."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias, cast

from conf.errors import InputError
from pretrain.evaluation.sources.files import TaskFiles
from pretrain.evaluation.sources.hub import HubData
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.base import TaskMissing
from pretrain.evaluation.tasks.definition import ChoiceItem, SpanItem, TaskDefinition, TextItem
from pretrain.evaluation.tasks.labelled_data import folder_definition, nothing_at
from pretrain.evaluation.tasks.places import place_of, read_items

LabelledItem: TypeAlias = TextItem | ChoiceItem | SpanItem


def shown(item: LabelledItem) -> dict[str, Any]:
    """What a reader sees of an item: its texts, options and spans, as plain JSON values."""
    return {name: value for name, value in asdict(item).items() if name not in ("id", "label", "group", "facts")}


class TaskItems:
    """The items of a task and of the one it is trained on, if that is another; see `Finetuned` for the arguments.

    `notes` collects what a reader of the score must know of them.

    Raises:
        TaskMissing: there is no definition, and the folder that should hold one has none.
        InputError: there is no definition and no folder.
    """

    def __init__(
        self,
        definition: TaskDefinition | None,
        data: str | None,
        train_on: TaskDefinition | None,
        train_data: str | None,
        directory: Path | None,
    ) -> None:
        self.data, self.directory = data, directory
        self.train_data = data if train_on is None else train_data
        self.notes: list[str] = []
        self._places: dict[str | None, TaskFiles | HubData] = {}
        if definition is not None:
            self.own = definition
        elif data is not None:
            folder = (Path() if directory is None else directory) / data
            if not (folder / "task.json").is_file():
                raise TaskMissing(
                    nothing_at(folder), f"{data}/task.json, made by `python -m pipeline job=corpus_tasks`"
                )
            self.own = folder_definition(folder)
        else:
            raise InputError("option 'task.data' must be given: a folder with task.json, train.jsonl and dev.jsonl")
        self.head = train_on or self.own

    def training(self, definition: TaskDefinition) -> list[LabelledItem]:
        """The training items.

        Raises:
            TaskMissing: they are not there.
            InputError: one has no label.
        """
        items = self._read(definition, "train", self.train_data)
        unlabelled = sum(item.label is None for item in items)
        if unlabelled:
            raise InputError(
                f"{unlabelled} of the {len(items)} training items of task {definition.name} have no label: "
                "fine-tuning needs them all"
            )
        return items

    def choosing(self) -> list[LabelledItem] | None:
        """Labelled dev items to choose the epoch by; None if there are none but those that the score is of."""
        if self.head is self.own and self.own.scored == "dev":
            return None
        if not self._has(self.head, "dev", self.train_data):
            return None
        return [item for item in self._read(self.head, "dev", self.train_data) if item.label is not None] or None

    def scored(self, definition: TaskDefinition, further: bool = False) -> list[LabelledItem]:
        """The labelled items that a score is of; those of a further task lie among all data sets.

        Raises:
            TaskMissing: they are not there.
        """
        items = self._read(definition, definition.scored, None if further else self.data)
        if definition.checks is not None:
            return items
        known = [item for item in items if item.label is not None]
        if len(known) < len(items):
            self.notes.append(f"{len(items) - len(known)} items of {definition.name} without a label are left out")
        return known

    def groups(self, items: list[LabelledItem]) -> list[str]:
        """What the items have in common, for the interval; each its own if they all are of one group."""
        groups = [item.group for item in items]
        if len(set(groups)) < 2:
            # A corpus of a few long documents: clusters of one cannot be resampled, so the rows are, and it is said.
            groups = [str(number) for number in range(len(items))]
            self.notes.append(
                "all dev rows come from one document; the interval is over its rows and says nothing of other documents"
            )
        return groups

    def _read(self, definition: TaskDefinition, split: Split, data: str | None) -> list[LabelledItem]:
        if definition.kind == "minimal_pair":
            raise InputError(f"task {definition.name} has minimal pairs, which are scored without training")
        if definition.made is not None:
            if definition is self.own and data is not None:
                raise InputError(
                    f"task {definition.name} builds its own items: leave out task.data (task.train_data says where "
                    f"{self.head.name} lies)"
                )
            return cast(list[LabelledItem], list(definition.made()))
        return cast(list[LabelledItem], read_items(definition, self._place(definition, data), split))

    def _has(self, definition: TaskDefinition, split: Split, data: str | None) -> bool:
        place = self._place(definition, data)
        if isinstance(place, HubData):
            return definition.hub is not None and split in definition.hub.splits
        location = definition.locate(place)
        return location is not None and split in location.files

    def _place(self, definition: TaskDefinition, data: str | None) -> TaskFiles | HubData:
        if data not in self._places:
            self._places[data] = place_of(data, self.directory, definition)
        return self._places[data]
