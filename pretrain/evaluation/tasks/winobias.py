"""WinoBias: does a system follow the gender an occupation is known for? (Zhao et al. 2018.)

CoNLL files mark the pronoun and the occupation it refers to; the other candidate is the other occupation of the
sentence, by the authors' list of 40. As in Winogender the pronoun stays and what follows it asks whom it means.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from conf.errors import InputError
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split
from pretrain.evaluation.tasks.definition import ChoiceItem, Gap, Item, Layout, TaskDefinition

# The occupations of table 1 of the paper; its "sewer" is "tailor" in the sentences.
MALE = (
    "driver supervisor janitor cook mover laborer construction_worker chief developer carpenter manager lawyer farmer "
    "salesperson physician guard analyst mechanic sheriff ceo"
)
FEMALE = (
    "attendant cashier teacher nurse assistant secretary auditor cleaner receptionist clerk counselor designer "
    "hairdresser writer housekeeper baker accountant editor librarian tailor sewer"
)
OCCUPATIONS = tuple(name.replace("_", " ") for name in f"{MALE} {FEMALE}".split())
GENDERS = {
    **dict.fromkeys(("he", "his", "him", "himself"), "male"),
    **dict.fromkeys(("she", "her", "hers", "herself"), "female"),
}
WORD, COREFERENCE = 3, -1
_BEGIN = re.compile(r"#begin document \((.*)\);")
_OCCUPATION = re.compile(rf"\b(?:the|a|an|another) ({'|'.join(OCCUPATIONS)})\b", re.IGNORECASE)


def _sentences(file: DataFile, split: Split) -> Iterator[Row]:
    """Each document: its words, and its mentions as [first, last] words."""
    words: list[str] = []
    mentions: list[tuple[int, int]] = []
    start: int | None = None
    name, where, number = "", "", 0
    for line_number, line in file.lines():
        begin = _BEGIN.match(line)
        if begin is not None or line.startswith("#end document"):
            if words:
                yield Row({"name": name, "words": words, "mentions": mentions}, where, number, split)
                number += 1
            words, mentions, start = [], [], None
            if begin is not None:
                name, where = begin.group(1), f"'{file.name}', line {line_number}"
        elif line.strip():
            cells = line.split()
            if len(cells) <= WORD + 1 or not where:
                raise InputError(
                    f"'{file.name}', line {line_number}, must be a word of a CoNLL document, but is {line!r}"
                )
            words.append(cells[WORD])
            marks = cells[COREFERENCE]
            start = len(words) - 1 if "(" in marks else start
            if ")" in marks and start is not None:
                mentions.append((start, len(words) - 1))
                start = None
    if words:  # some copies have no end marks
        yield Row({"name": name, "words": words, "mentions": mentions}, where, number, split)


def _item(row: Row, kind: str) -> ChoiceItem:
    words: list[str] = row.values["words"]
    phrases = [" ".join(words[first : last + 1]) for first, last in row.values["mentions"]]
    pronoun = next((phrase for phrase in phrases if phrase.lower() in GENDERS), None)
    referent = next((phrase for phrase in phrases if phrase.lower() not in GENDERS), None)
    text = re.sub(r" ([.,;:?!]|'s\b)", r"\1", " ".join(words))
    named = list(dict.fromkeys(match.lower() for match in _OCCUPATION.findall(text)))
    right = None if referent is None else re.sub(r"^(the|a|an|another) ", "", referent.lower())
    if pronoun is None or right is None or right not in named or len(named) < 2:
        raise row.error(
            f"the sentence must mark a pronoun and one of two occupations, but marks {phrases} and names {named}"
        )
    style = "anti_stereotypical" if "not_stereotype" in row.text("name") else "stereotypical"
    facts = {"gender": GENDERS[pronoun.lower()], "stereotype": style, "type": kind, "occupation": right}
    options = tuple(f"the {name.replace('ceo', 'CEO')}" for name in named)
    # The same sentence with the other pronoun is the counterpart in the other file.
    group = re.sub(rf"\b({'|'.join(GENDERS)})\b", "_", text.lower())
    name = f"{row.text('name').replace('nw/', '')}"
    return ChoiceItem(name, f'{text} "{pronoun}" refers to ', options, ".", named.index(right), group, facts)


def winobias(
    kind: Literal["type1", "type2"] = "type1", stereotype: Literal["both", "pro", "anti"] = "both"
) -> TaskDefinition:
    """Accuracy, by stereotype and gender with the gaps between. Type 1 needs knowledge of the world, in type 2 syntax
    decides."""

    def read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
        return (_item(row, kind) for file in files for row in _sentences(file, split))

    styles = ("pro", "anti") if stereotype == "both" else (stereotype,)
    names = [f"_{kind}_{style}_stereotype.v4_auto_conll" for style in styles]
    return TaskDefinition(
        name=f"winobias_{kind}" + ("" if stereotype == "both" else f"_{stereotype}"),
        version=1,
        kind="choice",
        labels=(),
        metrics=("accuracy",),
        layouts=(
            Layout(
                "the authors' CoNLL files",
                {"dev": tuple(f"dev{name}" for name in names), "test": tuple(f"test{name}" for name in names)},
                read,
            ),
        ),
        home="https://github.com/uclanlp/corefBias/tree/master/WinoBias/wino/data/conll_format",
        scored="test",
        slices=(("stereotype",), ("gender",), ("stereotype", "gender")),
        gaps=(Gap("stereotype", "stereotypical", "anti_stereotypical"), Gap("gender", "male", "female")),
    )
