"""Where the sentences of a raw text begin, for the column `sentence_lengths`. Pure.

The rule is that of `pipeline.prose`: a blank line, a bullet, a change of indentation or a line that was not wrapped
parts paragraphs; within one, a full stop, question or exclamation mark (with quotes or brackets that it closes) ends a
sentence where white space and no small letter follow, unless it ends a known abbreviation or an initial. Here it is
applied to all of the text, headings, lists and code included, and a border lies only after a blank, tab or line end.
So in a language that sets no blanks between sentences each paragraph is one.
"""

import re

import numpy as np
from numpy.typing import NDArray

from pipeline.prose import paragraphs, sentences_of

_WORD = re.compile(r"\S+")
_BORDER_CHARACTERS = " \t\r\n"


def sentence_starts(text: str) -> NDArray[np.int64]:
    """The places of the first characters of the sentences of a text, ascending [S]; the first is 0."""
    words = [match.start() for match in _WORD.finditer(text)]
    starts = [0]
    number = 0
    for paragraph in paragraphs(text):
        if not paragraph:
            continue
        for sentence in sentences_of(paragraph):
            start = words[number]
            if number and text[start - 1] in _BORDER_CHARACTERS:
                starts.append(start)
            number += sentence.count(" ") + 1
    return np.array(starts, dtype=np.int64)
