"""BoolQ: is the answer to a question about a passage yes? (Clark et al. 2019.)"""

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import HUB_SPLITS, SUPERGLUE_HOME, SUPERGLUE_JSONL
from pretrain.evaluation.tasks.published import human_on_superglue

LABELS = ("False", "True")


def boolq() -> TaskDefinition:
    """Accuracy; the question comes first, so that cutting shortens the passage."""
    item = Texts("question", "passage", LABELS, id=("idx",))
    return TaskDefinition(
        name="boolq",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("SuperGLUE", SUPERGLUE_JSONL, each(jsonl.rows, item), ("BoolQ",)),),
        home=SUPERGLUE_HOME,
        hub=HubSource("aps/super_glue", "boolq", HUB_SPLITS, item),
        anchors=(human_on_superglue(0.890, "accuracy"),),
    )
