"""Runs a list of tasks on one checkpoint and writes what came out: the body of `evaluate` and of `finetune`."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.errors import InputError
from pretrain.evaluation.runs import Job, run_all
from pretrain.evaluation.scores import Outcome, write_items, write_scores
from pretrain.evaluation.subject import Subject
from pretrain.evaluation.suite_mean import SuiteMean
from pretrain.evaluation.tasks.base import PreparedTask, Task, TaskMissing

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Suite:
    """The configured list of tasks: `tasks` by name, fine-tuning `seeds`, `initialisations` of random weights, and the
    `mean` over tasks that the suite is known by, if it is."""

    tasks: dict[str, Any]
    seeds: list[int]
    initialisations: list[int]
    mean: SuiteMean | None = None


def available_cores() -> int:
    """Cores this process may use (fewer than the machine has, in a container or a Slurm job)."""
    return len(os.sched_getaffinity(0))


def evaluate_tasks(
    tasks: Mapping[str, Task],
    subject: Subject,
    directory: Path | None,
    output: Path,
    run: Callable[[Sequence[Job], Path], list[dict[str, Any]]],
    mean: SuiteMean | None = None,
    writes: bool = True,
) -> list[Outcome]:
    """Prepare all tasks, run all their jobs, write `scores.json`, `items/` and `runs/` into `output`.

    Args:
        tasks: what to run, by the name to call it by when it is left out.
        subject: the checkpoint and its seeds.
        directory: where relative paths of tasks begin.
        output: an existing directory.
        run: gives the results of jobs in their order, and keeps them in the folder it is given.
        mean: over the tasks, as a score of its own.
        writes: whether this process writes anything but the results of jobs (of several ranks, one does).

    Raises:
        InputError: a task that cannot be prepared (one whose data are not there is left out), or nothing is left.
    """
    prepared: list[PreparedTask] = []
    missing: dict[str, TaskMissing] = {}
    for name, task in tasks.items():
        try:
            ready = task.prepare(subject, directory)
        except TaskMissing as error:
            missing[name] = error
            continue
        except InputError as error:
            if len(tasks) == 1:
                raise
            raise InputError(f"{error}; or leave the task out (suite.tasks.{name}=null)") from error
        if ready is None:
            missing[name] = TaskMissing(
                f"task {name} needs its data: give tasks=DIR, the output of job=corpus_tasks",
                "a folder in tasks=DIR, made by `python -m pipeline job=corpus_tasks`",
            )
        else:
            prepared.append(ready)
    if len(tasks) == len(missing) == 1:
        raise next(iter(missing.values()))
    if missing:
        logger.warning("%s", left_out(missing, len(tasks)))
    if not prepared:
        raise InputError(_nothing_left(missing, directory))
    jobs = [job for ready in prepared for job in ready.jobs]
    results = run(jobs, output / "runs")
    outcomes: list[Outcome] = []
    if writes:
        (output / "items").mkdir(exist_ok=True)
    done = 0
    for ready in prepared:
        count = len(ready.jobs)
        outcome = ready.collect(results[done : done + count])
        done += count
        if writes:
            write_items(output / "items" / f"{ready.name}.jsonl", outcome)
        outcomes.append(outcome)
    if mean is not None:
        outcomes.append(mean.over(outcomes))
    if missing:
        outcomes.append(Outcome(notes=[left_out(missing, len(tasks)), *wanted_lines(missing)]))
    if writes:
        write_scores(output / "scores.json", outcomes)
    return outcomes


def in_a_pool(workers: int | None) -> Callable[[Sequence[Job], Path], list[dict[str, Any]]]:
    """Jobs in so many processes of one thread each; None for one per core."""

    def run(jobs: Sequence[Job], folder: Path) -> list[dict[str, Any]]:
        return run_all(jobs, folder, available_cores() if workers is None else workers, "evaluation")

    return run


def left_out(missing: Mapping[str, TaskMissing], tasks: int) -> str:
    """One line: how many tasks of a suite are left out, and which."""
    return f"{len(missing)} of {tasks} tasks are left out, as their data are not there: {', '.join(missing)}"


def wanted_lines(missing: Mapping[str, TaskMissing]) -> list[str]:
    """For each file that was looked for a line: the tasks that want it, and from where it can be had."""
    by_file: dict[str, list[str]] = {}
    for name, error in missing.items():
        by_file.setdefault(error.wanted, []).append(name)
    return [f"missing for {', '.join(names)}: {wanted}" for wanted, names in by_file.items()]


def _nothing_left(missing: Mapping[str, TaskMissing], directory: Path | None) -> str:
    if not missing:
        return "no task is left to run: give a suite with a task that is not null"
    if directory is None:
        return "no task is left to run: give tasks=DIR, or a suite with tasks that need no data"
    more = f" (and {len(missing) - 1} more tasks: {', '.join(list(missing)[1:])})" if len(missing) > 1 else ""
    return f"no task is left to run: {next(iter(missing.values()))}{more}"


def chosen_tasks(suite: Suite) -> dict[str, Task]:
    """The tasks of a suite in order; `null` takes one out (`suite.tasks.word_order=null`)."""
    return {name: task for name, task in suite.tasks.items() if task is not None}
