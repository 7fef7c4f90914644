"""SST-2: is a phrase of a film review positive? (Socher et al. 2013; GLUE.)"""

from pretrain.evaluation.sources import tsv
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import GLUE_HOME, GLUE_TSV, HUB_SPLITS
from pretrain.evaluation.tasks.published import bert_base_on_glue, human_on_glue

LABELS = ("negative", "positive")


def sst2() -> TaskDefinition:
    """Accuracy; the labels are the numbers 0 and 1 in that order."""
    item = Texts("sentence", None, LABELS, spelled={"0": LABELS[0], "1": LABELS[1]})
    return TaskDefinition(
        name="sst2",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("GLUE", GLUE_TSV, each(tsv.rows, item), ("SST-2",)),),
        home=GLUE_HOME,
        hub=HubSource("nyu-mll/glue", "sst2", HUB_SPLITS, item),
        anchors=(bert_base_on_glue(0.923, "accuracy"), human_on_glue(0.978, "accuracy")),
    )
