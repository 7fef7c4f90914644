"""What workers do alike for a range of shards, whatever its rows are: spill hashes, go on or not, write the sidecar.

A range whose sidecar and shards are those of the same fingerprint is left as it is. Never imports torch or Beam.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from conf.files import atomic_write_text
from pipeline.dedup import duplicates_of, write_hashes
from pipeline.jobs.reading import Task
from pipeline.jobs.shard_directory import DirectorySettings, final_fingerprint, is_complete, read_sidecar
from pipeline.jobs.tally import Tally
from pipeline.manifest import ShardInfo
from pipeline.tokenizer import TOKENIZER, load_tokenizer
from pipeline.word_cache import WordCache

BATCH_CHARACTERS = 4_000_000

RecordT = TypeVar("RecordT")


def spill_hashes(task: Task, settings: DirectorySettings, records: Iterable[tuple[int, bytes]]) -> tuple[int, str]:
    """Write the (index, hash) of a range's records unless they are there; returns the task's number and the file."""
    path = settings.hashes(task)
    if not path.exists():
        found = list(records)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_hashes(path, [digest for _, digest in found], [index for index, _ in found])
    return task.number, str(path)


@dataclass(frozen=True)
class OpenRange:
    """A range that is to be written: the indices of its records that are duplicates, and its fingerprint."""

    task: Task
    settings: DirectorySettings
    duplicates: NDArray[np.uint64]
    fingerprint: str

    def close(self, shards: Sequence[ShardInfo], tally: Tally, **more: Any) -> None:
        """Write the sidecar, with `more` for the report, after the shards."""
        summary = {
            "range": self.task.range.id,
            "fingerprint": self.fingerprint,
            "identity": self.settings.identity(self.task),
            "shards": [asdict(shard) for shard in shards],
            "counts": asdict(tally.counts()),
            "failures": dict(sorted(tally.failures.items())),
            "examples": tally.examples,
            **more,
        }
        atomic_write_text(self.settings.sidecar(self.task), json.dumps(summary, indent=1, sort_keys=True) + "\n")


def open_range(task: Task, duplicate_files: Iterable[str], settings: DirectorySettings) -> OpenRange | None:
    """Begin with a range; None where it is complete. The sidecar of anything else is removed."""
    duplicates = duplicates_of(task.number, sorted(Path(name) for name in duplicate_files))
    expected = final_fingerprint(task, settings, duplicates)
    sidecar = settings.sidecar(task)
    if is_complete(read_sidecar(sidecar), expected, Path(settings.directory), checksums=True):
        return None
    sidecar.unlink(missing_ok=True)
    sidecar.parent.mkdir(parents=True, exist_ok=True)
    return OpenRange(task, settings, duplicates, expected)


def tokenizer_of(settings: DirectorySettings, word_start: bool = False) -> tuple[Tokenizer, WordCache]:
    """The directory's tokenizer and its word cache, once per process."""
    return _loaded(str(Path(settings.directory) / TOKENIZER), settings.tokenizer_hash, word_start)


@functools.lru_cache(maxsize=1)
def _loaded(path: str, tokenizer_hash: str, word_start: bool) -> tuple[Tokenizer, WordCache]:
    """The hash is there to tell files apart."""
    tokenizer = load_tokenizer(path)
    return tokenizer, WordCache(tokenizer, word_start=word_start)


def batches(records: Iterable[RecordT], characters: Callable[[RecordT], int]) -> Iterator[list[RecordT]]:
    """Group records until a batch has BATCH_CHARACTERS."""
    batch: list[RecordT] = []
    size = 0
    for record in records:
        batch.append(record)
        size += characters(record)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
