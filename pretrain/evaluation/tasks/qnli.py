"""QNLI: does a sentence hold the answer to a question? (Rajpurkar et al. 2016; GLUE.)

Only version 2 of the set (5,463 dev rows) is read. The quoted csv of NLI_datasets holds version 1 (5,732 rows), whose
scores compare with none published since.
"""

from pretrain.evaluation.sources import tsv
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import GLUE_HOME, GLUE_TSV, HUB_SPLITS
from pretrain.evaluation.tasks.published import bert_base_on_glue, human_on_glue

LABELS = ("entailment", "not_entailment")


def qnli() -> TaskDefinition:
    """Accuracy."""
    return TaskDefinition(
        name="qnli",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(
            Layout("GLUE", GLUE_TSV, each(tsv.rows, Texts("question", "sentence", LABELS, id=("index",))), ("QNLI",)),
        ),
        home=GLUE_HOME,
        hub=HubSource("nyu-mll/glue", "qnli", HUB_SPLITS, Texts("question", "sentence", LABELS)),
        anchors=(bert_base_on_glue(0.907, "accuracy"), human_on_glue(0.912, "accuracy")),
    )
