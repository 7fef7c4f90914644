"""CLUEWSC2020: does a pronoun refer to a noun phrase, in Chinese? (CLUE, Xu et al. 2020.) Indices count characters."""

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Row
from pretrain.evaluation.tasks.definition import HubSource, Layout, SpanItem, TaskDefinition, each
from pretrain.evaluation.tasks.layouts import CLUE_HOME, CLUE_JSON, HUB_SPLITS
from pretrain.evaluation.tasks.spans import find_span

LABELS = ("false", "true")


def _item(row: Row) -> SpanItem:
    text, target = row.text("text"), row.value("target")
    if not isinstance(target, dict):
        raise row.error(f"field 'target', must be an object of spans, but is {target!r}")
    fields = Row(target, row.where, row.number, row.split)
    spans = [
        find_span(text, fields.text(f"{name}_text"), fields.whole(f"{name}_index"), row) for name in ("span1", "span2")
    ]
    return SpanItem(str(row.number), text, spans[0], spans[1], row.label("label", LABELS), text)


def cluewsc() -> TaskDefinition:
    """Accuracy; hidden labels for test. Items of one text are a group."""
    return TaskDefinition(
        name="cluewsc",
        version=1,
        kind="span",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("CLUE", CLUE_JSON, each(jsonl.rows, _item), ("cluewsc2020*", "cluewsc2020/*/*")),),
        home=CLUE_HOME,
        hub=HubSource("clue/clue", "cluewsc2020", HUB_SPLITS, _item),
    )
