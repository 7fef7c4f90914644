"""What the jobs that write shards share: ranges that are done or not, duplicates, and one Beam pipeline for all.

A range is done when its sidecar has the fingerprint that is expected and its shards are as the sidecar states; the
sidecar is its commit mark. Never imports torch; Beam is imported when a pipeline is built.
"""

from __future__ import annotations

import hashlib
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError
from conf.files import sha256_file
from pipeline.dedup import duplicates_of, find_duplicates, write_duplicates
from pipeline.jobs.reading import Task, fingerprint
from pipeline.manifest import MANIFEST, ShardInfo
from pipeline.mapped_shards import verify
from pipeline.shards import read_manifest

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DirectorySettings(ABC):
    """What all ranges of one run share; jobs add their own.

    `directory` holds the tokenizer, of that hash, and gets the shards, of one `generation`.
    """

    directory: str
    generation: int
    tokenizer_hash: str

    @property
    def shards(self) -> str:
        """Where shards and sidecars of this generation lie, relative to the directory."""
        return f"shards/{self.generation:04d}"

    @property
    def work(self) -> Path:
        """Spill files; removed when the run is complete."""
        return Path(self.directory) / "work"

    def sidecar(self, task: Task) -> Path:
        """The file that marks a range as complete."""
        return Path(self.directory) / self.shards / f"{task.range.id}.json"

    def hashes(self, task: Task) -> Path:
        """The spilled hashes of a range; the name says of which inputs."""
        return self.work / "hashes" / f"{task.range.id}.{task.inputs}.npy"

    @abstractmethod
    def identity(self, task: Task) -> str:
        """A hash of all that decides a range's shards except which of its records are duplicates."""


def to_partitions(spilled: tuple[int, str], partitions: int) -> Iterator[tuple[int, tuple[int, str]]]:
    """Send a spilled file to every partition, each of which reads its own slice."""
    for partition in range(partitions):
        yield partition, spilled


def spill_duplicates(group: tuple[int, Iterable[tuple[int, str]]], partitions: int, settings: DirectorySettings) -> str:
    """Find the duplicates of one partition; returns the file that holds them."""
    partition, spilled = group
    path = settings.work / "duplicates" / f"{partition:05d}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    files = sorted((number, Path(name)) for number, name in spilled)
    write_duplicates(path, find_duplicates(files, partition, partitions))
    return str(path)


def final_fingerprint(task: Task, settings: DirectorySettings, duplicates: NDArray[np.uint64]) -> str:
    """The fingerprint of a finished range."""
    return fingerprint(settings.identity(task), hashlib.sha256(duplicates.tobytes()).hexdigest())


