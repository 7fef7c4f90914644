"""WinoGrande: which of two names fills the blank? (Sakaguchi et al. 2020.)

Twins differ in a word that flips the answer. The training rows come in five sizes, each a part of the next.
"""

from collections.abc import Mapping
from typing import Literal

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.definition import Anchor, ChoiceItem, HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import HUB_SPLITS
from pretrain.evaluation.tasks.published import human

Size = Literal["xs", "s", "m", "l", "xl"]
SIZES: Mapping[Size, int] = {"xs": 160, "s": 640, "m": 2558, "l": 10234, "xl": 40398}
SOURCE = "Sakaguchi et al. 2020, WinoGrande"
OPTIONS = ("1", "2")
BLANK = "_"


def _item(row: Row) -> ChoiceItem:
    sentence, options = row.text("sentence"), (row.text("option1"), row.text("option2"))
    if sentence.count(BLANK) != 1:
        raise row.error(f"field 'sentence', must have one blank '{BLANK}', but has {sentence.count(BLANK)}")
    prefix, _, suffix = sentence.partition(BLANK)
    name = row.name("qID") if "qID" in row.values else str(row.number)
    twins, separator, number = name.rpartition("-")
    group = twins if separator and number in OPTIONS else name
    return ChoiceItem(name, prefix, options, suffix, row.label("answer", OPTIONS), group)


def winogrande(size: Size = "xl") -> TaskDefinition:
    """Accuracy. Twins are a group, by the part of `qID` that they share. The test labels are hidden."""
    files: Mapping[Split, tuple[str, ...]] = {
        "train": (f"train_{size}.jsonl",),
        "dev": ("dev.jsonl",),
        "test": ("test.jsonl",),
    }
    return TaskDefinition(
        name=f"winogrande_{size}",
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(Layout("the authors' files", files, each(jsonl.rows, _item), ("winogrande*",)),),
        home="https://winogrande.allenai.org",
        hub=HubSource("allenai/winogrande", f"winogrande_{size}", HUB_SPLITS, _item),
        anchors=(
            human(0.940, "accuracy", SOURCE),
            *((Anchor("RoBERTa-large", 0.791, "accuracy", "test", SOURCE),) if size == "xl" else ()),
        ),
    )
