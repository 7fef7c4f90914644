"""WSC273: to which noun phrase does a pronoun refer? (Levesque et al. 2012.) The first 273 of the collection's 285."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from pretrain.evaluation.sources import xml
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.definition import Anchor, ChoiceItem, HubSource, Item, Layout, TaskDefinition
from pretrain.evaluation.tasks.wording import in_place_of

LETTERS = "ABCDE"


def _item(row: Row) -> ChoiceItem:
    """A schema: text around the pronoun, answers, and a right answer written `A`, ` B ` or `A.`."""
    before, pronoun, after = (" ".join("".join(row.texts(f"text/{part}")).split()) for part in ("txt1", "pron", "txt2"))
    answers = [" ".join(answer.split()) for answer in row.texts("answers/answer")]
    letter = "".join(row.texts("correctAnswer")).strip().rstrip(".").strip()
    if letter not in LETTERS[: len(answers)] or len(letter) != 1:
        raise row.error(
            f"element <correctAnswer>, must be a letter up to {LETTERS[len(answers) - 1]}, but is {letter!r}"
        )
    return _made(row, before, pronoun, after, answers, LETTERS.index(letter))


def _made(row: Row, before: str, pronoun: str, after: str, answers: Sequence[str], label: int | None) -> ChoiceItem:
    prefix = f"{before} " if before else ""
    suffix = after if re.match(r"[,.;:!?'’]", after) else f" {after}"
    options = tuple(in_place_of(pronoun, answer, prefix, suffix) for answer in answers)
    # The two schemas of a pair have the same answers and begin alike.
    group = "|".join(sorted(answer.lower() for answer in answers))
    return ChoiceItem(str(row.number), prefix, options, suffix, label, group, {"pronoun": pronoun})


def _hub_item(row: Row) -> ChoiceItem:
    text, pronoun, start = row.text("text"), row.text("pronoun"), row.whole("pronoun_loc")
    answers = row.texts("options")
    after = text[start + len(pronoun) :].strip()
    label = row.label("label", tuple(map(str, range(len(answers)))))
    return _made(row, text[:start].strip(), pronoun, after, answers, label)


def wsc273(count: int = 273) -> TaskDefinition:
    """Accuracy; `count=285` takes the whole collection."""

    def read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
        return map(_item, islice(xml.rows(files[0], split, "schema"), count))

    return TaskDefinition(
        name=f"wsc{count}",
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(Layout("the collection's XML", {"test": ("WSCollection.xml",)}, read),),
        home="https://cs.nyu.edu/~davise/papers/WinogradSchemas/WSCollection.xml",
        scored="test",
        hub=HubSource("ErnestSDavis/winograd_wsc", f"wsc{count}", {"test": "test"}, _hub_item),
        anchors=(Anchor("GPT-2 1.5B", 0.707, "accuracy", "test", "Radford et al. 2019, section 3.4", tuned=False),),
    )
