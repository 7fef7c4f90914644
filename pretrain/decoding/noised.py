"""Beam search with noise on its outputs: what made the best synthetic sources in Edunov et al. 2018, section 3.

Words are deleted, blanked out, and moved a little; which ones is a pure function of (seed, sentence id, hypothesis).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError
from pretrain.data.counter import derive_key, hash_coordinates, uniform
from pretrain.decoding.batch import SearchBatch
from pretrain.decoding.beam import BeamSearch
from pretrain.decoding.constraints import Hypothesis

_DELETE, _BLANK, _MOVE = range(3)


@dataclass(frozen=True, kw_only=True)
class NoisedBeam(BeamSearch):
    """Beam search, then noise on each output; the score is the one before it.

    A word is a run of tokens of which the later ones continue the first (WordPiece's ##); where tokens do not say so,
    each is a word.

    Attributes:
        seed: of all noise.
        delete: probability that a word is left out. One is always left.
        blank: probability that a word which is not left out becomes one [MASK].
        swap: no word ends up more than so many places from where it was.
    """

    seed: int = 0
    delete: float = 0.1
    blank: float = 0.1
    swap: int = 3

    def __post_init__(self) -> None:
        """Raise InputError for a value out of its range."""
        super().__post_init__()
        for name in ("delete", "blank"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"decoding.{name} must be from 0 to 1, but is {getattr(self, name)}")
        if self.swap < 0:
            raise InputError(f"decoding.swap must be 0 or more, but is {self.swap}")

    def decode(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """As `BeamSearch.decode`, with noise."""
        found = super().decode(batch)
        vocabulary = batch.vocabulary
        return [
            [
                replace(one, tokens=self.noised(one.tokens, name, number, vocabulary.blank_id, vocabulary.continues))
                for number, one in enumerate(hypotheses)
            ]
            for name, hypotheses in zip(batch.ids, found, strict=True)
        ]

    def noised(
        self,
        tokens: list[int],
        name: Hashable,
        number: int,
        blank_id: int,
        continues: NDArray[np.bool_] | None,
    ) -> list[int]:
        """The tokens of hypothesis `number` of sentence `name` with noise; `continues` is `Vocabulary.continues`."""
        words = split_words(tokens, continues)
        if not words:
            return []
        key = derive_key(self.seed, "noise", repr(name))

        def draws(purpose: int, count: int) -> NDArray[np.float64]:
            return uniform(hash_coordinates(key, np.array([number]), np.array([purpose]), np.arange(count)))

        chances = draws(_DELETE, len(words))
        left = chances >= self.delete
        if not left.any():
            left[chances.argmax()] = True
        blanked = draws(_BLANK, len(words)) < self.blank
        kept = [[blank_id] if blank else word for word, stays, blank in zip(words, left, blanked, strict=True) if stays]
        # Sorting i + a number below swap + 1 moves nothing further than swap (Lample et al. 2018, section 2.3).
        order = np.argsort(np.arange(len(kept)) + draws(_MOVE, len(kept)) * (self.swap + 1), kind="stable")
        return [token for index in order.tolist() for token in kept[index]]


def split_words(tokens: list[int], continues: NDArray[np.bool_] | None) -> list[list[int]]:
    """Tokens as words: a token that `continues` goes to the word before it, a first one begins a word all the same."""
    words: list[list[int]] = []
    for token in tokens:
        if words and continues is not None and continues[token]:
            words[-1].append(token)
        else:
            words.append([token])
    return words
