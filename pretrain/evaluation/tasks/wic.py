"""WiC: does a word mean the same in two sentences? (Pilehvar and Camacho-Collados 2019.)"""

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Row
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, TextItem, each
from pretrain.evaluation.tasks.layouts import HUB_SPLITS, SUPERGLUE_HOME, SUPERGLUE_JSONL
from pretrain.evaluation.tasks.published import human_on_superglue

LABELS = ("False", "True")
OFFSETS = ("start1", "end1", "start2", "end2")


def _item(row: Row) -> TextItem:
    """The first text is `word: sentence`, or a classifier of pairs could not know which word is meant."""
    word, first, second = row.text("word"), row.text("sentence1"), row.text("sentence2")
    offsets = {name: row.whole(name) for name in OFFSETS}
    for text, start, end in ((first, "start1", "end1"), (second, "start2", "end2")):
        if not offsets[start] < offsets[end] <= len(text):
            raise row.error(
                f"fields '{start}' and '{end}', must be a part of a sentence of {len(text)} characters, but are "
                f"{offsets[start]} and {offsets[end]}"
            )
    facts = {"word": word, **{name: str(offset) for name, offset in offsets.items()}}
    return TextItem(row.name("idx"), f"{word}: {first}", second, row.label("label", LABELS), word, facts)


def wic() -> TaskDefinition:
    """Accuracy. Facts hold the word's place in each SENTENCE, characters [start, end)."""
    return TaskDefinition(
        name="wic",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("SuperGLUE", SUPERGLUE_JSONL, each(jsonl.rows, _item), ("WiC",)),),
        home=SUPERGLUE_HOME,
        hub=HubSource("aps/super_glue", "wic", HUB_SPLITS, _item),
        anchors=(human_on_superglue(0.800, "accuracy"),),
    )
