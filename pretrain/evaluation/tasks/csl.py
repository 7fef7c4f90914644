"""CSL: are all of these the keywords of a Chinese abstract? (CLUE, Xu et al. 2020.)"""

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Row
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, TextItem, each
from pretrain.evaluation.tasks.layouts import CLUE_HOME, CLUE_JSON, HUB_SPLITS

LABELS = ("some_false", "all_true")
NUMBERS = {"0": LABELS[0], "1": LABELS[1]}


def _item(row: Row) -> TextItem:
    """The keywords come first, so that cutting shortens the abstract."""
    abstract, keywords = row.text("abst"), "；".join(row.texts("keyword"))
    label = row.label("label", LABELS, NUMBERS)
    # An abstract comes back with other keywords and the other label.
    return TextItem(f"{row.name('id')}-{row.number}", keywords, abstract, label, abstract)


def csl() -> TaskDefinition:
    """Accuracy; the labels are the numbers 0 and 1 in that order, hidden for test."""
    return TaskDefinition(
        name="csl",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("accuracy",),
        layouts=(Layout("CLUE", CLUE_JSON, each(jsonl.rows, _item), ("csl*", "csl/*/*")),),
        home=CLUE_HOME,
        hub=HubSource("clue/clue", "csl", HUB_SPLITS, _hub_item),
    )


def _hub_item(row: Row) -> TextItem:
    return _item(
        Row({**row.values, "id": row.values.get("corpus_id", row.values.get("id"))}, row.where, row.number, row.split)
    )
