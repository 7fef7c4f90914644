"""Which pairs are of no use: pure rules, each with the code under which its drops are counted.

Must import nothing of the project but `conf.errors`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError

LONGEST_REPEATED = 4  # tokens of a run that may be said over and over


def comparable(text: str) -> str:
    """A text in the form in which two are the same: Unicode NFKC, case folded, white space as single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def is_copy(source: str, target: str) -> bool:
    """Whether one side repeats the other, but for case, white space and Unicode form."""
    return source == target or comparable(source) == comparable(target)


def repeats(ids: NDArray[np.integer]) -> int:
    """How often in a row the most repeated run of 1 to LONGEST_REPEATED tokens of `ids` [N] stands; 0 for no tokens.

    "a b a b a b c" has 3, and a sentence that repeats nothing has 1.
    """
    if not len(ids):
        return 0
    most = 1
    for width in range(1, min(LONGEST_REPEATED, len(ids) // 2) + 1):
        # Places that equal the one a width before; n of them in a row are n // width more of the same run.
        unequal = np.flatnonzero(ids[width:] != ids[:-width])
        gaps = np.diff(unequal, prepend=-1, append=len(ids) - width) - 1
        most = max(most, int(gaps.max()) // width + 1)
    return most


@dataclass(frozen=True)
class TokenRules:
    """Bounds on the tokens of a pair.

    Attributes:
        minimum: tokens that each side must have, special ones not counted.
        maximum: tokens that each side may have, special ones and the source's tag counted.
        ratio: how many times as many as the other a side may have, special ones not counted; null for no bound.
        repeats: how often in a row a source may say the same (see `repeats`), unless its target does as often; null
            for no bound.
    """

    minimum: int = 1
    maximum: int = 252
    ratio: float | None = 1.5
    repeats: int | None = None

    def __post_init__(self) -> None:
        if self.minimum < 1:
            raise InputError(f"option 'job.min_length' must be at least 1, but is {self.minimum}")
        if self.maximum < self.minimum + 2:
            raise InputError(
                f"option 'job.max_length' must be at least job.min_length + 2 = {self.minimum + 2} (the special tokens "
                f"count), but is {self.maximum}"
            )
        if self.ratio is not None and self.ratio < 1:
            raise InputError(f"option 'job.max_ratio' must be at least 1 or null, but is {self.ratio}")
        if self.repeats is not None and self.repeats < 1:
            raise InputError(f"option 'job.max_repeats' must be at least 1 or null, but is {self.repeats}")

    def reason(
        self, source: NDArray[np.integer], target: NDArray[np.integer], specials: tuple[int, int] = (2, 2)
    ) -> str | None:
        """Why a pair of token sequences, without special tokens, is dropped; None if it is not.

        `specials` is how many special tokens source and target will have.
        """
        short, long = sorted((len(source), len(target)))
        if short == 0:
            return "no_tokens"
        if short < self.minimum:
            return "too_short"
        if len(source) + specials[0] > self.maximum or len(target) + specials[1] > self.maximum:
            return "too_long"
        if self.ratio is not None and long > self.ratio * short:
            return "ratio"
        if self.repeats is not None and (found := repeats(source)) > self.repeats and found > repeats(target):
            return "repetition"
        return None
