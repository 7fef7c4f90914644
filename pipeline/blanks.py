"""Words that noise took out of a translation: how they stand in a text in memory and in a line that is written.

A tokenizer of this project makes no special token of any text ("[MASK]" in a document is a word like any other), so
where a word is blanked out must be said beside the text. Must import nothing of the project.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

# A noncharacter, which Unicode keeps for use within a program: it is taken out of all text that comes from outside.
BLANK = "\ufdd0"


def without_blanks(text: str, instead: str = "") -> str:
    """The text with `instead` in the place of each BLANK."""
    return text.replace(BLANK, instead)


def to_spans(text: str, name: str) -> tuple[str, list[list[int]]]:
    """The text with `name` in the place of each BLANK, and where these stand: [start, end] in characters, in order."""
    parts = text.split(BLANK)
    spans: list[list[int]] = []
    place = 0
    for part in parts[:-1]:
        place += len(part)
        spans.append([place, place + len(name)])
        place += len(name)
    return name.join(parts), spans


def from_spans(text: str, spans: Sequence[Sequence[int]]) -> str:
    """The text with a BLANK in the place of each span, and no other.

    Raises ValueError for what are no spans [start, end] of the text, in order and without a common character.
    """
    places = [place for start, end in spans for place in (start, end)]
    if not all(isinstance(place, int) for place in places) or any(a > b for a, b in pairwise([0, *places, len(text)])):
        raise ValueError(f"blanks must be spans of the {len(text)} characters of a text, in order, but are {spans!r}")
    bounds = [0, *places, len(text)]
    return BLANK.join(without_blanks(text[start:end]) for start, end in zip(bounds[::2], bounds[1::2], strict=True))
