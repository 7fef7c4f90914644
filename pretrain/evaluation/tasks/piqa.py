"""PIQA: which of two ways reaches a goal? (Bisk et al. 2020.) The labels are lines of a second file."""

from collections.abc import Iterator, Mapping, Sequence

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.definition import Anchor, ChoiceItem, HubSource, Item, Layout, TaskDefinition
from pretrain.evaluation.tasks.layouts import HUB_SPLITS
from pretrain.evaluation.tasks.published import human

NUMBERS = ("0", "1")
SOURCE = "Bisk et al. 2020, PIQA"


def _item(row: Row) -> ChoiceItem:
    name = row.name("id") if "id" in row.values else str(row.number)
    solutions = tuple(row.text(field) for field in ("sol1", "sol2"))
    return ChoiceItem(name, row.text("goal") + " ", solutions, "", row.label("label", NUMBERS), name)


def _read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
    if split == "test":
        return map(_item, jsonl.rows(files[0], split))
    return map(_item, jsonl.rows_with_labels(files[0], files[1], split, among=NUMBERS))


def _files(folder: str, dev: str) -> Mapping[Split, tuple[str, ...]]:
    return {
        "train": (f"{folder}train.jsonl", f"{folder}train-labels.lst"),
        "dev": (f"{folder}{dev}.jsonl", f"{folder}{dev}-labels.lst"),
        "test": ("tests.jsonl",),
    }


def piqa() -> TaskDefinition:
    """Accuracy. The test labels are hidden."""
    return TaskDefinition(
        name="piqa",
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(
            Layout("physicaliqa-train-dev.zip", _files("physicaliqa-train-dev/", "dev"), _read),
            Layout("the project page's files", _files("", "valid"), _read, ("piqa/data", "piqa")),
        ),
        home="https://yonatanbisk.com/piqa",
        hub=HubSource("ybisk/piqa", "plain_text", HUB_SPLITS, _item),
        anchors=(
            Anchor("BERT-large", 0.668, "accuracy", "test", SOURCE),
            Anchor("RoBERTa-large", 0.771, "accuracy", "test", SOURCE),
            human(0.949, "accuracy", SOURCE),
        ),
    )
