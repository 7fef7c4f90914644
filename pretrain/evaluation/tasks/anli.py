"""ANLI: entailment written to fool a model, in three rounds (Nie et al. 2020). The labels are e, n, c."""

from collections.abc import Mapping
from typing import Literal

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import Anchor, HubSource, Layout, TaskDefinition, each

LABELS = ("entailment", "neutral", "contradiction")
SPELLED = {"e": LABELS[0], "n": LABELS[1], "c": LABELS[2]}
# BERT-large and RoBERTa-large, each trained on SNLI, MNLI, FEVER and ANLI.
PUBLISHED: Mapping[int, Mapping[str, float]] = {
    1: {"BERT-large": 0.574, "RoBERTa-large": 0.738},
    2: {"BERT-large": 0.483, "RoBERTa-large": 0.489},
    3: {"BERT-large": 0.435, "RoBERTa-large": 0.444},
}


def anli(round: Literal[1, 2, 3] = 1) -> TaskDefinition:
    """Accuracy on one round; the test labels are public."""
    files: Mapping[Split, tuple[str, ...]] = {
        "train": (f"R{round}/train.jsonl",),
        "dev": (f"R{round}/dev.jsonl",),
        "test": (f"R{round}/test.jsonl",),
    }
    item = Texts("context", "hypothesis", LABELS, id=("uid",), group="context", facts=("genre", "tag"), spelled=SPELLED)
    source = "Nie et al. 2020, Adversarial NLI, table 3"
    return TaskDefinition(
        name=f"anli_r{round}",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("the authors' jsonl", files, each(jsonl.rows, item), ("anli*",)),),
        home="https://github.com/facebookresearch/anli",
        hub=HubSource(
            "facebook/anli",
            None,
            {"train": f"train_r{round}", "dev": f"dev_r{round}", "test": f"test_r{round}"},
            Texts("premise", "hypothesis", LABELS, id=("uid",), group="premise"),
        ),
        anchors=tuple(Anchor(system, value, "accuracy", "test", source) for system, value in PUBLISHED[round].items()),
    )
