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
(`pipeline.packing`): by the first document in them. `pipeline.manifest` describes the directory, `pipeline.pair_shards`
the other kind of shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from conf.errors import InputError
from pipeline.manifest import (
    Counts,
    Manifest,
    ShardInfo,
    Split,
    content_hash,
    read_manifest,
    write_manifest,
)
from pipeline.mapped_shards import MappedRows, MappedShard, numbers, verify, verify_files
from pipeline.shard_columns import IdType, id_dtype, schema
from pipeline.shard_writer import ROWS_PER_BATCH, ShardWriter
from pipeline.token_flags import COLUMNS, check_columns

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


def _views(columns: pa.RecordBatch) -> _Batch:
    """The columns of a record batch, as views."""
    (ids_at, ids), (pieces_at, lengths), (_, document) = (
        (numbers(column.offsets), numbers(column.values)) for column in columns.columns[:3]
    )
    found = _Batch(ids, ids_at, lengths, document, pieces_at)
    names = columns.schema.names
    if "word_start" in names:
        _, bits = columns["word_start"].values.buffers()
        found = replace(found, word_bits=np.frombuffer(bits, dtype=np.uint8))
    if "sentence_lengths" in names:
        column = columns["sentence_lengths"]
        found = replace(found, sentence_lengths=numbers(column.values), sentences_at=numbers(column.offsets))
    return found


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


class ShardRows(MappedRows[_Batch]):
    """The rows of one split by number, without a check of the files: for those who have the manifest (see ShardReader).

    Raises:
        InputError: the directory holds another kind of rows.
    """

    kind = "masked_lm"

    def open_shard(self, path: Path, info: ShardInfo) -> MappedShard[_Batch]:
        """Map one shard."""
        dtype = self.manifest.dtype

        def accepts(found: pa.Schema) -> bool:
            return bool(found == schema(dtype, _columns(found.names)))

        return MappedShard(path, info, f"columns of ids in {dtype}", accepts, _views)

    def require(self, columns: Sequence[str]) -> None:
        """Raise InputError unless the shards hold the on-demand `columns`; only the first of the split is opened."""
        if columns and self._shards:
            self._refuse_lacking(self._map(0), self._shards[0], columns)

    def rows(self, indices: ArrayLike, columns: Sequence[str] = ()) -> Rows:
        """The rows at `indices` [R], padded with the [PAD] id, and of the on-demand `columns` those asked for.

        Raises IndexError outside 0 .. len(self) - 1, and InputError for a column that the shards do not hold.
        """
        columns = check_columns(columns)
        chosen = np.asarray(indices, dtype=np.int64).reshape(-1)
        if columns:
            for shard in np.unique(self._shards_of(chosen)).tolist():
                self._refuse_lacking(self._map(shard), self._shards[shard], columns)
        found = self._locate(chosen)
        # Plain ints: slicing with NumPy scalars costs several times the slice.
        spans = [(batch, int(batch.ids_at[i]), int(batch.ids_at[i + 1])) for batch, i in found]
        pieces = [batch.lengths[batch.pieces_at[i] : batch.pieces_at[i + 1]] for batch, i in found]
        sizes = np.array([end - begin for _, begin, end in spans], dtype=np.int64)
        shape = (len(chosen), self.row_length)
        input_ids = np.full(shape, self.manifest.special_ids["pad"], dtype=self.manifest.dtype)
        segments = np.zeros(shape, dtype=np.int32)
        if len(chosen):
            taken = np.arange(self.row_length) < sizes[:, None]
            input_ids[taken] = np.concatenate([batch.ids[begin:end] for batch, begin, end in spans])
            counts = np.array([len(piece) for piece in pieces])
            ordinal = np.arange(1, counts.sum() + 1) - np.repeat(np.cumsum(counts) - counts, counts)
            segments[taken] = np.repeat(ordinal, np.concatenate(pieces))
        marks: dict[str, NDArray[np.bool_]] = {}
        for name in columns:
            read = _row_words if name == "word_start" else _row_sentences
            marks[name] = np.zeros(shape, dtype=bool)
            if len(chosen):
                marks[name][taken] = np.concatenate([read(batch, i) for batch, i in found])
        return Rows(input_ids, segments, marks.get("word_start"), marks.get("sentence_lengths"))

    def documents(self, index: int) -> NDArray[np.uint64]:
        """The document of each piece of one row [k]: file number << 40 | byte offset in the decompressed file."""
        ((batch, i),) = self._locate(np.array([index], dtype=np.int64))
        return batch.document[batch.pieces_at[i] : batch.pieces_at[i + 1]]

    def _refuse_lacking(self, shard: MappedShard[_Batch], info: ShardInfo, columns: Sequence[str]) -> None:
        for name in columns:
            if name not in shard.names:
                raise InputError(
                    f"the objective needs the column '{name}', but the shard '{self._directory / info.path}' has none: "
                    f"rebuild the shards with `python -m pipeline job=masked_lm job.{name}=true`"
                )


def _columns(names: Sequence[str]) -> list[str]:
    return [name for name in COLUMNS if name in names]


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
        verify_files(self._directory, manifest, self._shards, verify)
