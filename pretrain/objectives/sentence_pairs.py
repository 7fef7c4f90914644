"""Packed pieces [CLS] tokens [SEP] -> pairs [CLS] A [SEP] B [SEP] with a label, for sentence-level losses.

Two tasks. `next_sentence` (Devlin et al., 2019): is B what follows A, or does it come from elsewhere, another row
(hardly ever of the same document, unless that fills a good part of the corpus)?
`sentence_order` (Lan et al., 2020): are A and B in order, or swapped? Label 0 is the text as it was, 1 the other; a
fair coin decides, and only pieces of which both labels could be made are given one: a loss must not be won by looking
at lengths or at how a part ends. So, with a label or without:

- sentence_order: A and B are whole sentences; what a cut has left of others at either end of the piece goes. Where
  that frees no place for the second [SEP], both lose their last token. A border that leaves A the longer part is as
  likely as one that leaves it the shorter; a piece that has only one kind gets no label.
- next_sentence: A and the length of B do not depend on the label. The other B begins with a sentence too, within a
  piece of the partner row (never its first), and is cut to that length. Hence it mostly ends within a sentence; so
  does the true B, of which a random part of its last sentence is left off where the piece holds its document's end (it
  is shorter than a row). The place for the second [SEP] is taken from the beginning of A.

A piece without two parts, of fewer than MINIMUM_PLACES, or without a partner that is long enough stays as it was, with
no label. Pure functions on NumPy arrays; must not import torch.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.shards import Rows
from pretrain.data.counter import UInt64Array, hash_coordinates, uniform

SentenceTask = Literal["next_sentence", "sentence_order"]

MINIMUM_PLACES = 16  # of a piece that is made a pair

_DRAWS = 16 + np.arange(4)  # random streams of their own, beside those of masking
_LABEL, _SIDE, _BORDER, _OTHER = range(4)


@dataclass(frozen=True)
class Pairs:
    """R rows of pairs (and of pieces that stayed), and their labels in P slots, of which the first ones are used.

    `token_type_ids` int64 [R, L] are 1 on B and its [SEP]; `positions` int64 [P] the flat places of the pairs' [CLS],
    `labels` int64 [P], `weights` float32 [P].
    """

    rows: Rows
    token_type_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    labels: NDArray[np.int64]
    weights: NDArray[np.float32]


class _Split(NamedTuple):
    """The two parts of a pair, each as (whether it is the partner row's, begin, end), and the label."""

    first: tuple[bool, int, int]
    second: tuple[bool, int, int]
    label: int


def pair_capacity(row_length: int) -> int:
    """The most pairs that a row can hold."""
    return max(1, row_length // MINIMUM_PLACES)


def make_pairs(
    rows: Rows,
    row_keys: UInt64Array,
    used: NDArray[np.bool_],
    task: SentenceTask,
    special_ids: dict[str, int],
    partners: Rows | None = None,
) -> Pairs:
    """Turn the pieces of R rows into pairs; all randomness is in `row_keys` [R], and nothing is changed in place.

    Rows that are not `used` [R] get no weight. Rows, and for next_sentence the partners, must have `sentence_start`.
    Raises ValueError if they have not.
    """
    if rows.sentence_start is None or (
        task == "next_sentence" and (partners is None or partners.sentence_start is None)
    ):
        raise ValueError(f"the task {task} needs rows (and partners) with the column sentence_lengths")
    count, length = rows.input_ids.shape
    capacity = pair_capacity(length)
    result = _Written(rows, special_ids)
    positions, labels = np.zeros((2, count * capacity), dtype=np.int64)
    weights = np.zeros(count * capacity, dtype=np.float32)
    found = 0
    most = int(rows.segments.max(initial=0))
    draws = uniform(hash_coordinates(row_keys[:, None, None], np.arange(most)[None, :, None], _DRAWS[None, None, :]))
    for row in range(count):
        candidates = _later_sentences(partners, row) if partners is not None else None
        for ordinal, (begin, end) in enumerate(_pieces(rows.segments[row])):
            split = _split(rows.sentence_start[row], begin, end, task, draws[row, ordinal].tolist(), candidates)
            if split is None:
                result.copy(row, begin, end)
                continue
            positions[found] = row * length + result.place(row)
            labels[found], weights[found] = split.label, used[row]
            found += 1
            result.pair(row, split, partners)
    return Pairs(result.rows(), result.types, positions, labels, weights)


def _pieces(segments: NDArray[np.integer]) -> list[tuple[int, int]]:
    """(begin, end) of each piece of a row [L]."""
    borders = np.flatnonzero(np.diff(segments, prepend=0, append=0)).tolist()
    return [(begin, end) for begin, end in pairwise(borders) if segments[begin]]


def _later_sentences(rows: Rows, row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places in a row where a sentence begins that is not its piece's first, and the tokens from there to [SEP]."""
    assert rows.sentence_start is not None
    places, rooms = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for begin, end in _pieces(rows.segments[row]):
        starts = begin + 2 + np.flatnonzero(rows.sentence_start[row, begin + 2 : end - 1])
        places.append(starts)
        rooms.append(end - 1 - starts)
    return np.concatenate(places), np.concatenate(rooms)


def _split(
    sentence_start: NDArray[np.bool_],
    begin: int,
    end: int,
    task: SentenceTask,
    draws: list[float],
    candidates: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
) -> _Split | None:
    """How the piece [begin, end) of a row becomes a pair; None if it cannot. `draws` are uniform in [0, 1)."""
    if end - begin < MINIMUM_PLACES:
        return None
    # Starts among the tokens, and [SEP] if it follows a whole sentence.
    starts = begin + 1 + np.flatnonzero(sentence_start[begin + 1 : end])
    if task == "sentence_order":
        return _ordered(starts, begin, end, draws)
    assert candidates is not None
    return _followed(starts, begin, end, len(sentence_start), draws, candidates)


def _ordered(starts: NDArray[np.int64], begin: int, end: int, draws: list[float]) -> _Split | None:
    if len(starts) < 3:
        return None
    first, borders, last = int(starts[0]), starts[1:-1], int(starts[-1])
    lost = int(last - first + 3 > end - begin)
    imbalance = 2 * borders - first - last
    shorter, longer = borders[imbalance <= 0], borders[imbalance >= 0]
    if not len(shorter) or not len(longer):
        return None
    side = shorter if draws[_SIDE] < 0.5 else longer
    border = _pick(side, draws[_BORDER])
    if border - lost <= first or last - lost <= border:
        return None
    parts = (False, first, border - lost), (False, border, last - lost)
    swapped = draws[_LABEL] < 0.5
    return _Split(parts[swapped], parts[not swapped], int(swapped))


def _followed(
    starts: NDArray[np.int64],
    begin: int,
    end: int,
    row_length: int,
    draws: list[float],
    candidates: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> _Split | None:
    inside = starts[starts < end - 1]
    borders = inside[inside > begin + 2]  # so that A can lose a token
    if not len(borders):
        return None
    border = _pick(borders, draws[_BORDER])
    stop = end - 1
    if end - begin < row_length:
        last = int(inside[-1])
        stop = last + 1 + int(draws[_SIDE] * (stop - last))
    lost = int(stop == end - 1)
    places, rooms = candidates
    fitting = places[rooms >= stop - border]
    if not len(fitting):
        return None
    first = (False, begin + 1 + lost, border)
    if draws[_LABEL] < 0.5:
        return _Split(first, (False, border, stop), 0)
    other = _pick(fitting, draws[_OTHER])
    return _Split(first, (True, other, other + stop - border), 1)


def _pick(values: NDArray[np.int64], draw: float) -> int:
    return int(values[int(draw * len(values))])


class _Written:
    """The rows that are being put together, each from its left end."""

    def __init__(self, rows: Rows, special_ids: dict[str, int]) -> None:
        self._from = rows
        self._cls, self._sep = special_ids["cls"], special_ids["sep"]
        shape = rows.input_ids.shape
        self._ids = np.full(shape, special_ids["pad"], dtype=rows.input_ids.dtype)
        self._segments = np.zeros(shape, dtype=np.int32)
        self._words = None if rows.word_start is None else np.zeros(shape, dtype=bool)
        self.types = np.zeros(shape, dtype=np.int64)
        self._filled = [0] * shape[0]
        self._ordinals = [0] * shape[0]

    def place(self, row: int) -> int:
        """The next free place of a row."""
        return self._filled[row]

    def rows(self) -> Rows:
        """The rows as they are now."""
        return Rows(self._ids, self._segments, self._words)

    def copy(self, row: int, begin: int, end: int) -> None:
        """Take over a piece as it is."""
        self._ordinals[row] += 1
        self._tokens(row, self._from, begin, end, 0)

    def pair(self, row: int, split: _Split, partners: Rows | None) -> None:
        """Write [CLS] first [SEP] second [SEP]."""
        self._ordinals[row] += 1
        self._special(row, self._cls, 0)
        for kind, (elsewhere, begin, end) in enumerate((split.first, split.second)):
            source = partners if elsewhere else self._from
            assert source is not None
            self._tokens(row, source, begin, end, kind)
            self._special(row, self._sep, kind)

    def _tokens(self, row: int, source: Rows, begin: int, end: int, kind: int) -> None:
        here = slice(self._filled[row], self._filled[row] + end - begin)
        self._ids[row, here] = source.input_ids[row, begin:end]
        self._segments[row, here] = self._ordinals[row]
        self.types[row, here] = kind
        if self._words is not None:
            if source.word_start is None:
                raise ValueError("partners must have the columns of the rows, but lack word_start")
            self._words[row, here] = source.word_start[row, begin:end]
        self._filled[row] = here.stop

    def _special(self, row: int, token: int, kind: int) -> None:
        place = self._filled[row]
        self._ids[row, place], self._segments[row, place], self.types[row, place] = token, self._ordinals[row], kind
        if self._words is not None:
            self._words[row, place] = True
        self._filled[row] += 1
