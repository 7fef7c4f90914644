"""Writing a shard: blocks of rows -> one Arrow file, whole or not at all. See `pipeline.shards` for the format.

Imports neither Beam nor torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conf.files import atomic_writer
from pipeline.manifest import ShardInfo, Split
from pipeline.packing import ROWS_PER_BLOCK, Block
from pipeline.shard_columns import IdType, schema, sentence_start_column, word_start_column
from pipeline.token_flags import check_columns, ids_of

ROWS_PER_BATCH = ROWS_PER_BLOCK


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


class ArrowShard:
    """One shard, written under a temporary name; `close` gives it its own. Subclasses know what a row is.

    Use it as a context manager: an error inside leaves no file.
    """

    def __init__(self, directory: str | Path, path: str, split: Split, schema: pa.Schema) -> None:
        self.path, self._split, self._schema = path, split, schema
        self._rows = self._tokens = 0
        self._short_block = False
        self._stack = ExitStack()
        target = Path(directory) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        self._file = _HashingFile(self._stack.enter_context(atomic_writer(target)), target)
        self._sink = pa.PythonFile(self._file, mode="w")
        self._arrow = pa.ipc.new_file(self._sink, self._schema)
        self.info: ShardInfo | None = None

    def append(self, columns: Sequence[pa.Array], rows: int, tokens: int) -> None:
        """Write one record batch. Raises ValueError where it would break the fixed batch size."""
        if self._short_block or rows > ROWS_PER_BATCH:
            raise ValueError(f"every block but the last must hold {ROWS_PER_BATCH} rows, the last no more than that")
        self._short_block = rows < ROWS_PER_BATCH
        self._arrow.write_batch(pa.record_batch(columns, schema=self._schema))
        self._rows += rows
        self._tokens += tokens

    def close(self) -> ShardInfo:
        """Finish the file and give it its name."""
        self._arrow.close()
        self._sink.close()
        self._stack.close()
        self.info = ShardInfo(
            path=self.path,
            split=self._split,
            rows=self._rows,
            tokens=self._tokens,
            bytes=self._file.bytes,
            checksum=f"sha256:{self._file.digest.hexdigest()}",
        )
        return self.info

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            if self.info is None:
                self.close()
        else:
            self._stack.__exit__(kind, error, trace)


class ShardWriter(ArrowShard):
    """Writes one shard of packed rows.

    With on-demand `columns`, the ids of its blocks carry the marks that they are made of (`pipeline.token_flags`).
    Raises ValueError for a row that is longer than `row_length` or a block that would break the fixed batch size.
    """

    def __init__(
        self,
        directory: str | Path,
        path: str,
        split: Split,
        row_length: int,
        dtype: IdType,
        columns: Sequence[str] = (),
    ) -> None:
        self._row_length, self._dtype = row_length, dtype
        self._columns = check_columns(columns)
        super().__init__(directory, path, split, schema(dtype, columns))

    def write(self, block: Block) -> None:
        """Append the rows of a block as one record batch."""
        if len(block) and int(np.diff(block.row_offsets).max()) > self._row_length:
            raise ValueError(f"a row of '{self.path}' is longer than {self._row_length} tokens")
        columns = [
            list_array(block.row_offsets, ids_of(block.input_ids, self._dtype) if self._columns else block.input_ids),
            list_array(block.piece_offsets, block.lengths),
            list_array(block.piece_offsets, block.document),
        ]
        if "word_start" in self._columns:
            columns.append(list_array(block.row_offsets, word_start_column(block)))
        if "sentence_lengths" in self._columns:
            starts = np.flatnonzero(sentence_start_column(block))
            lengths = np.diff(starts, append=len(block.input_ids)).astype(np.uint16)
            columns.append(list_array(np.searchsorted(starts, block.row_offsets), lengths))
        self.append(columns, rows=len(block), tokens=len(block.input_ids))


def list_array(offsets: NDArray[np.int64], values: NDArray[np.generic]) -> pa.ListArray:
    """Lists of `values` [V] that begin and end at `offsets` [R + 1]."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))
