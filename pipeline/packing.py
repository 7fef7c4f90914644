"""Packing: token sequences of any length -> rows of one fixed length, nearly all of them full.

Pure NumPy functions, no files and no state; imports neither Beam nor torch. Every rule here is deterministic: the
same lengths give the same rows, in the same order, on every machine.

The rules:

1. A piece takes its tokens plus two places, [CLS] before and [SEP] after. A document of more than `row_length - 2`
   tokens is cut into full pieces, and what is left over is its tail.
2. Pieces are placed by best-fit decreasing: longest first, each into the row with the least room that still holds it.
   Equal lengths are placed together, so that the work grows with `row_length` squared and not with the documents.
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


def best_fit(sizes: Int64, capacity: int) -> tuple[Int64, Int64]:
    """Best-fit decreasing bin packing of `sizes` [P], each from 1 to `capacity`.

    Returns the bin of each item [P] and the room left in each bin [B]. Exactly the classical rule (longest item
    first, into the fullest bin it fits in), but all items of one size are placed in one go: a bin of room r that is
    the fullest possible for size s stays so until it holds r // s of them.
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    if len(sizes) and (sizes.min() < 1 or sizes.max() > capacity):
        raise ValueError(f"sizes must lie between 1 and {capacity}, but they reach {sizes.min()} to {sizes.max()}")
    order = np.argsort(-sizes, kind="stable")
    ends = np.cumsum(np.bincount(sizes, minlength=capacity + 1)[::-1])[::-1]
    bins = np.empty(len(sizes), dtype=np.int64)
    open_bins: list[list[Int64]] = [[] for _ in range(capacity + 1)]
    opened = 0
    for size in range(capacity, 0, -1):
        items = order[ends[size + 1] if size < capacity else 0 : ends[size]]
        for room in range(size, capacity + 1):
            if not len(items):
                break
            if not open_bins[room]:
                continue
            waiting = np.concatenate(open_bins[room])
            per_bin = room // size
            used = min(len(waiting), -(-len(items) // per_bin))
            open_bins[room] = [waiting[used:]] if used < len(waiting) else []
            items = _place(items, waiting[:used], per_bin, size, room, bins, open_bins)
        if len(items):
            per_bin = capacity // size
            new = np.arange(opened, opened + -(-len(items) // per_bin), dtype=np.int64)
            opened += len(new)
            _place(items, new, per_bin, size, capacity, bins, open_bins)
    room_left = np.zeros(opened, dtype=np.int64)
    for room, groups in enumerate(open_bins):
        for group in groups:
            room_left[group] = room
    return bins, room_left


def _place(
    items: Int64, into: Int64, per_bin: int, size: int, room: int, bins: Int64, open_bins: list[list[Int64]]
) -> Int64:
    """Put `per_bin` items into each bin of `into` (the last may get fewer); return the items left over."""
    placed = items[: len(into) * per_bin]
    bins[placed] = np.repeat(into, per_bin)[: len(placed)]
    full, rest = divmod(len(placed), per_bin)
    open_bins[room - per_bin * size].append(into[:full])
    if rest:
        open_bins[room - rest * size].append(into[full:])
    return items[len(placed) :]


def pack(lengths: Int64, row_length: int) -> Packing:
    """Pack documents of `lengths` [D] tokens into rows of `row_length` places, special tokens included."""
    capacity = row_length - SPECIALS_PER_PIECE
    pieces = split_documents(lengths, capacity)
    bins, room = best_fit(pieces.length + SPECIALS_PER_PIECE, row_length)
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
