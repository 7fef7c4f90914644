"""The driver's side of the jobs that write shards, whatever their rows are: from tasks to a finished directory.

Never imports torch; Beam is imported by the runner.
"""

from __future__ import annotations

import functools
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conf.errors import InputError
from conf.files import atomic_write_bytes
from pipeline.dedup import partitions_for
from pipeline.jobs.code_version import code_version
from pipeline.jobs.following import follow
from pipeline.jobs.reading import Task, refuse_nothing
from pipeline.jobs.shard_directory import DirectorySettings, check_splits, collect, is_done, remove_stale
from pipeline.manifest import FORMAT_VERSION, MANIFEST, Counts, Manifest, ShardInfo
from pipeline.ranges import Plan
from pipeline.report import Summary, write_report
from pipeline.runners import Runner
from pipeline.shards import content_hash, id_dtype, write_manifest
from pipeline.tokenizer import TOKENIZER, load_tokenizer, special_ids, tokenizer_file

logger = logging.getLogger(__name__)

Summaries = Sequence[dict[str, Any]]


def require_tokenizer(tokenizer: str | None, job: str) -> str:
    """The option `tokenizer`. Raises InputError if there is none, which `job` needs."""
    if tokenizer is None:
        raise InputError(
            f"option 'tokenizer' must name a directory with a tokenizer.json for job={job}: "
            "`python -m pipeline job=tokenizer output=DIR` trains one"
        )
    return tokenizer


def has_nothing_to_do(output: Path, config: dict[str, Any], tasks: Sequence[Task], settings: DirectorySettings) -> bool:
    """Whether `output` is complete for this `config`, which is said then."""
    if not is_done(output, config, tasks, settings):
        return False
    logger.info("'%s' is complete for these inputs and options: nothing to do", output)
    return True


def prepare(tokenizer: str, tasks: Sequence[Task], settings: DirectorySettings) -> None:
    """Give the directory its tokenizer, and leave in it only what goes on counting."""
    output = Path(settings.directory)
    (output / MANIFEST).unlink(missing_ok=True)
    atomic_write_bytes(output / TOKENIZER, tokenizer_file(tokenizer).read_bytes())
    remove_stale(tasks, settings)


def run_ranges(
    plan: Plan,
    tasks: Sequence[Task],
    settings: DirectorySettings,
    runner: Runner,
    build: Callable[..., None],
    deduplicate: bool,
) -> Summaries:
    """Have the runner do all ranges; returns their sidecars.

    `build` adds the transforms to a Beam pipeline, given tasks, settings and partitions by their names. Raises
    RuntimeError if the runner did not do every range.
    """
    partitions = partitions_for(sum(max(file.size, 0) for file in plan.files)) if deduplicate else 0
    marks = [settings.hashes(task) for task in tasks] if deduplicate else []
    marks += [settings.sidecar(task) for task in tasks]
    with follow("hashing and writing shards" if deduplicate else "writing shards", marks):
        runner.run(functools.partial(build, tasks=tasks, settings=settings, partitions=partitions), units=len(tasks))
    return collect(tasks, settings, partitions)


def finish(
    plan: Plan,
    settings: DirectorySettings,
    config: dict[str, Any],
    summaries: Summaries,
    *,
    kind: str,
    what: str,
    row_length: int,
    sides: int = 1,
    wants_validation: bool = True,
    languages: Mapping[str, str] | None = None,
) -> Manifest:
    """Write the data card and then the manifest, which is returned.

    `what` the records are ("documents"); a row has `sides` times `row_length` places. Raises InputError where no record
    is left, or none for training.
    """
    output = Path(settings.directory)
    tokenizer = load_tokenizer(output)
    shards = [ShardInfo(**raw) for summary in summaries for raw in summary["shards"]]
    counts = sum((Counts(**summary["counts"]) for summary in summaries), Counts())
    refuse_nothing(counts, [example for summary in summaries for example in summary["examples"]], what)
    check_splits(counts.kept, what, shards, wanted=wants_validation)
    vocab_size = tokenizer.get_vocab_size()
    dtype = id_dtype(vocab_size)
    places = sides * row_length * sum(shard.rows for shard in shards)
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        kind=kind,
        config=config,
        tokenizer_hash=settings.tokenizer_hash,
        vocab_size=vocab_size,
        special_ids=special_ids(tokenizer),
        dtype=dtype,
        row_length=row_length,
        shards=shards,
        counts=counts,
        sources=plan.sources(),
        content_hash=content_hash(kind, row_length, dtype, settings.tokenizer_hash, vocab_size, shards),
        fill=sum(shard.tokens for shard in shards) / places,
        code_version=code_version(),
        languages=dict(languages or {}),
    )
    write_report(output, manifest, Summary.of(summaries))
    shutil.rmtree(settings.work, ignore_errors=True)
    write_manifest(output, manifest)
    return manifest
