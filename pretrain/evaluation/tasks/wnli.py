"""WNLI: does a sentence with its pronoun replaced follow? (Levesque et al. 2012; GLUE.)

Its dev rows share sentences with train rows and have the opposite label, so that a model that learns train does worse
than the majority on dev.
"""

from pretrain.evaluation.sources import csv, tsv
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import GLUE_HOME, GLUE_TSV, HUB_SPLITS, NLI_CSV, NLI_CSV_NAME
from pretrain.evaluation.tasks.published import bert_base_on_glue, human_on_glue

LABELS = ("not_entailment", "entailment")


def wnli() -> TaskDefinition:
    """Accuracy; in the tsv the labels are the numbers 0 and 1 in that order."""
    item = Texts("sentence1", "sentence2", LABELS, id=("index",), spelled={"0": LABELS[0], "1": LABELS[1]})
    return TaskDefinition(
        name="wnli",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(
            Layout("GLUE", GLUE_TSV, each(tsv.rows, item), ("WNLI",)),
            Layout(NLI_CSV_NAME, NLI_CSV, each(csv.rows, Texts("premise", "hypothesis", LABELS)), ("wnli",)),
        ),
        home=GLUE_HOME,
        hub=HubSource("nyu-mll/glue", "wnli", HUB_SPLITS, Texts("sentence1", "sentence2", LABELS)),
        anchors=(bert_base_on_glue(0.563, "accuracy"), human_on_glue(0.959, "accuracy")),
    )
