"""PAWS-Wiki: are two sentences of the same words paraphrases? (Zhang et al. 2019.) Unquoted tsv in three parts."""

from collections.abc import Mapping
from typing import Literal

from pretrain.evaluation.sources import tsv
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import GLUE_TSV, HUB_SPLITS

LABELS = ("not_paraphrase", "paraphrase")
NUMBERS = {"0": LABELS[0], "1": LABELS[1]}
Part = Literal["final", "swap", "unlabeled"]
FILES: Mapping[Part, Mapping[Split, tuple[str, ...]]] = {
    "final": GLUE_TSV,
    "swap": {"train": ("train.tsv",)},
    "unlabeled": {"train": ("train.tsv",), "dev": ("dev.tsv",)},
}
FOLDERS: Mapping[Part, str] = {"final": "final", "swap": "swap", "unlabeled": "unlabeled/final"}
CONFIGS: Mapping[Part, str] = {"final": "labeled_final", "swap": "labeled_swap", "unlabeled": "unlabeled_final"}


def paws(part: Part = "final") -> TaskDefinition:
    """Accuracy. `swap` and `unlabeled` are further training rows, the labels of the latter made by a model."""
    item = Texts(
        "sentence1",
        "sentence2",
        LABELS,
        "noisy_label" if part == "unlabeled" else "label",
        id=("id",),
        spelled=NUMBERS,
    )
    folder = FOLDERS[part]
    return TaskDefinition(
        name="paws" if part == "final" else f"paws_{part}",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(
            Layout(
                "the authors' tsv",
                FILES[part],
                each(tsv.rows, item),
                (f"paws*/{folder}", f"paws_wiki_labeled_{folder}"),
            ),
        ),
        home="https://github.com/google-research-datasets/paws",
        scored="dev" if part == "unlabeled" else "train" if part == "swap" else "test",
        hub=HubSource(
            "google-research-datasets/paws",
            CONFIGS[part],
            {split: HUB_SPLITS[split] for split in FILES[part]},
            Texts("sentence1", "sentence2", LABELS, id=("id",), spelled=NUMBERS),
        ),
    )
