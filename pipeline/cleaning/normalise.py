"""One form for what looks the same: line ends, white space, control and zero-width characters, Unicode form.

Must import nothing of the project.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

_NEW_LINES = "\r\u2028\u0085\x0b\x0c"
# Every white space of Unicode but tab and LF, and the four separators of ASCII.
_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\x1c-\x1f"
# Control characters, and those without width that change nothing: zero-width space, marks and embeddings of direction,
# word joiner and its kin, byte order mark, soft hyphen.
_INVISIBLE = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff"
# One pass finds them all; a pass for each kind would cost as much again each time.
_SPECIAL = re.compile(f"([{_NEW_LINES}])|(\u2029)|([{_SPACES}])|[{_INVISIBLE}]")
_ANY_SPECIAL = re.compile(f"[{_NEW_LINES}\u2029{_SPACES}{_INVISIBLE}]")
_REPLACEMENTS = {1: "\n", 2: "\n\n", 3: " ", None: ""}
# Zero-width joiners carry meaning between two letters (Persian, Hindi) or signs (emoji), and none at a word's edge.
_LOOSE_JOINER = re.compile(r"(?<!\S)[\u200c\u200d]+|[\u200c\u200d]+(?!\S)")
_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class Normalise:
    """Rewrites a text; drops none.

    Line ends of all kinds become LF (a paragraph separator: two), white space of all kinds but tab becomes a space,
    control and zero-width characters go, as do white space at the end of lines, blank lines after the first, and blank
    lines at both ends of the text. Indentation stays. Doing it twice changes nothing more.

    Attributes:
        form: Unicode normalisation form; `none` leaves accents as they are encoded.
    """

    form: Literal["none", "NFC", "NFD", "NFKC", "NFKD"] = "NFC"

    def __call__(self, text: str) -> str:
        """The normalised text."""
        text = _replace_special(text.replace("\r\n", "\n"))
        if self.form != "none" and not text.isascii():
            # A compatibility form can bring forth white space, as that of U+00B4 does.
            text = _replace_special(unicodedata.normalize(self.form, text))
        if "\u200c" in text or "\u200d" in text:  # last: what is a word's edge is known only now
            text = _LOOSE_JOINER.sub("", text)
        if " \n" in text or "\t\n" in text:
            text = "\n".join([line.rstrip(" \t") for line in text.split("\n")])
        if "\n\n\n" in text:
            text = _BLANK_LINES.sub("\n\n", text)
        return text.strip("\n").rstrip()


def _replace_special(text: str) -> str:
    # A class of characters is searched several times faster than alternatives with groups are.
    return _ANY_SPECIAL.sub(_replacement, text)


def _replacement(match: re.Match[str]) -> str:
    kind = _SPECIAL.match(match.group())
    return _REPLACEMENTS[kind.lastindex if kind else None]
