"""HANS: does a model of entailment fall for lexical overlap? (McCoy et al. 2019.) By heuristic, subcase and label.

The set is meant for models trained on MNLI: `folds` makes their three labels two.
"""

from collections.abc import Mapping

from pretrain.evaluation.sources import tsv
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import Gap, HubSource, Layout, TaskDefinition, each

LABELS = ("entailment", "non-entailment")
FACTS = ("heuristic", "subcase", "template")
FILES: Mapping[Split, tuple[str, ...]] = {
    "train": ("heuristics_train_set.txt",),
    "test": ("heuristics_evaluation_set.txt",),
}


def hans() -> TaskDefinition:
    """Accuracy, by heuristic and label (the six cells of the paper's figures), by subcase, and how much better entailed
    sentences are judged than others. Items of one template are a group."""
    item = Texts("sentence1", "sentence2", LABELS, "gold_label", id=("pairID",), group="template", facts=FACTS)
    return TaskDefinition(
        name="hans",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("the authors' tsv", FILES, each(tsv.rows, item)),),
        home="https://github.com/tommccoy1/hans",
        scored="test",
        hub=HubSource(
            "jhu-cogsci/hans",
            "plain_text",
            {"train": "train", "test": "validation"},
            Texts("premise", "hypothesis", LABELS, group="template", facts=FACTS),
        ),
        folds={"entailment": LABELS[0], "neutral": LABELS[1], "contradiction": LABELS[1]},
        slices=(("heuristic", "label"), ("subcase",)),
        gaps=(Gap("label", *LABELS, within="heuristic"),),
    )
