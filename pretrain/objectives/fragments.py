"""Which fragments of a row MASS takes out: pure functions on NumPy arrays, with one key of randomness a row.

A row holds pieces [CLS] x_1 ... x_m [SEP]. The m tokens between the special ones at a piece's ends are its text: they
and no others may lie in a fragment, and an [UNK] among them is a token like any other, since a fragment has no holes.
Must not import torch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pretrain.data.counter import UInt64Array, hash_coordinates, integers, uniform

BoolArray = NDArray[np.bool_]
Int64Array = NDArray[np.int64]

SPECIALS_PER_PIECE = 2  # [CLS] and [SEP]

# Random streams of their own, beside those of masking and of sentence pairs.
_KIND, _START = (np.array([stream]) for stream in (32, 33))


@dataclass(frozen=True)
class FragmentRule:
    """What fragments are: of each block of a piece's text, `share` of its tokens, in one run.

    `first_share` of the fragments begin at the block's first token, `last_share` end at its last one, the rest begin
    anywhere, each start being as likely. A block is `block_size` tokens (what is left over at a piece's end is a block
    too), or with None the piece's whole text.
    """

    share: float = 0.5
    first_share: float = 0.2
    last_share: float = 0.2
    block_size: int | None = 64


@dataclass(frozen=True)
class Fragments:
    """F fragments in the order of rows and places: `row`, `start` (a place in the row), `length` (1 or more), [F]."""

    row: Int64Array
    start: Int64Array
    length: Int64Array

    def places(self, shape: tuple[int, ...]) -> BoolArray:
        """Which places of rows of `shape` [R, L] lie in a fragment."""
        borders = np.zeros((shape[0], shape[1] + 1), dtype=np.int64)
        # Fragments that touch have a border in common, hence `add.at` and not an assignment.
        np.add.at(borders, (self.row, self.start), 1)
        np.add.at(borders, (self.row, self.start + self.length), -1)
        return np.cumsum(borders, axis=1)[:, :-1] > 0

    def starts(self, shape: tuple[int, ...]) -> BoolArray:
        """Which places of rows of `shape` [R, L] are the first of a fragment."""
        found = np.zeros(shape, dtype=bool)
        found[self.row, self.start] = True
        return found


def fragment_length(tokens: Int64Array, share: float) -> Int64Array:
    """Return k = round(share * m) for blocks of m `tokens`, half to even (Song et al., 2019, section 3.2: 50 %).

    Any shape; m counts text, without [CLS] and [SEP]. 0 is possible: such a block has no fragment.
    """
    return np.rint(share * tokens).astype(np.int64)


def choose_fragments(segments: NDArray[np.integer], row_keys: UInt64Array, rule: FragmentRule) -> Fragments:
    """Choose one fragment in each block of each piece of R rows.

    `segments` [R, L] are 1, 2, ... on the pieces and 0 on padding; a piece's first and last place are never chosen.
    `row_keys` [R] hold all the randomness: where a fragment begins depends on the key of its row, the place of its
    block, and the block's length. The shares of starts are those of the authors' code (MASS-fairseq: 20 % first, 20 %
    last, 60 % uniform); so are blocks of 64 (MASS-summarization, whose starts are uniform).
    """
    row, first, tokens = _blocks(segments, rule.block_size)
    length = fragment_length(tokens, rule.share)
    keys = row_keys[row]
    kind = uniform(hash_coordinates(keys, _KIND, first))
    spare = tokens - length
    anywhere = integers(hash_coordinates(keys, _START, first), spare + 1)
    offset = np.where(kind < rule.first_share, 0, np.where(kind < rule.first_share + rule.last_share, spare, anywhere))
    some = length > 0
    return Fragments(row[some], (first + offset)[some], length[some])


def _blocks(segments: NDArray[np.integer], block_size: int | None) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(row, first place, number of tokens) of each block of text, int64 [B] each, in the order of rows and places."""
    length = segments.shape[1]
    begins = segments > 0
    begins[:, 1:] &= segments[:, 1:] != segments[:, :-1]
    ends = segments > 0
    ends[:, :-1] &= segments[:, 1:] != segments[:, :-1]
    row, begin = np.nonzero(begins)
    last = np.nonzero(ends)[1]
    tokens = np.maximum(last - begin - 1, 0)
    size = length if block_size is None else block_size
    counts = -(-tokens // size)
    piece = np.repeat(np.arange(len(row)), counts)
    number = np.arange(len(piece)) - np.repeat(np.cumsum(counts) - counts, counts)
    return row[piece], (begin + 1)[piece] + number * size, np.minimum(size, tokens[piece] - number * size)


def most_targets(row_length: int, rule: FragmentRule) -> int:
    """Return how many tokens the fragments of a row of `row_length` places can hold at most, whatever is packed in it.

    The best packing of pieces of m tokens and two special ones, found for every shorter row first.
    """
    size = row_length if rule.block_size is None else rule.block_size
    text = np.arange(1, max(row_length - SPECIALS_PER_PIECE, 0) + 1)
    whole, rest = np.divmod(text, size)
    of_piece = whole * fragment_length(np.array(size), rule.share) + fragment_length(rest, rule.share)
    best = np.zeros(row_length + 1, dtype=np.int64)
    for places in range(SPECIALS_PER_PIECE + 1, row_length + 1):
        pieces = places - SPECIALS_PER_PIECE  # a first piece of 1 ... so many tokens, and the best of the places left
        best[places] = max(best[places - 1], (of_piece[:pieces] + best[:pieces][::-1]).max())
    return int(best[row_length])
