"""Packing: token sequences of any length -> rows of one fixed length, nearly all of them full.

Pure NumPy functions, no files and no state; imports neither Beam nor torch. Every rule here is deterministic: the
same lengths give the same rows, in the same order, on every machine.

The rules:

1. A piece takes its tokens plus two places, [CLS] before and [SEP] after. A document of more than `row_length - 2`
   tokens is cut into full pieces, and what is left over is its tail.
2. Rows are filled one after another, each by the longest piece left and the pieces that close its gap best (`fit`).
   No piece is cut just to close a gap: a corpus whose documents are all a little over half a row stays half empty.
3. Rows are numbered by the first document in them, pieces within a row follow document order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SPECIALS_PER_PIECE = 2
ROWS_PER_BLOCK = 4096

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Slices of documents, P of them: `tokens[start : start + length]` of document number `document`."""

    document: Int64
    start: Int64
    length: Int64

    def __len__(self) -> int:
        return len(self.length)

    def take(self, order: Int64) -> Pieces:
        """The pieces at the positions `order` [any], in that order."""
        return Pieces(self.document[order], self.start[order], self.length[order])


@dataclass(frozen=True)
class Packing:
    """Where every piece goes: piece i lies in row `row[i]`; pieces are sorted by row, then by document and start."""

    pieces: Pieces
    row: Int64
    rows: int
    row_length: int

    @property
    def tokens(self) -> int:
        """Places that are taken, special tokens counted."""
        return int(self.pieces.length.sum()) + SPECIALS_PER_PIECE * len(self.pieces)

    @property
    def fill(self) -> float:
        """The share of places that are taken; 1.0 for no rows at all."""
        return self.tokens / (self.rows * self.row_length) if self.rows else 1.0


@dataclass(frozen=True)
class Block:
    """A few consecutive rows in the flat form of a shard.

    `input_ids` [N] are the rows' tokens one after another; row r is `input_ids[row_offsets[r] : row_offsets[r + 1]]`.
    `lengths` [P] and `document` [P] describe the pieces, row r owns `piece_offsets[r] : piece_offsets[r + 1]`.
    """

    input_ids: NDArray[np.unsignedinteger]
    row_offsets: Int64
    lengths: NDArray[np.uint16]
    document: NDArray[np.uint64]
    piece_offsets: Int64

    def __len__(self) -> int:
        return len(self.row_offsets) - 1


