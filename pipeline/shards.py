"""Token shards: the contract between `pipeline`, which writes them, and `pretrain`, which reads them.

Imports neither Beam nor torch. A shard is an uncompressed Arrow IPC file of rows

    input_ids: list<uint16 or uint32>   the tokens of the row, special tokens included, without padding
    lengths:   list<uint16>             the lengths of the pieces packed into the row; they add up to the row
    document:  list<uint64>             file number << 40 | byte offset, for each piece: leads back to the text

and on demand (options of the masked_lm job)

    word_start:       list<bool>    for each token of the row, whether it begins a word; true on special tokens
    sentence_lengths: list<uint16>  the lengths of runs of tokens that add up to the row; a run begins at each [CLS],
                                    at the first token of each sentence, and at a [SEP] after a whole sentence

in record batches of exactly ROWS_PER_BATCH rows (the last one holds the rest), so that row i lies in batch
i // ROWS_PER_BATCH and can be read from the mapped file without touching any other. Rows keep the order of packing
(`pipeline.packing`): by the first document in them. `pipeline.manifest` describes the directory.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from conf.errors import InputError
from conf.files import sha256_file
from pipeline.manifest import (
    Counts,
    Manifest,
    ShardInfo,
    Split,
    content_hash,
    read_manifest,
    write_manifest,
)
from pipeline.shard_columns import IdType, id_dtype, schema
from pipeline.shard_writer import ROWS_PER_BATCH, ShardWriter
from pipeline.token_flags import COLUMNS, check_columns
from pipeline.tokenizer import tokenizer_hash

__all__ = [
    "ROWS_PER_BATCH",
    "Counts",
    "IdType",
    "Manifest",
    "Rows",
    "ShardInfo",
    "ShardReader",
    "ShardRows",
    "ShardWriter",
    "content_hash",
    "id_dtype",
    "read_manifest",
    "verify",
    "write_manifest",
]

OPEN_SHARDS = 256  # maps kept open at once: each holds a file descriptor, and 1,024 of those is a common limit
VERIFY_THREADS = 4


@dataclass(frozen=True)
class Rows:
    """R rows, padded: `input_ids` [R, row_length] of the shard's type, `segments` [R, row_length] int32, which is 0
    on padding and 1, 2, ... on the pieces of a row.

    Only where the columns were asked for, bool [R, row_length]: `word_start` is true on the first token of each word
    and on special tokens; `sentence_start` on each [CLS], on the first token of each sentence, and on a [SEP] that
    follows a whole sentence (not one that was cut). Both are false on padding.

    `language` int64 [R] is the number of each row's language; shards do not know it, who mixes directories may add it.
    """

    input_ids: NDArray[np.unsignedinteger]
    segments: NDArray[np.int32]
    word_start: NDArray[np.bool_] | None = None
    sentence_start: NDArray[np.bool_] | None = None
    language: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class _Batch:
    """Views into one mapped record batch: no value is copied."""

    ids: NDArray[np.unsignedinteger]
    ids_at: NDArray[np.int32]
    lengths: NDArray[np.uint16]
    document: NDArray[np.uint64]
    pieces_at: NDArray[np.int32]
    word_bits: NDArray[np.uint8] | None = None
    sentence_lengths: NDArray[np.uint16] | None = None
    sentences_at: NDArray[np.int32] | None = None


class _MappedShard:
    """One memory-mapped shard; its batches are parsed when they are first asked for."""

    def __init__(self, directory: Path, info: ShardInfo, dtype: str) -> None:
        path = directory / info.path
        try:
            with path.open("rb") as handle:
                self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
            self._reader = pa.ipc.open_file(pa.py_buffer(self._map))
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
            raise InputError(f"the shard '{path}' cannot be read: {error}; rebuild the shards") from error
        self.columns = tuple(name for name in COLUMNS if name in self._reader.schema.names)
        if self._reader.schema != schema(dtype, self.columns):
            found = str(self._reader.schema).replace("\n", ", ")
            raise InputError(f"the shard '{path}' must hold columns of ids in {dtype}, but holds {found}")
        if self._reader.num_record_batches != -(-info.rows // ROWS_PER_BATCH):
            raise InputError(f"the shard '{path}' does not hold the {info.rows} rows that its manifest states")
        self._batches: list[_Batch | None] = [None] * self._reader.num_record_batches

    def batch(self, number: int) -> _Batch:
        found = self._batches[number]
        if found is None:
            columns = self._reader.get_batch(number)
            (ids_at, ids), (pieces_at, lengths), (_, document) = (
                (_numbers(column.offsets), _numbers(column.values)) for column in columns.columns[:3]
            )
            found = _Batch(ids, ids_at, lengths, document, pieces_at)
            if "word_start" in self.columns:
                _, bits = columns["word_start"].values.buffers()
                found = replace(found, word_bits=np.frombuffer(bits, dtype=np.uint8))
            if "sentence_lengths" in self.columns:
                column = columns["sentence_lengths"]
                found = replace(found, sentence_lengths=_numbers(column.values), sentences_at=_numbers(column.offsets))
            self._batches[number] = found
        return found


def _numbers(array: pa.Array) -> NDArray[Any]:
    """The values of an array of numbers without nulls, as a view (`to_numpy` would import pandas, in every process)."""
    kind = np.dtype(str(array.type))
    if not len(array):
        return np.empty(0, dtype=kind)
    return np.frombuffer(array.buffers()[1], dtype=kind, count=len(array), offset=array.offset * kind.itemsize)


def _row_words(batch: _Batch, row: int) -> NDArray[np.bool_]:
    """Which tokens of a row begin a word; Arrow keeps eight to a byte, the first in the lowest bit."""
    assert batch.word_bits is not None
    begin, end = int(batch.ids_at[row]), int(batch.ids_at[row + 1])
    bits = np.unpackbits(batch.word_bits[begin // 8 : -(-end // 8)], bitorder="little")
    return bits[begin % 8 : begin % 8 + end - begin].view(np.bool_)


def _row_sentences(batch: _Batch, row: int) -> NDArray[np.bool_]:
    """Which tokens of a row begin a run of `sentence_lengths`."""
    assert batch.sentence_lengths is not None and batch.sentences_at is not None
    lengths = batch.sentence_lengths[int(batch.sentences_at[row]) : int(batch.sentences_at[row + 1])]
    starts = np.zeros(int(batch.ids_at[row + 1]) - int(batch.ids_at[row]), dtype=bool)
    starts[np.cumsum(lengths, dtype=np.int64) - lengths] = True
    return starts


def verify(directory: str | Path, checksums: bool = True) -> None:
    """Check that a shard directory is whole.

    The manifest is read and checked, the tokenizer and every shard must be there with the stated size and, with
    `checksums`, the stated SHA-256 (about 1 GB a second).

    Raises:
        InputError: the first thing that does not match, naming the file.
    """
    manifest = read_manifest(directory)
    _verify_files(Path(directory), manifest, manifest.shards, checksums)


def _verify_files(directory: Path, manifest: Manifest, shards: Sequence[ShardInfo], checksums: bool) -> None:
    if tokenizer_hash(directory) != manifest.tokenizer_hash:
        raise InputError(
            f"'{directory / 'tokenizer.json'}' is not the tokenizer of these shards: its hash differs from the "
            "field 'tokenizer_hash' of manifest.json; rebuild the shards"
        )
    for shard in shards:
        path = directory / shard.path
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            raise InputError(f"the shard '{path}' is named in manifest.json but is not there; rebuild the shards")
        if size != shard.bytes:
            raise InputError(f"the shard '{path}' must have {shard.bytes} bytes, but has {size}; rebuild the shards")
    if not checksums:
        return
    with ThreadPoolExecutor(VERIFY_THREADS) as pool:
        for shard, found in zip(shards, pool.map(lambda s: sha256_file(directory / s.path), shards), strict=True):
            if f"sha256:{found}" != shard.checksum:
                raise InputError(
                    f"the shard '{directory / shard.path}' is damaged: its SHA-256 is {found}, but manifest.json "
                    f"states {shard.checksum.removeprefix('sha256:')}; rebuild the shards"
                )


class ShardRows:
    """The rows of one split by number, without any check: for those who have the manifest (see ShardReader)."""

    def __init__(self, directory: Path, manifest: Manifest, split: Split) -> None:
        self._directory = directory
        self.manifest = manifest
        self._shards = manifest.split(split)
        sizes = np.array([shard.rows for shard in self._shards], dtype=np.int64)
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self._open: OrderedDict[int, _MappedShard] = OrderedDict()

    @property
    def content_hash(self) -> str:
        """The hash over all that shapes the rows of the directory."""
        return self.manifest.content_hash

    @property
    def row_length(self) -> int:
        """Places in a row."""
        return self.manifest.row_length

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def require(self, columns: Sequence[str]) -> None:
        """Raise InputError unless the shards hold the on-demand `columns`; only the first of the split is opened."""
        if columns and self._shards:
            self._refuse_lacking(self._map(0), self._shards[0], columns)

    def rows(self, indices: ArrayLike, columns: Sequence[str] = ()) -> Rows:
        """The rows at `indices` [R], padded with the [PAD] id, and of the on-demand `columns` those asked for.

        Raises IndexError outside 0 .. len(self) - 1, and InputError for a column that the shards do not hold.
        """
        columns = check_columns(columns)
        numbers = np.asarray(indices, dtype=np.int64).reshape(-1)
        found = self._locate(numbers, columns)
        # Plain ints: slicing with NumPy scalars costs several times the slice.
        spans = [(batch, int(batch.ids_at[i]), int(batch.ids_at[i + 1])) for batch, i in found]
        pieces = [batch.lengths[batch.pieces_at[i] : batch.pieces_at[i + 1]] for batch, i in found]
        sizes = np.array([end - begin for _, begin, end in spans], dtype=np.int64)
        shape = (len(numbers), self.row_length)
        input_ids = np.full(shape, self.manifest.special_ids["pad"], dtype=self.manifest.dtype)
        segments = np.zeros(shape, dtype=np.int32)
        if len(numbers):
            taken = np.arange(self.row_length) < sizes[:, None]
            input_ids[taken] = np.concatenate([batch.ids[begin:end] for batch, begin, end in spans])
            counts = np.array([len(piece) for piece in pieces])
            ordinal = np.arange(1, counts.sum() + 1) - np.repeat(np.cumsum(counts) - counts, counts)
            segments[taken] = np.repeat(ordinal, np.concatenate(pieces))
        marks: dict[str, NDArray[np.bool_]] = {}
        for name in columns:
            read = _row_words if name == "word_start" else _row_sentences
            marks[name] = np.zeros(shape, dtype=bool)
            if len(numbers):
                marks[name][taken] = np.concatenate([read(batch, i) for batch, i in found])
        return Rows(input_ids, segments, marks.get("word_start"), marks.get("sentence_lengths"))

    def documents(self, index: int) -> NDArray[np.uint64]:
        """The document of each piece of one row [k]: file number << 40 | byte offset in the decompressed file."""
        ((batch, i),) = self._locate(np.array([index], dtype=np.int64))
        return batch.document[batch.pieces_at[i] : batch.pieces_at[i + 1]]

    def _locate(self, rows: NDArray[np.int64], columns: Sequence[str] = ()) -> list[tuple[_Batch, int]]:
        """For each of `rows` [R], the record batch it lies in and its number there; `columns` must be there."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of a split of {len(self)} rows")
        shards = np.searchsorted(self._ends, rows, side="right")
        batches, places = np.divmod(rows - self._starts[shards], ROWS_PER_BATCH)
        if columns:
            for shard in np.unique(shards).tolist():
                self._refuse_lacking(self._map(shard), self._shards[shard], columns)
        return [
            (self._map(shard).batch(batch), place)
            for shard, batch, place in zip(shards.tolist(), batches.tolist(), places.tolist(), strict=True)
        ]

    def _refuse_lacking(self, shard: _MappedShard, info: ShardInfo, columns: Sequence[str]) -> None:
        for name in columns:
            if name not in shard.columns:
                raise InputError(
                    f"the objective needs the column '{name}', but the shard '{self._directory / info.path}' has none: "
                    f"rebuild the shards with `python -m pipeline job=masked_lm job.{name}=true`"
                )

    def _map(self, number: int) -> _MappedShard:
        found = self._open.get(number)
        if found is None:
            found = self._open[number] = _MappedShard(self._directory, self._shards[number], self.manifest.dtype)
            while len(self._open) > OPEN_SHARDS:
                # Views that are still in use keep their map alive; it closes when the last one goes.
                self._open.popitem(last=False)
        return found


class ShardReader(ShardRows):
    """The rows of one split of a shard directory, in the order of the manifest, any of them in constant time.

    With `verify` all checksums of the split are checked first. Reading maps the files and copies only the rows asked
    for. A reader may be used by several threads and survives a fork.

    Raises:
        InputError: the directory is not whole; file and field are named.
    """

    def __init__(self, directory: str | Path, split: Split = "train", verify: bool = True) -> None:
        manifest = read_manifest(directory)
        super().__init__(Path(directory), manifest, split)
        _verify_files(self._directory, manifest, self._shards, verify)
