"""Texts that are not of words: tables of numbers, encoded data.

Must import nothing of the project but `conf.errors`.
"""

import re
import string
import unicodedata
from dataclasses import dataclass

from conf.errors import InputError
from pipeline.cleaning.chain import Dropped

_ASCII = re.compile("[\x00-\x7f]+")
_LETTERS = string.ascii_letters.encode()
_SPACES = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
FEW_LETTERS = Dropped("few_letters")


@dataclass(frozen=True)
class Letters:
    """Drops a text as "few_letters" when too few of its characters that are no white space are letters or marks.

    Letters of every script count; the vowel signs of Hindi or Thai are marks, which belong to words as letters do.
    """

    minimum_share: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.minimum_share <= 1.0:
            raise InputError(
                f"option 'minimum_share' of a letters step must be from 0 to 1, but is {self.minimum_share}"
            )

    def __call__(self, text: str) -> str | Dropped:
        """The text as it is, or why it is dropped."""
        letters, visible = count_letters(text)
        return FEW_LETTERS if letters < self.minimum_share * visible else text


def count_letters(text: str) -> tuple[int, int]:
    """The letters and marks in a text, and all its characters that are no white space.

    The ASCII part is counted in bytes, at memory speed: most of most texts.
    """
    ascii_part = text.encode("ascii", "ignore")
    others = [] if len(ascii_part) == len(text) else [c for c in _ASCII.sub("", text) if not c.isspace()]
    letters = len(ascii_part) - len(ascii_part.translate(None, _LETTERS))
    letters += sum(1 for character in others if unicodedata.category(character)[0] in "LM")
    return letters, len(ascii_part.translate(None, _SPACES)) + len(others)