def split_documents(lengths: Int64, capacity: int) -> Pieces:
    """Cut documents of `lengths` [D] tokens into pieces of at most `capacity` tokens; empty ones give no piece.

    Raises ValueError for a capacity below 1.
    """
    if capacity < 1:
        raise ValueError(f"a piece must hold at least one token, but its capacity is {capacity}")
    lengths = np.asarray(lengths, dtype=np.int64)
    counts = -(-lengths // capacity)
    document = np.repeat(np.arange(len(lengths), dtype=np.int64), counts)
    number = np.arange(len(document), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    start = number * capacity
    return Pieces(document, start, np.minimum(lengths[document] - start, capacity))


def fit(sizes: Int64, capacity: int) -> tuple[Int64, Int64]:
    """Pack `sizes` [P], each from 1 to `capacity`, into few bins.

    Returns the bin of each item [P] and the room left in each bin [B].

    Bin by bin: the longest item there is, and with it the choice of other items that leaves the least room (the
    minimum bin slack heuristic; Gupta and Ho, Production Planning & Control 10(6), 1999), long items before short
    ones, which are kept for later gaps. The same choice of sizes is repeated as often as there are items for it, so
    the work grows with the number of different sizes and not with the items.
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    if len(sizes) and (sizes.min() < 1 or sizes.max() > capacity):
        raise ValueError(f"sizes must lie between 1 and {capacity}, but they reach {sizes.min()} to {sizes.max()}")
    # The items of size s are order[taken[s] : ends[s]], in the order given.
    order = np.argsort(sizes, kind="stable")
    left = np.bincount(sizes, minlength=capacity + 1).tolist()
    taken = (np.cumsum(left) - left).tolist()
    bins = np.empty(len(sizes), dtype=np.int64)
    room: list[Int64] = []
    opened = 0
    for longest in range(capacity, 0, -1):
        while left[longest]:
            chosen = _choose(left, longest, capacity)
            repeats = min(left[size] // number for size, number in chosen.items())
            for size, number in chosen.items():
                begin, end = taken[size], taken[size] + repeats * number
                bins[order[begin:end]] = opened + np.arange(repeats * number) // number
                taken[size] = end
                left[size] -= repeats * number
            space = capacity - sum(size * number for size, number in chosen.items())
            room.append(np.full(repeats, space, dtype=np.int64))
            opened += repeats
    return bins, np.concatenate(room) if room else np.empty(0, dtype=np.int64)


def _choose(left: list[int], longest: int, capacity: int) -> dict[int, int]:
    """How many of each size to put beside one item of size `longest`, so that the least room is left.

    `left[s]` items of size s are there. Sets of reachable sums are the bits of an integer; sizes join from long to
    short, and no further than needed to reach the capacity.
    """
    space = capacity - longest
    within = (1 << (space + 1)) - 1
    reachable = 1
    steps: list[tuple[int, int]] = []  # a size, and the sums that were reachable before it joined
    for size in range(min(longest, space), 0, -1):
        if reachable >> space & 1:
            break
        available = min(left[size] - (size == longest), space // size)
        if not available:
            continue
        steps.append((size, reachable))
        batch = 1
        while available:  # 1, 2, 4, ... and a rest: every number up to `available` is a sum of some of these
            batch = min(batch, available)
            reachable |= reachable << (batch * size) & within
            available -= batch
            batch *= 2
    chosen = {longest: 1}
    total = reachable.bit_length() - 1
    for size, before in reversed(steps):
        while not before >> total & 1:
            chosen[size] = chosen.get(size, 0) + 1
            total -= size
    return chosen


def pack(lengths: Int64, row_length: int) -> Packing:
    """Pack documents of `lengths` [D] tokens into rows of `row_length` places, special tokens included."""
    capacity = row_length - SPECIALS_PER_PIECE
    pieces = split_documents(lengths, capacity)
    bins, room = fit(pieces.length + SPECIALS_PER_PIECE, row_length)
    order = np.lexsort((pieces.start, pieces.document, bins))
    pieces, bins = pieces.take(order), bins[order]
    row = _by_first_piece(bins, len(room), pieces.document)
    order = np.argsort(row, kind="stable")
    return Packing(pieces.take(order), row[order], len(room), row_length)


def _by_first_piece(bins: Int64, count: int, document: Int64) -> Int64:
    """Renumber bins by the first document in them; `bins` is sorted, and documents ascend within a bin."""
    first = np.searchsorted(bins, np.arange(count))
    rank = np.empty(count, dtype=np.int64)
    rank[np.argsort(document[first], kind="stable")] = np.arange(count)
    return rank[bins]


def assemble(
    packing: Packing,
    tokens: NDArray[np.unsignedinteger],
    offsets: Int64,
    keys: NDArray[np.uint64],
    cls: int,
    sep: int,
    rows_per_block: int = ROWS_PER_BLOCK,
) -> Iterator[Block]:
    """Write out the rows of a packing, block by block, so that memory stays flat.

    `tokens` [T] are all documents' ids one after another, document d is `tokens[offsets[d] : offsets[d + 1]]`, and
    `keys` [D] name the documents. Each piece becomes [CLS] ids [SEP]; ids keep the type of `tokens`.
    """
    borders = np.searchsorted(packing.row, np.arange(0, packing.rows + rows_per_block, rows_per_block))
    for first_row, begin, end in zip(range(0, packing.rows, rows_per_block), borders[:-1], borders[1:], strict=False):
        rows = min(rows_per_block, packing.rows - first_row)
        document, length = packing.pieces.document[begin:end], packing.pieces.length[begin:end]
        sizes = length + SPECIALS_PER_PIECE
        out_end = np.cumsum(sizes)
        out_start = out_end - sizes
        ids = np.empty(int(out_end[-1]), dtype=tokens.dtype)
        ids[out_start], ids[out_end - 1] = cls, sep
        source = offsets[document] + packing.pieces.start[begin:end]
        inside = np.repeat(out_start + 1, length) + _within(length)
        ids[inside] = tokens[np.repeat(source, length) + _within(length)]
        piece_offsets = np.searchsorted(packing.row[begin:end], np.arange(first_row, first_row + rows + 1))
        row_offsets = np.concatenate(([0], out_end))[piece_offsets]
        yield Block(ids, row_offsets, sizes.astype(np.uint16), keys[document].astype(np.uint64), piece_offsets)


def _within(lengths: Int64) -> Int64:
    """0, 1, ... counted anew in each of the runs of `lengths`."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64) - np.repeat(ends - lengths, lengths)
