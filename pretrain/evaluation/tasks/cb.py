"""CB, the CommitmentBank: is the writer committed to an embedded clause? (De Marneffe et al. 2019.)"""

from pretrain.evaluation.sources import csv, jsonl
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import HUB_SPLITS, NLI_CSV, NLI_CSV_NAME, SUPERGLUE_HOME, SUPERGLUE_JSONL
from pretrain.evaluation.tasks.published import human_on_superglue

LABELS = ("entailment", "contradiction", "neutral")


def cb() -> TaskDefinition:
    """Accuracy and the mean over the labels of their F1."""
    item = Texts("premise", "hypothesis", LABELS, id=("idx",))
    return TaskDefinition(
        name="cb",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy", "f1_macro"),
        layouts=(
            Layout("SuperGLUE", SUPERGLUE_JSONL, each(jsonl.rows, item), ("CB",)),
            Layout(NLI_CSV_NAME, NLI_CSV, each(csv.rows, Texts("premise", "hypothesis", LABELS)), ("commitment_bank",)),
        ),
        home=SUPERGLUE_HOME,
        hub=HubSource("aps/super_glue", "cb", HUB_SPLITS, item),
        anchors=(human_on_superglue(0.989, "accuracy"), human_on_superglue(0.958, "f1_macro")),
    )
