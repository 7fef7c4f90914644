"""MultiRC: which of the answers to a question about a passage are right? (Khashabi et al. 2018.)

Each answer is an item; a question may have several right ones. `facts["question"]` joins the answers of one question,
which the exact match needs.
"""

from collections.abc import Iterator

from pretrain.evaluation.sources import jsonl
from pretrain.evaluation.sources.rows import Row
from pretrain.evaluation.tasks.definition import HubSource, Layout, TaskDefinition, TextItem, each
from pretrain.evaluation.tasks.layouts import HUB_SPLITS, SUPERGLUE_HOME, SUPERGLUE_JSONL
from pretrain.evaluation.tasks.published import human_on_superglue

LABELS = ("False", "True")
NUMBERS = {"0": LABELS[0], "1": LABELS[1]}


def _items(row: Row) -> Iterator[TextItem]:
    passage = row.value("passage")
    if not isinstance(passage, dict):
        raise row.error(f"field 'passage', must be an object with text and questions, but is {passage!r}")
    inside = Row(passage, row.where, row.number, row.split)
    text, name = inside.text("text"), row.name("idx")
    for question in _objects(inside, "questions"):
        asked, key = question.text("question"), f"{name}-{question.name('idx')}"
        for answer in _objects(question, "answers"):
            yield _item(text, asked, answer.text("text"), f"{key}-{answer.name('idx')}", key, name, answer)


def _item(text: str, question: str, answer: str, name: str, key: str, passage: str, row: Row) -> TextItem:
    label = row.label("label", LABELS, NUMBERS)
    return TextItem(name, text, f"{question.strip()} {answer.strip()}", label, passage, {"question": key})


def _objects(row: Row, field: str) -> list[Row]:
    values = row.value(field)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise row.error(f"field '{field}', must be a list of objects, but is {str(values)[:60]!r}")
    return [Row(value, row.where, row.number, row.split) for value in values]


def _hub_item(row: Row) -> TextItem:
    """The hub has a row per answer; its index is an object of three numbers."""
    index = Row(row.value("idx"), row.where, row.number, row.split)
    passage = index.name("paragraph")
    key = f"{passage}-{index.name('question')}"
    name = f"{key}-{index.name('answer')}"
    return _item(row.text("paragraph"), row.text("question"), row.text("answer"), name, key, passage, row)


def multirc() -> TaskDefinition:
    """F1 over all answers, and the share of questions all of whose answers are judged right."""
    return TaskDefinition(
        name="multirc",
        version=1,
        kind="classification",
        labels=LABELS,
        metrics=("f1a", "exact_match"),
        layouts=(Layout("SuperGLUE", SUPERGLUE_JSONL, each(jsonl.rows, _items), ("MultiRC",)),),
        home=SUPERGLUE_HOME,
        hub=HubSource("aps/super_glue", "multirc", HUB_SPLITS, _hub_item),
        anchors=(human_on_superglue(0.818, "f1a"), human_on_superglue(0.519, "exact_match")),
    )
