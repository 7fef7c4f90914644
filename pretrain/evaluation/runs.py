"""Runs the jobs of an evaluation in a pool of processes and keeps each result as a file. Knows no task.

An evaluation that was interrupted goes on: a job whose result file carries the job's key is not run again. The key is
a hash of all that the result depends on, so that a changed recipe, data set or checkpoint makes another result.
"""

import contextlib
import hashlib
import json
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

from conf.errors import InputError
from conf.files import atomic_write_text
from conf.progress import progress
from pretrain.distributed import Group
from pretrain.freed_memory import keep_freed_memory

logger = logging.getLogger(__name__)


class Job(Protocol):
    """A piece of work that can be pickled. `cost` is relative: costly jobs start first, so that none is left alone."""

    @property
    def name(self) -> str:
        """A readable name, unique in an evaluation; slashes are allowed."""
        ...

    @property
    def cost(self) -> float:
        """How long it takes, in any unit common to the jobs of an evaluation."""
        ...

    def identity(self) -> Mapping[str, Any]:
        """All that the result depends on, as plain JSON values."""
        ...

    def execute(self) -> dict[str, Any]:
        """Do the work; the result is plain JSON."""
        ...


OneJob = TypeVar("OneJob", bound=Job)


def hash_of(value: Any) -> str:
    """SHA-256 (hex) of a plain JSON value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def run_all(jobs: Sequence[Job], directory: Path, workers: int, label: str) -> list[dict[str, Any]]:
    """Results of the jobs, in their order; those already in `directory` are read, the others run.

    Each job runs on one thread, so that results do not depend on `workers`. The first failure ends the evaluation;
    results finished by then are kept.

    Raises:
        InputError: `workers` below 1, two jobs of one name, what a job raised of this kind, or a worker process that
            was killed.
    """
    if workers < 1:
        raise InputError(f"'workers' must be at least 1, but is {workers}")
    names = [job.name for job in jobs]
    if len(set(names)) != len(names):
        raise InputError(f"two tasks of the suite have the same name: {', '.join(sorted(set(names)))}")
    directory.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Any]] = {}
    pending: list[Job] = []
    for job in jobs:
        kept = _read(directory, job)
        if kept is None:
            pending.append(job)
        else:
            results[job.name] = kept
    if results:
        logger.info("%s: %d of %d runs are there already", label, len(results), len(jobs))
    pending.sort(key=lambda job: -job.cost)
    with progress(label, len(jobs)) as bar:
        bar.update(len(results))
        for job, result in _finished(pending, min(workers, len(pending))):
            _write(directory, job, result)
            results[job.name] = result
            bar.update(len(results), note=job.name)
    return [results[name] for name in names]


def run_together(
    jobs: Sequence[OneJob],
    directory: Path,
    group: Group,
    execute: Callable[[OneJob], dict[str, Any]],
    label: str,
) -> list[dict[str, Any]]:
    """As `run_all`, but one job after the other, each by all ranks of the group together. A collective call.

    The first rank reads and writes the results; every rank gets them.
    """
    directory.mkdir(parents=True, exist_ok=True)
    results = group.from_main(lambda: [_read(directory, job) for job in jobs])
    with progress(label, len(jobs)) if group.ranks.is_main else contextlib.nullcontext() as bar:
        for number, job in enumerate(jobs):
            result = results[number]
            if result is None:
                result = results[number] = execute(job)
                if group.ranks.is_main:
                    _write(directory, job, result)
            if bar is not None:
                bar.update(number + 1, note=job.name)
    return [result for result in results if result is not None]


def _finished(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    if workers <= 1:
        with _one_thread():
            for job in jobs:
                yield job, job.execute()
        return
    # spawn: a forked child would inherit torch's thread pools and hang.
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker)
    with pool:
        futures: dict[Future[dict[str, Any]], Job] = {pool.submit(_execute, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise InputError(
                "a worker process of the evaluation was killed (often for want of memory): free some or set workers=1, "
                "and run the same command again; finished runs are kept"
            ) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _execute(job: Job) -> dict[str, Any]:
    return job.execute()


def _start_worker() -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    # The tokenizers library would start a thread per core in every worker.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _path(directory: Path, job: Job) -> Path:
    return directory / f"{job.name.replace('/', '.')}.json"


def _read(directory: Path, job: Job) -> dict[str, Any] | None:
    """The kept result of a job, or None if there is none, it has another key, or the file is not whole."""
    try:
        record = json.loads(_path(directory, job).read_text(encoding="utf-8"))
        return dict(record["result"]) if record["key"] == hash_of(job.identity()) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(directory: Path, job: Job, result: Mapping[str, Any]) -> None:
    record = {"key": hash_of(job.identity()), "identity": job.identity(), "result": result}
    atomic_write_text(_path(directory, job), json.dumps(record, ensure_ascii=False) + "\n")