def read_sidecar(path: Path) -> dict[str, Any] | None:
    """A sidecar, or None where there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def is_complete(sidecar: dict[str, Any] | None, expected: str, directory: Path, checksums: bool) -> bool:
    """Whether a sidecar is that of the expected fingerprint and its shards are there as it states."""
    if sidecar is None or sidecar.get("fingerprint") != expected:
        return False
    for raw in sidecar["shards"]:
        path = directory / raw["path"]
        if not path.is_file() or path.stat().st_size != raw["bytes"]:
            return False
        if checksums and f"sha256:{sha256_file(path)}" != raw["checksum"]:
            return False
    return True


def build_pipeline(
    pipeline: Any,
    tasks: Sequence[Task],
    settings: Any,
    partitions: int,
    hash_range: Callable[..., tuple[int, str]],
    write_range: Callable[..., str],
) -> None:
    """Add a job's transforms to a Beam pipeline.

    Only Create, Reshuffle, Map, FlatMap, GroupByKey and a side input, and one leaf: what every runner does alike.
    With 0 partitions nothing is deduplicated.

    Args:
        pipeline: a `beam.Pipeline`.
        tasks: the ranges.
        settings: given to the functions by its name.
        partitions: of the hashes.
        hash_range: spills the hashes of a task's records; returns the task's number and the file.
        write_range: writes a task's shards and sidecar, given the files of duplicates.
    """
    import apache_beam as beam

    ranges = pipeline | "ranges" >> beam.Create(list(tasks)) | "spread" >> beam.Reshuffle()
    if partitions:
        duplicates = (
            ranges
            | "hash" >> beam.Map(hash_range, settings=settings)
            | "to partitions" >> beam.FlatMap(to_partitions, partitions=partitions)
            | "group" >> beam.GroupByKey()
            | "find duplicates" >> beam.Map(spill_duplicates, partitions=partitions, settings=settings)
        )
        files: Any = beam.pvalue.AsList(duplicates)
    else:
        files = []
    _ = ranges | "write" >> beam.Map(write_range, files, settings=settings)


def is_done(output: Path, config: dict[str, Any], tasks: Sequence[Task], settings: DirectorySettings) -> bool:
    """Whether a finished directory of the same key is there and whole."""
    if not (output / MANIFEST).exists():
        return False
    try:
        if read_manifest(output).config.get("key") != config["key"]:
            return False
        verify(output)
    except InputError as error:
        logger.warning("what is in '%s' is not whole and is rebuilt where needed: %s", output, error)
        return False
    return (output / "report.html").is_file() and all(settings.sidecar(task).is_file() for task in tasks)


def remove_stale(tasks: Sequence[Task], settings: DirectorySettings) -> None:
    """Remove what other options or inputs, or a killed run, have left in the directory."""
    wanted = {settings.sidecar(task): settings.identity(task) for task in tasks}
    folder = Path(settings.directory) / settings.shards
    for path in sorted(folder.glob("*.json")):
        found = read_sidecar(path)
        if found is None or wanted.get(path) != found.get("identity"):
            path.unlink()
    hashes = {settings.hashes(task).name for task in tasks}
    unfinished = [*Path(settings.directory).glob(".*.tmp"), *folder.glob(".*.tmp")]
    for path in [*unfinished, *(settings.work / "hashes").glob("*")]:
        if path.name not in hashes:
            path.unlink()
    for path in folder.glob("*.arrow"):
        if path.with_name(path.name.split(".")[0] + ".json") not in wanted:
            path.unlink()


def collect(tasks: Sequence[Task], settings: DirectorySettings, partitions: int) -> list[dict[str, Any]]:
    """The sidecars of all ranges, in order, whatever the runner claims to have done.

    Raises:
        RuntimeError: a range is not complete.
    """
    files = [settings.work / "duplicates" / f"{partition:05d}.npy" for partition in range(partitions)]
    summaries = []
    for task in tasks:
        summary = read_sidecar(settings.sidecar(task))
        expected = final_fingerprint(task, settings, duplicates_of(task.number, files))
        if not is_complete(summary, expected, Path(settings.directory), checksums=False) or summary is None:
            raise RuntimeError(
                f"the runner ended, but range {task.range.id} was not written as planned: run the same command again"
            )
        summaries.append(summary)
    named = {Path(raw["path"]).name for summary in summaries for raw in summary["shards"]}
    for path in (Path(settings.directory) / settings.shards).glob("*.arrow"):
        if path.name not in named:  # a split that became empty
            path.unlink()
    return summaries


def check_splits(kept: int, what: str, shards: Sequence[ShardInfo], wanted: bool = True) -> None:
    """Refuse a directory without training rows, and say so where there are none for validation but they are `wanted`.

    Raises:
        InputError: all `kept` records (documents, pairs: `what` they are) are held out.
    """
    if not any(shard.split == "train" for shard in shards):
        raise InputError(
            f"all {kept} {what} are held out, none is left for training: lower job.held_out_share "
            "(chain.held_out_share in a chain)"
        )
    if wanted and not any(shard.split == "validation" for shard in shards):
        logger.warning(
            "no %s is held out, so there are no validation rows: raise job.held_out_share "
            "(chain.held_out_share in a chain) for some",
            what.rstrip("s"),
        )
