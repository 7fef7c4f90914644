"""WSC: does a pronoun refer to a noun phrase? (Levesque et al. 2012, as SuperGLUE has it.)"""

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Row
from pretrain.evaluation.tasks.definition import HubSource, Layout, SpanItem, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import HUB_SPLITS, SUPERGLUE_HOME, SUPERGLUE_JSONL
from pretrain.evaluation.tasks.published import human_on_superglue
from pretrain.evaluation.tasks.spans import find_span, word_start

LABELS = ("False", "True")
NUMBERS = {"0": LABELS[0], "1": LABELS[1]}


def _item(row: Row) -> SpanItem:
    """The item of a row: indices count words, `span1` is the noun phrase, `span2` the pronoun; some copies are flat."""
    target = row.values.get("target")
    fields = Row(target if isinstance(target, dict) else row.values, row.where, row.number, row.split)
    text = row.text("text")
    spans = [
        find_span(text, fields.text(f"{name}_text"), word_start(text, fields.whole(f"{name}_index"), row), row)
        for name in ("span1", "span2")
    ]
    return SpanItem(row.name("idx"), text, spans[0], spans[1], row.label("label", LABELS, NUMBERS), text)


def wsc() -> TaskDefinition:
    """Accuracy. Items of one text are a group."""
    return TaskDefinition(
        name="wsc",
        version=1,
        kind="span",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("SuperGLUE", SUPERGLUE_JSONL, each(jsonl.rows, _item), ("WSC",)),),
        home=SUPERGLUE_HOME,
        hub=HubSource("aps/super_glue", "wsc.fixed", HUB_SPLITS, _item),
        anchors=(human_on_superglue(1.0, "accuracy"),),
    )
