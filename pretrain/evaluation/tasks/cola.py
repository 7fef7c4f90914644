"""CoLA: is a sentence acceptable? (Warstadt et al. 2019.) Train and dev have no header row, test has one."""

from collections.abc import Iterator

from pretrain.evaluation.sources import tsv
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import GLUE_HOME, GLUE_TSV, HUB_SPLITS
from pretrain.evaluation.tasks.published import bert_base_on_glue, human_on_glue

LABELS = ("unacceptable", "acceptable")
COLUMNS = ("source", "label", "author_mark", "sentence")


def _rows(file: DataFile, split: Split) -> Iterator[Row]:
    return tsv.rows(file, split, None if split == "test" else COLUMNS)


def cola() -> TaskDefinition:
    """Matthews correlation; the labels are the numbers 0 and 1 in that order."""
    item = Texts("sentence", None, LABELS, facts=("source",), spelled={"0": LABELS[0], "1": LABELS[1]})
    return TaskDefinition(
        name="cola",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("matthews",),
        layouts=(Layout("GLUE", GLUE_TSV, each(_rows, item), ("CoLA",)),),
        home=GLUE_HOME,
        hub=HubSource("nyu-mll/glue", "cola", HUB_SPLITS, item),
        anchors=(bert_base_on_glue(0.565, "matthews"), human_on_glue(0.664, "matthews")),
    )
