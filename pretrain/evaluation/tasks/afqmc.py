"""AFQMC: do two Chinese questions about a payment service mean the same? (CLUE, Xu et al. 2020.)"""

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import CLUE_HOME, CLUE_JSON, HUB_SPLITS

LABELS = ("different", "same")


def afqmc() -> TaskDefinition:
    """Accuracy; the labels are the numbers 0 and 1 in that order, hidden for test."""
    item = Texts("sentence1", "sentence2", LABELS, spelled={"0": LABELS[0], "1": LABELS[1]})
    return TaskDefinition(
        name="afqmc",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("CLUE", CLUE_JSON, each(jsonl.rows, item), ("afqmc*", "afqmc/*/*")),),
        home=CLUE_HOME,
        hub=HubSource("clue/clue", "afqmc", HUB_SPLITS, item),
    )
