"""What a search must know of the tokens: which begin and end a target, which are special, which continue a word.

Imports numpy and the tokenizer's helpers; no model is known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models

from conf.errors import InputError
from pipeline.tokenizer import CONTINUATION, special_ids


@dataclass(frozen=True)
class Vocabulary:
    """A target begins with the id `cls` and ends with `sep`; `blank` stands for a token that noise took away.

    `special` are the ids of all special tokens by role. `continues`, bool [size] or None: whether a token goes on with
    the word before it; None where tokens do not say. `names` gives the id of a token by its name.
    """

    special: Mapping[str, int]
    names: Mapping[str, int] = field(default_factory=dict, repr=False)
    continues: NDArray[np.bool_] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Vocabulary:
        """Read it from a tokenizer. Raises InputError if that lacks a special token."""
        names = tokenizer.get_vocab(with_added_tokens=True)
        continues = None
        if isinstance(tokenizer.model, models.WordPiece):
            continues = np.zeros(max(names.values()) + 1, dtype=bool)
            continues[[number for name, number in names.items() if name.startswith(CONTINUATION)]] = True
        return cls(special_ids(tokenizer), names, continues)

    @property
    def cls_id(self) -> int:
        """The decoder's first input."""
        return self.special["cls"]

    @property
    def sep_id(self) -> int:
        """What ends a hypothesis."""
        return self.special["sep"]

    @property
    def blank_id(self) -> int:
        """What noise puts in the place of a word: [MASK]."""
        return self.special["mask"]

    def ids(self, tokens: Sequence[str], option: str) -> list[int]:
        """The ids of tokens by name, or for special ones by role ("unk"); `option` is named if there is none.

        Raises InputError for a token that the vocabulary does not have.
        """
        found = []
        for token in tokens:
            number = self.names.get(token, self.special.get(token))
            if number is None:
                raise InputError(
                    f"{option} names '{token}', which is no token of the model's vocabulary; choose another"
                )
            found.append(number)
        return found
