"""OCNLI: entailment in Chinese, written in Chinese (Hu et al. 2020). Rows without a majority are labelled `-`."""

from collections.abc import Mapping

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import Anchor, HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import CLUE_HOME, CLUE_JSON, HUB_SPLITS
from pretrain.evaluation.tasks.published import human

LABELS = ("entailment", "neutral", "contradiction")
FOLDERS = ("data/ocnli", "ocnli*")
FULL: Mapping[Split, tuple[str, ...]] = {**CLUE_JSON, "train": ("train.50k.json",)}


def ocnli() -> TaskDefinition:
    """Accuracy; the test labels are hidden. Sentences about one premise are a group where the file says so."""
    item = Texts("sentence1", "sentence2", LABELS, group="sentence1", facts=("genre", "level"), no_label=("-",))
    read = each(jsonl.rows, item)
    source = "Hu et al. 2020, OCNLI (README of CLUEbenchmark/OCNLI, 50k training rows)"
    return TaskDefinition(
        name="ocnli",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("the authors' files", FULL, read, FOLDERS), Layout("CLUE", CLUE_JSON, read, FOLDERS)),
        home=f"{CLUE_HOME} or https://github.com/CLUEbenchmark/OCNLI",
        hub=HubSource("clue/clue", "ocnli", HUB_SPLITS, item),
        anchors=(
            Anchor("BERT-base Chinese", 0.745, "accuracy", "dev", source),
            Anchor("BERT-base Chinese", 0.722, "accuracy", "test", source),
            human(0.903, "accuracy", source),
        ),
    )
