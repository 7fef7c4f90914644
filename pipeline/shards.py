"""Token shards: the contract between `pipeline`, which writes them, and `pretrain`, which reads them.

Imports neither Beam nor torch. A shard is an uncompressed Arrow IPC file of rows

    input_ids: list<uint16 or uint32>   the tokens of the row, special tokens included, without padding
    lengths:   list<uint16>             the lengths of the pieces packed into the row; they add up to the row
    document:  list<uint64>             file number << 40 | byte offset, for each piece: leads back to the text

in record batches of exactly ROWS_PER_BATCH rows (the last one holds the rest), so that row i lies in batch
i // ROWS_PER_BATCH and can be read from the mapped file without touching any other. Rows keep the order of packing
(`pipeline.packing`): by the first document in them. `pipeline.manifest` describes the directory.
"""

from __future__ import annotations

import hashlib
import mmap
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from conf.errors import InputError
from conf.files import atomic_writer, sha256_file
from pipeline.manifest import (
    Counts,
    Manifest,
    ShardInfo,
    Split,
    content_hash,
    read_manifest,
    write_manifest,
)
from pipeline.packing import ROWS_PER_BLOCK, Block
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

ROWS_PER_BATCH = ROWS_PER_BLOCK
OPEN_SHARDS = 256  # maps kept open at once: each holds a file descriptor, and 1,024 of those is a common limit
VERIFY_THREADS = 4

IdType = Literal["uint16", "uint32"]


def id_dtype(vocab_size: int) -> IdType:
    """The smallest type that holds every id of a vocabulary."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def schema(dtype: str) -> pa.Schema:
    """The Arrow schema of a shard with ids of `dtype`."""
    return pa.schema(
        [
            pa.field("input_ids", pa.list_(pa.from_numpy_dtype(np.dtype(dtype)))),
            pa.field("lengths", pa.list_(pa.uint16())),
            pa.field("document", pa.list_(pa.uint64())),
        ]
    )


class _HashingFile:
    """A binary file that hashes what passes through it, so that a shard is not read again for its checksum."""

    def __init__(self, handle: BinaryIO, path: Path) -> None:
        self._handle, self._path = handle, path
        self.digest = hashlib.sha256()
        self.bytes = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        try:
            self._handle.write(view)
        except OSError as error:  # a full disk, which names no file
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        self.digest.update(view)
        self.bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._handle.flush()

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Leaves the file to its owner, who still has to sync and rename it."""


class ShardWriter:
    """Writes one shard under a temporary name; `close` gives it its own.

    Use it as a context manager: an error inside leaves no file. Raises ValueError for a row that is longer than
    `row_length` or a block that would break the fixed batch size.
    """

    def __init__(self, directory: str | Path, path: str, split: Split, row_length: int, dtype: IdType) -> None:
        self._path, self._split, self._row_length = path, split, row_length
        self._schema = schema(dtype)
        self._rows = self._tokens = 0
        self._short_block = False
        self._stack = ExitStack()
        target = Path(directory) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        self._file = _HashingFile(self._stack.enter_context(atomic_writer(target)), target)
        self._sink = pa.PythonFile(self._file, mode="w")
        self._arrow = pa.ipc.new_file(self._sink, self._schema)
        self.info: ShardInfo | None = None

    def write(self, block: Block) -> None:
        """Append the rows of a block as one record batch."""
        if self._short_block or len(block) > ROWS_PER_BATCH:
            raise ValueError(f"every block but the last must hold {ROWS_PER_BATCH} rows, the last no more than that")
        self._short_block = len(block) < ROWS_PER_BATCH
        if len(block) and int(np.diff(block.row_offsets).max()) > self._row_length:
            raise ValueError(f"a row of '{self._path}' is longer than {self._row_length} tokens")
        columns = [
            _list_array(block.row_offsets, block.input_ids),
            _list_array(block.piece_offsets, block.lengths),
            _list_array(block.piece_offsets, block.document),
        ]
        self._arrow.write_batch(pa.record_batch(columns, schema=self._schema))
        self._rows += len(block)
        self._tokens += len(block.input_ids)

    def close(self) -> ShardInfo:
        """Finish the file and give it its name."""
        self._arrow.close()
        self._sink.close()
        self._stack.close()
        self.info = ShardInfo(
            path=self._path,
            split=self._split,
            rows=self._rows,
            tokens=self._tokens,
            bytes=self._file.bytes,
            checksum=f"sha256:{self._file.digest.hexdigest()}",
        )
        return self.info

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if self.info is None:
                self.close()
        else:
            self._stack.__exit__(kind, error, trace)


def _list_array(offsets: NDArray[np.int64], values: NDArray[np.generic]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


@dataclass(frozen=True)
class Rows:
    """R rows, padded: `input_ids` [R, row_length] of the shard's type, `segments` [R, row_length] int32, which is 0
    on padding and 1, 2, ... on the pieces of a row.

    Only where the columns were asked for, bool [R, row_length]: `word_start` is true on the first token of each word
    and on special tokens; `sentence_start` on each [CLS], on the first token of each sentence, and on a [SEP] that
    follows a whole sentence (not one that was cut). Both are false on padding.
    """

    input_ids: NDArray[np.unsignedinteger]
    segments: NDArray[np.int32]
    word_start: NDArray[np.bool_] | None = None
    sentence_start: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class _Batch:
    """Views into one mapped record batch: no value is copied."""

    ids: NDArray[np.unsignedinteger]
    ids_at: NDArray[np.int32]
    lengths: NDArray[np.uint16]
    document: NDArray[np.uint64]
    pieces_at: NDArray[np.int32]


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
        if self._reader.schema != schema(dtype):
            found = str(self._reader.schema).replace("\n", ", ")
            raise InputError(f"the shard '{path}' must hold columns of ids in {dtype}, but holds {found}")
        if self._reader.num_record_batches != -(-info.rows // ROWS_PER_BATCH):
            raise InputError(f"the shard '{path}' does not hold the {info.rows} rows that its manifest states")
        self._batches: list[_Batch | None] = [None] * self._reader.num_record_batches

    def batch(self, number: int) -> _Batch:
        found = self._batches[number]
        if found is None:
            columns = self._reader.get_batch(number).columns
            (ids_at, ids), (pieces_at, lengths), (_, document) = (
                (column.offsets.to_numpy(), column.values.to_numpy()) for column in columns
            )
            found = self._batches[number] = _Batch(ids, ids_at, lengths, document, pieces_at)
        return found


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

    def rows(self, indices: ArrayLike) -> Rows:
        """The rows at `indices` [R], padded with the [PAD] id. Raises IndexError outside 0 .. len(self) - 1."""
        numbers = np.asarray(indices, dtype=np.int64).reshape(-1)
        found = self._locate(numbers)
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
        return Rows(input_ids, segments)

    def documents(self, index: int) -> NDArray[np.uint64]:
        """The document of each piece of one row [k]: file number << 40 | byte offset in the decompressed file."""
        ((batch, i),) = self._locate(np.array([index], dtype=np.int64))
        return batch.document[batch.pieces_at[i] : batch.pieces_at[i + 1]]

    def _locate(self, rows: NDArray[np.int64]) -> list[tuple[_Batch, int]]:
        """For each of `rows` [R], the record batch it lies in and its number there."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of a split of {len(self)} rows")
        shards = np.searchsorted(self._ends, rows, side="right")
        batches, places = np.divmod(rows - self._starts[shards], ROWS_PER_BATCH)
        return [
            (self._map(shard).batch(batch), place)
            for shard, batch, place in zip(shards.tolist(), batches.tolist(), places.tolist(), strict=True)
        ]

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
