"""Where a span lies in a text, given its words and roughly where it starts. Pure."""

import re

from pretrain.evaluation.sources.rows import Row


def word_start(text: str, index: int, row: Row) -> int:
    """The character at which the word of that number starts, words being what white space separates.

    Raises:
        InputError: the text has fewer words.
    """
    words = list(re.finditer(r"\S+", text))
    if index >= len(words):
        raise row.error(f"must name a word of a text of {len(words)} words, but names number {index}")
    return words[index].start()


def find_span(text: str, span: str, near: int, row: Row) -> tuple[int, int]:
    """Characters [start, end) of the occurrence of `span` that starts nearest to `near`, the earlier of two.

    Published sets have starts that are off by a quote or a bracket, and spans in another case; a span that begins in
    the middle of a word is not meant where another can be.

    Raises:
        InputError: the text does not hold the span.
    """
    wanted = span.strip()
    found = [match.start() for match in re.finditer(re.escape(wanted), text, re.IGNORECASE)] if wanted else []
    if not found:
        raise row.error(f"has the span {span!r}, which its text does not hold")
    whole = [start for start in found if _is_whole(text, start, start + len(wanted))] or found
    start = min(whole, key=lambda place: (abs(place - near), place))
    return start, start + len(wanted)


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no letter of the Latin alphabet is cut off (Chinese has no such limits between words)."""
    before, after = text[start - 1 : start], text[end : end + 1]
    inside = re.compile(r"[A-Za-z0-9]")
    return not (inside.match(before) and inside.match(text[start])) and not (
        inside.match(after) and inside.match(text[end - 1])
    )
