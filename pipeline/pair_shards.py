"""Shards of sentence pairs: what `job=parallel` and `job=back_translation` write and a translation objective reads.

Imports neither Beam nor torch. The directory is that of `pipeline.shards`, with the kind "parallel" and the languages
in its manifest; its `row_length` is the most tokens that one side may have, special tokens included. A shard is an
uncompressed Arrow IPC file of rows

    source_ids: list<uint16 or uint32>  [CLS], a tag such as <bt> where the pair has one, the source's tokens, [SEP]
    target_ids: list<uint16 or uint32>  [CLS], the target's tokens, [SEP]
    origin:     uint8                   index into ORIGINS: whether people or a model wrote the source
    score:      float32                 of the model that wrote it; NaN where there is none

in record batches as in `pipeline.shards`. Rows keep the order of their input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from pipeline.manifest import Manifest, ShardInfo, Split, read_manifest
from pipeline.mapped_shards import MappedRows, MappedShard, numbers, verify, verify_files
from pipeline.shard_columns import IdType
from pipeline.shard_writer import ROWS_PER_BATCH, ArrowShard, list_array

__all__ = [
    "KIND",
    "ORIGINS",
    "Manifest",
    "PairReader",
    "PairRows",
    "PairWriter",
    "Pairs",
    "pair_schema",
    "verify",
    "write_pairs",
]

KIND = "parallel"
ORIGINS = ("bitext", "synthetic")


@dataclass(frozen=True)
class Pairs:
    """R pairs, flat: `source_ids` holds all sources one after another, `source_lengths` int64 [R] their lengths.

    `target_ids` and `target_lengths` likewise; the ids are of the shard's unsigned type. `origin` uint8 [R] indexes
    ORIGINS, `score` float32 [R] is NaN where a pair has none.
    """

    source_ids: NDArray[np.unsignedinteger]
    source_lengths: NDArray[np.int64]
    target_ids: NDArray[np.unsignedinteger]
    target_lengths: NDArray[np.int64]
    origin: NDArray[np.uint8]
    score: NDArray[np.float32]

    def __post_init__(self) -> None:
        count = len(self.origin)
        if not len(self.source_lengths) == len(self.target_lengths) == len(self.score) == count:
            raise ValueError(f"pairs must have as many lengths and scores as origins ({count})")
        for side, ids, lengths in (
            ("source", self.source_ids, self.source_lengths),
            ("target", self.target_ids, self.target_lengths),
        ):
            if int(lengths.sum()) != len(ids):
                raise ValueError(f"the {side} lengths add up to {int(lengths.sum())}, but there are {len(ids)} ids")

    def __len__(self) -> int:
        return len(self.origin)

    def blocks(self, size: int) -> Iterator[Pairs]:
        """The pairs in order, `size` at a time; the last block holds the rest, and there is none without pairs."""
        source_at = np.concatenate(([0], np.cumsum(self.source_lengths)))
        target_at = np.concatenate(([0], np.cumsum(self.target_lengths)))
        for begin in range(0, len(self), size):
            end = min(begin + size, len(self))
            yield Pairs(
                self.source_ids[source_at[begin] : source_at[end]],
                self.source_lengths[begin:end],
                self.target_ids[target_at[begin] : target_at[end]],
                self.target_lengths[begin:end],
                self.origin[begin:end],
                self.score[begin:end],
            )


def pair_schema(dtype: str) -> pa.Schema:
    """The Arrow schema of a shard of pairs with ids of `dtype`."""
    ids = pa.list_(pa.from_numpy_dtype(np.dtype(dtype)))
    return pa.schema(
        [
            pa.field("source_ids", ids),
            pa.field("target_ids", ids),
            pa.field("origin", pa.uint8()),
            pa.field("score", pa.float32()),
        ]
    )


class PairWriter(ArrowShard):
    """Writes one shard of pairs, block by block; see `ArrowShard`.

    Raises ValueError for a side that is longer than `row_length`, an origin that there is not, or a block that would
    break the fixed batch size.
    """

    def __init__(self, directory: str | Path, path: str, split: Split, row_length: int, dtype: IdType) -> None:
        self._row_length, self._dtype = row_length, dtype
        super().__init__(directory, path, split, pair_schema(dtype))

    def write(self, block: Pairs) -> None:
        """Append the pairs of a block as one record batch."""
        if len(block):
            longest = int(max(block.source_lengths.max(), block.target_lengths.max()))
            if longest > self._row_length:
                raise ValueError(f"a pair of '{self.path}' has a side of {longest} tokens, over {self._row_length}")
            if int(block.origin.max()) >= len(ORIGINS):
                raise ValueError(f"a pair of '{self.path}' has origin {int(block.origin.max())}: expected {ORIGINS}")
        columns = [
            list_array(np.concatenate(([0], np.cumsum(lengths))), ids.astype(self._dtype))
            for ids, lengths in (
                (block.source_ids, block.source_lengths),
                (block.target_ids, block.target_lengths),
            )
        ]
        columns += [pa.array(block.origin, type=pa.uint8()), pa.array(block.score, type=pa.float32())]
        self.append(columns, rows=len(block), tokens=len(block.source_ids) + len(block.target_ids))


def write_pairs(
    directory: str | Path, path: str, split: Split, row_length: int, dtype: IdType, pairs: Pairs
) -> ShardInfo:
    """Write all of a shard at once; `path` is relative to the directory. Raises ValueError as `PairWriter`."""
    with PairWriter(directory, path, split, row_length, dtype) as writer:
        for block in pairs.blocks(ROWS_PER_BATCH):
            writer.write(block)
        return writer.close()


@dataclass(frozen=True)
class _Batch:
    """Views into one mapped record batch: no value is copied."""

    source_ids: NDArray[np.unsignedinteger]
    source_at: NDArray[np.int32]
    target_ids: NDArray[np.unsignedinteger]
    target_at: NDArray[np.int32]
    origin: NDArray[np.uint8]
    score: NDArray[np.float32]


def _views(columns: pa.RecordBatch) -> _Batch:
    source, target, origin, score = columns.columns
    return _Batch(
        numbers(source.values),
        numbers(source.offsets),
        numbers(target.values),
        numbers(target.offsets),
        numbers(origin),
        numbers(score),
    )


class PairRows(MappedRows[_Batch]):
    """The pairs of one split by number, without a check of the files: for those who have the manifest.

    Raises:
        InputError: the directory holds rows of another kind.
    """

    kind = KIND

    def open_shard(self, path: Path, info: ShardInfo) -> MappedShard[_Batch]:
        """Map one shard."""
        dtype = self.manifest.dtype
        return MappedShard(path, info, f"pairs of ids in {dtype}", pair_schema(dtype).equals, _views)

    def pairs(self, indices: ArrayLike) -> Pairs:
        """The pairs at `indices` [R]. Raises IndexError outside 0 .. len(self) - 1."""
        found = self._locate(np.asarray(indices, dtype=np.int64).reshape(-1))
        # Plain ints: slicing with NumPy scalars costs several times the slice.
        sources = [batch.source_ids[int(batch.source_at[i]) : int(batch.source_at[i + 1])] for batch, i in found]
        targets = [batch.target_ids[int(batch.target_at[i]) : int(batch.target_at[i + 1])] for batch, i in found]
        empty = np.empty(0, dtype=self.manifest.dtype)
        return Pairs(
            np.concatenate(sources or [empty]),
            np.array([len(ids) for ids in sources], dtype=np.int64),
            np.concatenate(targets or [empty]),
            np.array([len(ids) for ids in targets], dtype=np.int64),
            np.array([batch.origin[i] for batch, i in found], dtype=np.uint8),
            np.array([batch.score[i] for batch, i in found], dtype=np.float32),
        )

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The lengths of all sources and of all targets, int32 [N] each; reads where they lie and no ids."""
        empty = np.empty(0, dtype=np.int32)
        sources, targets = [empty], [empty]
        for number in range(len(self._shards)):
            shard = self._map(number)
            for batch in map(shard.batch, range(shard.batches)):
                sources.append(np.diff(batch.source_at))
                targets.append(np.diff(batch.target_at))
        return np.concatenate(sources), np.concatenate(targets)


class PairReader(PairRows):
    """The pairs of one split of a shard directory, in the order of the manifest, any of them in constant time.

    With `verify` all checksums of the split are checked first. A reader may be used by several threads and survives a
    fork.

    Raises:
        InputError: the directory is not whole, or holds rows of another kind; the file or both kinds are named.
    """

    def __init__(self, directory: str | Path, split: Split = "train", verify: bool = True) -> None:
        manifest = read_manifest(directory)
        super().__init__(Path(directory), manifest, split)
        verify_files(self._directory, manifest, self._shards, verify)
