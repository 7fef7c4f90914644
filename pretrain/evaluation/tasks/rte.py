"""RTE: does a text entail a sentence? (Dagan et al. 2006 and later.) GLUE and SuperGLUE have the same rows."""

from pretrain.evaluation.sources import csv, jsonl, tsv
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import (
    GLUE_HOME,
    GLUE_TSV,
    HUB_SPLITS,
    NLI_CSV,
    NLI_CSV_NAME,
    SUPERGLUE_JSONL,
)
from pretrain.evaluation.tasks.published import bert_base_on_glue, human_on_glue

LABELS = ("entailment", "not_entailment")


def rte() -> TaskDefinition:
    """Accuracy."""
    superglue = Texts("premise", "hypothesis", LABELS, id=("idx",))
    return TaskDefinition(
        name="rte",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(
            Layout("GLUE", GLUE_TSV, each(tsv.rows, Texts("sentence1", "sentence2", LABELS, id=("index",))), ("RTE",)),
            Layout("SuperGLUE", SUPERGLUE_JSONL, each(jsonl.rows, superglue), ("RTE",)),
            Layout(NLI_CSV_NAME, NLI_CSV, each(csv.rows, Texts("premise", "hypothesis", LABELS)), ("rte",)),
        ),
        home=GLUE_HOME,
        hub=HubSource("nyu-mll/glue", "rte", HUB_SPLITS, Texts("sentence1", "sentence2", LABELS)),
        anchors=(bert_base_on_glue(0.657, "accuracy"), human_on_glue(0.936, "accuracy")),
    )
