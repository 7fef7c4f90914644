"""SWAG: what happens next? (Zellers et al. 2018.) The quoted csv of four endings, or the full one of up to five.

The full files name the right ending and the wrong ones. Where the right one goes among them is drawn from the row's
name, so that no place is always right.
"""

from collections.abc import Mapping
from zlib import crc32

from pretrain.evaluation.sources import csv
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.definition import Anchor, ChoiceItem, HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.endings import continued
from pretrain.evaluation.tasks.layouts import HUB_SPLITS
from pretrain.evaluation.tasks.published import human

NUMBERS = ("0", "1", "2", "3")
REGULAR: Mapping[Split, tuple[str, ...]] = {"train": ("train.csv",), "dev": ("val.csv",), "test": ("test.csv",)}
FULL: Mapping[Split, tuple[str, ...]] = {"train": ("train_full.csv",), "dev": ("val_full.csv",)}
SOURCE = "Devlin et al. 2019, BERT, table 4"


def _made(row: Row, endings: list[str], label: int | None) -> ChoiceItem:
    video, source = row.name("video-id"), row.text("gold-source")
    name = f"{video}-{row.name('fold-ind')}"
    options = tuple(map(continued, endings))
    return ChoiceItem(name, row.text("startphrase").strip(), options, "", label, video, {"gold_source": source})


def _item(row: Row) -> ChoiceItem:
    return _made(row, [row.text(f"ending{number}") for number in NUMBERS], row.label("label", NUMBERS))


def _full_item(row: Row) -> ChoiceItem:
    wrong = [ending for ending in (row.text(f"distractor-{number}") for number in NUMBERS) if ending]
    label = crc32(f"{row.name('video-id')}-{row.name('fold-ind')}".encode()) % (len(wrong) + 1)
    return _made(row, [*wrong[:label], row.text("gold-ending"), *wrong[label:]], label)


def swag() -> TaskDefinition:
    """Accuracy. Videos are groups; the test labels are hidden."""
    return TaskDefinition(
        name="swag",
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(
            Layout("the authors' csv", REGULAR, each(csv.rows, _item), ("swagaf/data", "swag", "swag/data")),
            Layout("the authors' full csv", FULL, each(csv.rows, _full_item)),
        ),
        home="https://github.com/rowanz/swagaf/tree/master/data",
        hub=HubSource("allenai/swag", "regular", HUB_SPLITS, _item),
        anchors=(
            Anchor("BERT-base", 0.816, "accuracy", "dev", SOURCE),
            Anchor("BERT-large", 0.866, "accuracy", "dev", SOURCE),
            Anchor("BERT-large", 0.863, "accuracy", "test", SOURCE),
            human(0.850, "accuracy", SOURCE, who="human (one expert)"),
            human(0.880, "accuracy", SOURCE, who="human (vote of 5)"),
        ),
    )
