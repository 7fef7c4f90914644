"""Exact duplicates over a whole corpus, in bounded memory: hashes travel, texts never do.

Each range spills the 128-bit hashes of its documents, sorted. A partition is a slice of hash values; one partition of
all ranges is in memory at a time, and its duplicates are written to one file, sorted by range, from which each range
reads its own. Of equal documents the one with the smallest (range number, index in the range) stays. Pure functions on
files; imports neither Beam nor torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conf.files import atomic_writer
from pipeline.records import HASH_BYTES

# One document of a range: the two halves of its hash and which record of the range it is.
HASHED = np.dtype([("high", "<u8"), ("low", "<u8"), ("index", "<u8")])
# One document to drop.
DUPLICATE = np.dtype([("range", "<u4"), ("index", "<u8")])
PARTITION_BYTES = 4 << 30


def partitions_for(corpus_bytes: int) -> int:
    """How many partitions keep each small: one for every 4 GiB of text (about 10 million documents, 300 MB)."""
    return max(1, -(-corpus_bytes // PARTITION_BYTES))


def write_hashes(path: Path, hashes: Sequence[bytes], indices: Sequence[int]) -> None:
    """Spill the hashes [D] (16 bytes each) of a range's documents, whose places in the range are `indices` [D]."""
    halves = np.frombuffer(b"".join(hashes), dtype=">u8").reshape(-1, HASH_BYTES // 8)
    records = np.empty(len(hashes), dtype=HASHED)
    records["high"], records["low"], records["index"] = halves[:, 0], halves[:, 1], indices
    with atomic_writer(path) as handle:
        np.save(handle, np.sort(records, order=["high", "low", "index"]))


def partition_of(path: Path, partition: int, partitions: int) -> NDArray[np.void]:
    """The records of one spilled file whose hashes fall into a partition."""
    records = np.load(path, mmap_mode="r")
    borders = [-(-(number << 64) // partitions) for number in (partition, partition + 1)]
    begin, end = (
        len(records) if border >> 64 else int(np.searchsorted(records["high"], np.uint64(border))) for border in borders
    )
    return np.array(records[begin:end])


def find_duplicates(spilled: Iterable[tuple[int, Path]], partition: int, partitions: int) -> NDArray[np.void]:
    """The documents [N] of one partition to drop, sorted by range and index.

    `spilled` are the (range number, file of hashes) of all ranges, in any order.
    """
    parts, ranges = [], []
    for number, path in spilled:
        part = partition_of(path, partition, partitions)
        parts.append(part)
        ranges.append(np.full(len(part), number, dtype=np.uint32))
    if not parts:
        return np.empty(0, dtype=DUPLICATE)
    records, owner = np.concatenate(parts), np.concatenate(ranges)
    order = np.lexsort((records["index"], owner, records["low"], records["high"]))
    records, owner = records[order], owner[order]
    again = (records["high"][1:] == records["high"][:-1]) & (records["low"][1:] == records["low"][:-1])
    dropped = np.empty(int(again.sum()), dtype=DUPLICATE)
    dropped["range"], dropped["index"] = owner[1:][again], records["index"][1:][again]
    return np.sort(dropped, order=["range", "index"])


def write_duplicates(path: Path, duplicates: NDArray[np.void]) -> None:
    """Write what `find_duplicates` found."""
    with atomic_writer(path) as handle:
        np.save(handle, duplicates)


def duplicates_of(number: int, files: Iterable[Path]) -> NDArray[np.uint64]:
    """The indices [N] that range `number` has to drop, ascending, from the files of all partitions."""
    found = []
    for path in files:
        records = np.load(path, mmap_mode="r")
        begin, end = np.searchsorted(records["range"], [number, number + 1])
        found.append(np.array(records["index"][begin:end], dtype=np.uint64))
    return np.sort(np.concatenate(found)) if found else np.empty(0, dtype=np.uint64)
