"""HellaSwag: how does a text go on? (Zellers et al. 2019.) From ActivityNet and WikiHow."""

from collections.abc import Mapping

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.columns import kept
from pretrain.evaluation.tasks.definition import Anchor, ChoiceItem, HubSource, Layout, TaskDefinition, each
from pretrain.evaluation.tasks.endings import continued, plain
from pretrain.evaluation.tasks.layouts import HUB_SPLITS
from pretrain.evaluation.tasks.published import human

NUMBERS = ("0", "1", "2", "3")
FILES: Mapping[Split, tuple[str, ...]] = {
    "train": ("hellaswag_train.jsonl",),
    "dev": ("hellaswag_val.jsonl",),
    "test": ("hellaswag_test.jsonl",),
}
SOURCE = "Zellers et al. 2019, HellaSwag, table 1"


def _item(row: Row) -> ChoiceItem:
    endings = row.texts("endings")
    if len(endings) != len(NUMBERS):
        raise row.error(f"field 'endings', must hold {len(NUMBERS)} texts, but holds {len(endings)}")
    prefix = f"{row.text('activity_label')}: {plain(row.text('ctx'))}"
    group = row.name("source_id")
    facts = {"source": group.partition("~")[0], **kept(row, ("activity_label", "split_type"))}
    options = tuple(map(continued, endings))
    return ChoiceItem(row.name("ind"), prefix, options, "", row.label("label", NUMBERS), group, facts)


def hellaswag() -> TaskDefinition:
    """Accuracy. The context is read after its activity's name; the test labels are hidden."""
    return TaskDefinition(
        name="hellaswag",
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(Layout("the authors' jsonl", FILES, each(jsonl.rows, _item)),),
        home="https://github.com/rowanz/hellaswag/tree/master/data",
        hub=HubSource("Rowan/hellaswag", None, HUB_SPLITS, _item),
        anchors=(
            Anchor("BERT-large", 0.473, "accuracy", "test", SOURCE),
            human(0.956, "accuracy", SOURCE),
        ),
    )
