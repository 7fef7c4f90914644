"""MRPC: do two sentences say the same? (Dolan and Brockett 2005.)

Microsoft's download has a train and a test file; GLUE's dev rows are those of the train file whose ids a third file
lists. GLUE's own script writes three tsv files out of them, without test labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from conf.errors import InputError
from pretrain.evaluation.sources import tsv
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Item, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import GLUE_HOME, GLUE_TSV, HUB_SPLITS
from pretrain.evaluation.tasks.published import bert_base_on_glue, human_on_glue

LABELS = ("not_equivalent", "equivalent")
IDS = ("#1 ID", "#2 ID")
ITEM = Texts("#1 String", "#2 String", LABELS, "Quality", id=IDS, spelled={"0": LABELS[0], "1": LABELS[1]})


def _rows(file: DataFile, split: Split) -> Iterator[Row]:
    """The rows of a file; some copies have spelled out the byte order mark, their first column is `BOMQuality`."""
    for row in tsv.rows(file, split):
        yield replace(row, values={name.removeprefix("BOM"): value for name, value in row.values.items()})


def _read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
    if split == "test":
        yield from each(_rows, ITEM)(files, split)
        return
    rows, *ids = files
    listed = {
        "-".join(row.name(column) for column in IDS): row.where for file in ids for row in tsv.rows(file, split, IDS)
    }
    found = set()
    for row in _rows(rows, split):
        item = ITEM(row)
        if item.id in listed:
            found.add(item.id)
        if (item.id in listed) == (split == "dev"):
            yield item
    for name in listed.keys() - found:
        raise InputError(f"{listed[name]}, must be the two ids of a row of '{rows.name}', but {name} is not there")


def _files(train: str, ids: str, test: str) -> Mapping[Split, tuple[str, ...]]:
    return {"train": (train, ids), "dev": (train, ids), "test": (test,)}


def mrpc() -> TaskDefinition:
    """Accuracy and F1; the labels are the numbers 0 and 1 in that order."""
    microsoft = "Microsoft's files with GLUE's list of dev ids"
    hub_item = Texts("sentence1", "sentence2", LABELS)
    return TaskDefinition(
        name="mrpc",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy", "f1"),
        layouts=(
            Layout("GLUE", GLUE_TSV, each(tsv.rows, ITEM), ("MRPC",)),
            Layout(
                microsoft, _files("msr_paraphrase_train.txt", "*dev_ids.tsv", "msr_paraphrase_test.txt"), _read, ("*",)
            ),
            Layout(microsoft, _files("train", "dev_ids", "test"), _read, ("MRPC",)),
        ),
        home=f"{GLUE_HOME} and https://www.microsoft.com/en-us/download/details.aspx?id=52398",
        hub=HubSource("nyu-mll/glue", "mrpc", HUB_SPLITS, hub_item),
        anchors=(
            bert_base_on_glue(0.841, "accuracy"),
            bert_base_on_glue(0.889, "f1"),
            human_on_glue(0.808, "accuracy"),
            human_on_glue(0.863, "f1"),
        ),
    )
