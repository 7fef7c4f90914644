"""MNLI: does a text entail, contradict or leave open a sentence? (Williams et al. 2018.)

GLUE's tsv or the corpus's own jsonl or txt, all unquoted. The quoted csv of NLI_datasets is NOT read: its labels are
those of one annotator (its first row says entailment where the corpus's gold label is neutral).
"""

from collections.abc import Mapping
from typing import Literal

from pretrain.evaluation.sources import jsonl, tsv
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import GLUE_HOME
from pretrain.evaluation.tasks.published import bert_base_on_glue, human_on_glue

LABELS = ("entailment", "neutral", "contradiction")
# The columns of the corpus's own files, and of XNLI's; sentences of one text are a group.
GOLD = Texts(
    "sentence1",
    "sentence2",
    LABELS,
    "gold_label",
    id=("pairID",),
    group="promptID",
    facts=("genre",),
    no_label=("-",),
)


def mnli(genres: Literal["matched", "mismatched"] = "matched") -> TaskDefinition:
    """Accuracy on genres that the training rows have (`matched`) or on others; the training rows are the same."""
    glue: Mapping[Split, tuple[str, ...]] = {
        "train": ("train.tsv",),
        "dev": (f"dev_{genres}.tsv",),
        "test": (f"test_{genres}.tsv",),
    }
    readers = {"jsonl": jsonl.rows, "txt": tsv.rows}
    matched = genres == "matched"
    return TaskDefinition(
        name=f"mnli_{genres}",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(
            Layout("GLUE", glue, each(tsv.rows, GOLD), ("MNLI",)),
            *(
                Layout(
                    f"MultiNLI 1.0 {ending}",
                    {"train": (f"multinli_1.0_train.{ending}",), "dev": (f"multinli_1.0_dev_{genres}.{ending}",)},
                    each(reader, GOLD),
                    ("multinli_1.0",),
                )
                for ending, reader in readers.items()
            ),
        ),
        home=f"{GLUE_HOME} or https://cims.nyu.edu/~sbowman/multinli",
        hub=HubSource(
            "nyu-mll/glue",
            "mnli",
            {"train": "train", "dev": f"validation_{genres}", "test": f"test_{genres}"},
            Texts("premise", "hypothesis", LABELS),
        ),
        anchors=(
            bert_base_on_glue(0.839 if matched else 0.841, "accuracy"),
            human_on_glue(0.920 if matched else 0.928, "accuracy"),
        ),
    )
