"""XNLI: MNLI's task in fifteen languages (Conneau et al. 2018).

One file holds dev rows of all languages, one the test rows; training rows are MNLI's by machine translation, one file a
language, where contradiction is spelled contradictory.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pretrain.evaluation.sources import tsv
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.columns import Texts
from pretrain.evaluation.tasks.definition import Anchor, HubSource, Item, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import HUB_SPLITS
from pretrain.evaluation.tasks.mnli import GOLD, LABELS

Language = Literal["ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh"]
# Multilingual BERT (uncased) tuned on English.
ZERO_SHOT: Mapping[str, float] = {"en": 0.814, "zh": 0.638, "es": 0.743, "de": 0.705, "ar": 0.621, "ur": 0.583}
SOURCE = "google-research/bert, multilingual.md (zero shot, uncased)"


def xnli(language: Language = "en") -> TaskDefinition:
    """Accuracy; the test labels are public. The three sentences of one text are a group."""
    training = Texts("premise", "hypo", LABELS, spelled={"contradictory": "contradiction"})

    def read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
        if split == "train":
            yield from each(tsv.rows, training)(files, split)
            return
        for file in files:
            yield from (GOLD(row) for row in tsv.rows(file, split) if row.text("language") == language)

    files: Mapping[Split, tuple[str, ...]] = {
        "train": (f"XNLI-MT-1.0/multinli/multinli.train.{language}.tsv",),
        "dev": ("XNLI-1.0/xnli.dev.tsv",),
        "test": ("XNLI-1.0/xnli.test.tsv",),
    }
    return TaskDefinition(
        name=f"xnli_{language}",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("XNLI-1.0 and XNLI-MT-1.0", files, read),),
        home="https://github.com/facebookresearch/XNLI",
        scored="test",
        hub=HubSource("facebook/xnli", language, HUB_SPLITS, Texts("premise", "hypothesis", LABELS)),
        anchors=tuple(
            Anchor("BERT multilingual", value, "accuracy", "test", SOURCE)
            for name, value in ZERO_SHOT.items()
            if name == language
        ),
    )
