"""Memory-mapped shards of one split, any row of any of them in constant time; the kind of rows is the caller's.

Shared by the readers of packed rows (`pipeline.shards`) and of pairs (`pipeline.pair_shards`). Part of the contract
between `pipeline` and `pretrain`: imports neither Beam nor torch.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conf.errors import InputError
from conf.files import sha256_file
from pipeline.manifest import Manifest, ShardInfo, Split, read_manifest, require_kind
from pipeline.shard_writer import ROWS_PER_BATCH
from pipeline.tokenizer import tokenizer_hash

OPEN_SHARDS = 256  # maps kept open at once: each holds a file descriptor, and 1,024 of those is a common limit
VERIFY_THREADS = 4

BatchT = TypeVar("BatchT")


class MappedShard(Generic[BatchT]):
    """One memory-mapped shard; `parse` makes views of a record batch when it is first asked for.

    Raises:
        InputError: the file cannot be read, `accepts` refuses its schema, or its rows are not as many as `info` says.
    """

    def __init__(
        self,
        path: Path,
        info: ShardInfo,
        expected: str,
        accepts: Callable[[pa.Schema], bool],
        parse: Callable[[pa.RecordBatch], BatchT],
    ) -> None:
        try:
            with path.open("rb") as handle:
                self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
            self._reader = pa.ipc.open_file(pa.py_buffer(self._map))
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
            raise InputError(f"the shard '{path}' cannot be read: {error}; rebuild the shards") from error
        self.names: list[str] = self._reader.schema.names
        if not accepts(self._reader.schema):
            found = str(self._reader.schema).replace("\n", ", ")
            raise InputError(f"the shard '{path}' must hold {expected}, but holds {found}")
        self.batches: int = self._reader.num_record_batches
        if self.batches != -(-info.rows // ROWS_PER_BATCH):
            raise InputError(f"the shard '{path}' does not hold the {info.rows} rows that its manifest states")
        self._parse = parse
        self._parsed: list[BatchT | None] = [None] * self.batches

    def batch(self, number: int) -> BatchT:
        """The views of record batch `number`."""
        found = self._parsed[number]
        if found is None:
            found = self._parsed[number] = self._parse(self._reader.get_batch(number))
        return found


class MappedRows(ABC, Generic[BatchT]):
    """The rows of one split by number, over all its shards, without a check of the files.

    Raises:
        InputError: the directory is of another kind than `kind`.
    """

    kind: str

    def __init__(self, directory: Path, manifest: Manifest, split: Split) -> None:
        require_kind(manifest, self.kind, directory)
        self._directory = directory
        self.manifest = manifest
        self._shards = manifest.split(split)
        sizes = np.array([shard.rows for shard in self._shards], dtype=np.int64)
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self._open: OrderedDict[int, MappedShard[BatchT]] = OrderedDict()

    @property
    def content_hash(self) -> str:
        """The hash over all that shapes the rows of the directory."""
        return self.manifest.content_hash

    @property
    def row_length(self) -> int:
        """Tokens that a row (of pairs: one side) may have, special tokens included."""
        return self.manifest.row_length

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @abstractmethod
    def open_shard(self, path: Path, info: ShardInfo) -> MappedShard[BatchT]:
        """Map one shard of this kind of rows."""

    def _shards_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The shard that each of `rows` [R] lies in. Raises IndexError for a row that the split does not have."""
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of a split of {len(self)} rows")
        return np.searchsorted(self._ends, rows, side="right")

    def _locate(self, rows: NDArray[np.int64]) -> list[tuple[BatchT, int]]:
        """For each of `rows` [R], the record batch it lies in and its number there."""
        shards = self._shards_of(rows)
        batches, places = np.divmod(rows - self._starts[shards], ROWS_PER_BATCH)
        return [
            (self._map(shard).batch(batch), place)
            for shard, batch, place in zip(shards.tolist(), batches.tolist(), places.tolist(), strict=True)
        ]

    def _map(self, number: int) -> MappedShard[BatchT]:
        found = self._open.get(number)
        if found is None:
            info = self._shards[number]
            found = self._open[number] = self.open_shard(self._directory / info.path, info)
            while len(self._open) > OPEN_SHARDS:
                # Views that are still in use keep their map alive; it closes when the last one goes.
                self._open.popitem(last=False)
        return found


def numbers(array: pa.Array) -> NDArray[Any]:
    """The values of an array of numbers without nulls, as a view (`to_numpy` would import pandas, in every process)."""
    kind = np.dtype({"float": "float32", "double": "float64"}.get(str(array.type), str(array.type)))
    if not len(array):
        return np.empty(0, dtype=kind)
    return np.frombuffer(array.buffers()[1], dtype=kind, count=len(array), offset=array.offset * kind.itemsize)


def verify(directory: str | Path, checksums: bool = True) -> None:
    """Check that a shard directory, of whatever kind, is whole.

    The manifest is read and checked, the tokenizer and every shard must be there with the stated size and, with
    `checksums`, the stated SHA-256 (about 1 GB a second).

    Raises:
        InputError: the first thing that does not match, naming the file.
    """
    manifest = read_manifest(directory)
    verify_files(Path(directory), manifest, manifest.shards, checksums)


def verify_files(directory: Path, manifest: Manifest, shards: Sequence[ShardInfo], checksums: bool) -> None:
    """As `verify`, of some of the shards and with a manifest that was read before."""
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
