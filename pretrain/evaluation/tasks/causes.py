"""COPA's items in any language: which of two sentences is the cause, or the effect, of a premise?

The premise and a choice become one sentence by a connective: `The man fell because | he slipped.`
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pretrain.evaluation.sources.rows import Row
from pretrain.evaluation.tasks.columns import kept
from pretrain.evaluation.tasks.definition import ChoiceItem
from pretrain.evaluation.tasks.wording import without_capital

# Between premise and choice, spaces included. Chinese and Thai write none between words.
CONNECTIVES: Mapping[str, tuple[str, str]] = {
    "en": (" because ", " so "),
    "et": (", sest ", ", seega "),
    "ht": (" paske ", ", donk "),
    "id": (" karena ", ", jadi "),
    "it": (" perché ", ", quindi "),
    "qu": (", imaraykuchus ", ", chayrayku "),
    "sw": (" kwa sababu ", ", kwa hiyo "),
    "ta": (", ஏனெனில் ", ", எனவே "),
    "th": ("เพราะ", "ดังนั้น"),
    "tr": (", çünkü ", ", bu yüzden "),
    "vi": (" vì ", ", vì vậy "),
    "zh": ("，因为", "，所以"),
}
QUESTIONS = ("cause", "effect")
CHOICES = ("1", "2")
SPELLED = {"0": "1", "1": "2", "choice1": "1", "choice2": "2"}


@dataclass(frozen=True)
class Causes:
    """A row with `premise`, `choice1`, `choice2`, `question` and a label that counts from 0 (on the hub: its name)."""

    language: str

    def __call__(self, row: Row) -> ChoiceItem:
        """The item of a row.

        Raises:
            InputError: a missing field, or another question than cause or effect.
        """
        label = row.label("label", CHOICES, SPELLED)
        return make_item(row, self.language, row.name("idx"), label)


def make_item(row: Row, language: str, name: str, label: int | None) -> ChoiceItem:
    """The item of a row that has `premise`, `choice1`, `choice2` and `question`."""
    question = row.text("question")
    if question not in QUESTIONS:
        raise row.error(f"field 'question', must be cause or effect, but is {question!r}")
    connective = CONNECTIVES[language][QUESTIONS.index(question)]
    premise = row.text("premise").strip().rstrip(".。!?")
    options = [row.text(field).strip() for field in ("choice1", "choice2")]
    if language == "en":
        options = [without_capital(option) for option in options]
    facts = {"question": question, "language": language, **kept(row, ("changed",))}
    return ChoiceItem(name, premise + connective, tuple(options), "", label, name, facts)
