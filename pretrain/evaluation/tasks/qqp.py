"""QQP: are two questions the same? (Quora 2017.)

GLUE's train file has a few rows that a line end in a question cut in two; they are left out, as everyone's readers do,
and counted in the notes. Quora's own file is quoted, and has no splits: all of it is read as train.
"""

from functools import partial

from pretrain.evaluation.sources import csv, tsv
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import GLUE_HOME, GLUE_TSV, HUB_SPLITS
from pretrain.evaluation.tasks.published import bert_base_on_glue, human_on_glue

LABELS = ("not_duplicate", "duplicate")


def qqp() -> TaskDefinition:
    """Accuracy and F1; the labels are the numbers 0 and 1 in that order."""
    item = Texts("question1", "question2", LABELS, "is_duplicate", id=("id",), spelled={"0": LABELS[0], "1": LABELS[1]})
    read = each(partial(tsv.rows, short="leave_out"), item)
    quora = each(partial(csv.rows, delimiter="\t"), item)
    return TaskDefinition(
        name="qqp",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy", "f1"),
        layouts=(
            Layout("GLUE", GLUE_TSV, read, ("QQP",)),
            Layout("Quora's own file", {"train": ("quora_duplicate_questions.tsv",)}, quora),
        ),
        home=GLUE_HOME,
        hub=HubSource("nyu-mll/glue", "qqp", HUB_SPLITS, Texts("question1", "question2", LABELS)),
        anchors=(
            bert_base_on_glue(0.907, "accuracy"),
            bert_base_on_glue(0.875, "f1"),
            human_on_glue(0.804, "accuracy"),
            human_on_glue(0.595, "f1"),
        ),
    )
