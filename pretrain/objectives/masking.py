"""Which tokens of a row are to be predicted, and what stands in their place: pure functions on NumPy arrays.

All randomness comes from one key a row, so that a row is masked alike in any batch and on any rank. Must not import
torch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pretrain.data.counter import UInt64Array, hash_coordinates, integers, uniform

BoolArray = NDArray[np.bool_]
Int64Array = NDArray[np.int64]

SPAN_SUCCESS = 0.2
LONGEST_SPAN = 10

_LAST = np.uint64(2**64 - 1)
# Independent random streams of a row.
_ORDER, _REPLACEMENT, _RANDOM_ID, _SPAN_LENGTH = (np.array([stream]) for stream in range(4))


@dataclass(frozen=True)
class Choice:
    """What is to be predicted: `chosen` bool [R, L], and for each place the place whose draw decides on what replaces
    it, int64 [R, L] or None: its own."""

    chosen: BoolArray
    draw_at: Int64Array | None = None


def number_of_targets(maskable: NDArray[np.int64], probability: float) -> Int64Array:
    """Return n = round(p * maskable tokens of the row), half to even, [R] (DEFINITIONS.md; Devlin et al., 2019)."""
    return np.rint(probability * maskable).astype(np.int64)


def choose_tokens(maskable: BoolArray, row_keys: UInt64Array, probability: float) -> Choice:
    """Choose exactly `number_of_targets` of the maskable places of each row, every subset being as likely.

    maskable [R, L], row_keys [R]: the n maskable places with the smallest random words (which all differ: the hash of
    one key is a bijection of the place).
    """
    words = _random_words(maskable, row_keys)
    wanted = number_of_targets(maskable.sum(axis=1), probability)
    last = np.take_along_axis(np.sort(words, axis=1), np.maximum(wanted - 1, 0)[:, None], axis=1)
    return Choice((words <= last) & maskable & (wanted > 0)[:, None])


def choose_words(maskable: BoolArray, word_start: BoolArray, row_keys: UInt64Array, probability: float) -> Choice:
    """Choose whole words in random order, at most n = `number_of_targets` tokens of each row.

    A word that would pass n is skipped (Devlin et al., 2019, whole word masking). So fewer than n tokens are chosen
    only where every word left is longer than what is missing. maskable, word_start bool [R, L], row_keys [R]; the
    tokens of a word are all maskable ones up to the next start.
    """
    words = _Words(maskable, word_start, row_keys)
    left = number_of_targets(maskable.sum(axis=1), probability)
    taken = np.zeros_like(maskable)
    for place in range(words.most):
        if not left.any():
            break
        word = words.order[:, place]
        size = words.size_at(word)
        fits = size <= left
        left = left - size * fits
        taken[words.row, word] = fits
    return Choice(np.take_along_axis(taken, words.first, axis=1) & maskable)


def choose_spans(
    maskable: BoolArray, word_start: BoolArray, segments: NDArray[np.integer], row_keys: UInt64Array, probability: float
) -> Choice:
    """Choose spans of whole words, at most n = `number_of_targets` tokens of each row; a span shares one draw.

    SpanBERT (Joshi et al., 2020, section 3.1): the number of words from a geometric distribution with p = 0.2 that
    ends at 10 (mean 3.8), a start that is equally likely at each word, until the budget is spent; spans are replaced
    as wholes. Here starts are the words of a row in random order; one that is chosen already is passed over, as is a
    word that would pass n, and a span ends with its piece and before a word that has no maskable token. So fewer than
    n are chosen only where every word left is too long, as in `choose_words`.
    """
    words = _Words(maskable, word_start, row_keys)
    row, length = words.row, maskable.shape[1]
    spans = span_lengths(hash_coordinates(row_keys[:, None], _SPAN_LENGTH, np.arange(length)[None, :]))
    following = words.following(segments)
    left = number_of_targets(maskable.sum(axis=1), probability)
    taken = np.zeros_like(maskable)
    draw_at = np.zeros(maskable.shape, dtype=np.int64)
    for place in range(words.most):
        active = row[left > 0]
        if not len(active):
            break
        start = words.order[active, place]
        size = words.size[active, start]
        going = (size > 0) & ~taken[active, start] & (size <= left[active])
        active, start = active[going], start[going]
        word, span = start, spans[active, start]
        while len(active):
            fits = ~taken[active, word] & (words.size[active, word] <= left[active])
            rows, places = active[fits], word[fits]
            taken[rows, places] = True
            draw_at[rows, places] = start[fits]
            left[rows] -= words.size[rows, places]
            span = span - 1
            going = (span > 0) & (following[active, word] < length) & (left[active] > 0)
            active, start, span, word = active[going], start[going], span[going], following[active, word][going]
    chosen = np.take_along_axis(taken, words.first, axis=1) & maskable
    return Choice(chosen, np.take_along_axis(draw_at, words.first, axis=1))


def span_lengths(words: UInt64Array) -> Int64Array:
    """Random words of 64 bits -> span lengths 1 .. 10, P(l) proportional to p (1 - p)^(l - 1) with p = 0.2."""
    ends = 1.0 - (1.0 - SPAN_SUCCESS) ** np.arange(1, LONGEST_SPAN + 1)
    return np.searchsorted(ends[:-1] / ends[-1], uniform(words), side="right").astype(np.int64) + 1


def replace_tokens(
    input_ids: Int64Array,
    choice: Choice,
    row_keys: UInt64Array,
    *,
    mask_share: float,
    random_share: float,
    mask_id: int,
    random_ids: Int64Array,
) -> Int64Array:
    """Return rows [R, L] where of the chosen places mask_share hold `mask_id`, random_share one of `random_ids`.

    The rest keep their token. `row_keys` [R] hold all the randomness; `input_ids` is left as it is.
    """
    rows, places = np.nonzero(choice.chosen)
    keys = row_keys[rows]
    draw = uniform(
        hash_coordinates(keys, _REPLACEMENT, places if choice.draw_at is None else choice.draw_at[rows, places])
    )
    other = random_ids[integers(hash_coordinates(keys, _RANDOM_ID, places), len(random_ids))]
    kept = input_ids[rows, places]
    replaced = input_ids.copy()
    replaced[rows, places] = np.where(
        draw < mask_share, mask_id, np.where(draw < mask_share + random_share, other, kept)
    )
    return replaced


def _random_words(valid: BoolArray, row_keys: UInt64Array) -> UInt64Array:
    """One random word for each place [R, L], the largest there is where a place is not valid."""
    words = hash_coordinates(row_keys[:, None], _ORDER, np.arange(valid.shape[1])[None, :])
    return np.where(valid, words, _LAST)


class _Words:
    """The words of R rows, each known by its first place.

    `first` [R, L] is the place where the word of a place begins, `size` [R, L] the number of maskable tokens of the
    word that begins at a place (0: none does). `order` [R, L] has the places of a row's words in random order, then
    all other places; no row has more than `most` words.
    """

    def __init__(self, maskable: BoolArray, word_start: BoolArray, row_keys: UInt64Array) -> None:
        rows, length = maskable.shape
        self.row = np.arange(rows)
        self.first = np.maximum.accumulate(np.where(word_start, np.arange(length), 0), axis=1)
        flat = (self.first + self.row[:, None] * length)[maskable]
        self.size = np.bincount(flat, minlength=rows * length).reshape(rows, length)
        begins = self.size > 0
        self.order = np.argsort(_random_words(begins, row_keys), axis=1)
        self.most = int(begins.sum(axis=1).max(initial=0))

    def size_at(self, place: Int64Array) -> Int64Array:
        """The sizes of the words that begin at `place` [R], one a row."""
        return self.size[self.row, place]

    def following(self, segments: NDArray[np.integer]) -> Int64Array:
        """For each place [R, L] where a word begins, the place of the next word of its piece; L if a span ends there.

        A span ends at the end of a piece, and before a word without a maskable token.
        """
        rows, length = self.size.shape
        begins = self.first == np.arange(length)
        places = np.where(begins, np.arange(length), length)
        later = np.full((rows, length), length, dtype=np.int64)
        later[:, :-1] = np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1][:, 1:]
        at = np.minimum(later, length - 1)
        joined = (
            (later < length)
            & (np.take_along_axis(self.size, at, axis=1) > 0)
            & (np.take_along_axis(segments, at, axis=1) == segments)
        )
        return np.where(joined, later, length)
