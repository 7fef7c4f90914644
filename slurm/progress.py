"""What stands on disk and in the queue of each step of a submitted chain.

Must not import `pipeline` or `pretrain`.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from conf.errors import InputError
from slurm.records import read_record
from slurm.scheduler import JobState
from slurm.submission import Submission, SubmittedJob, read_submission

TAIL_BYTES = 1 << 16


@dataclass(frozen=True)
class StepProgress:
    """One step.

    Attributes:
        step: its name.
        job: the number of its job in the last submission; None when it had none, being complete.
        state: complete, running, waiting, failed, cancelled, or ended: out of the queue without a record.
        why: what it waits for, or why it did not end well.
        training: of a step that trains, the last line of its figures, with `max_steps` where that is known.
        time_left: of a running job, until its limit.
    """

    step: str
    job: int | None
    state: str
    why: str = ""
    training: Mapping[str, Any] | None = None
    time_left: str = ""


def submission_in(run_dir: Path) -> Submission:
    """The submission of a run directory.

    Raises:
        InputError: there is none.
    """
    if not run_dir.is_dir():
        raise InputError(f"option 'run_dir' must be the folder of a chain, but there is no folder '{run_dir}'")
    submission = read_submission(run_dir)
    if submission is None:
        raise InputError(f"'{run_dir}' has no jobs: no chain was submitted to it with cluster=slurm")
    return submission


def progress_of(run_dir: Path, submission: Submission, states: Mapping[int, JobState]) -> list[StepProgress]:
    """Every step of a chain, in the order they run.

    Args:
        run_dir: the run directory.
        submission: its last submission.
        states: what Slurm knows of the jobs.
    """
    found: dict[str, StepProgress] = {}
    for step in submission.steps:
        job = submission.jobs.get(step)
        complete = read_record(run_dir, step) is not None
        if job is None:
            found[step] = StepProgress(step, None, "complete" if complete else "not submitted")
            continue
        state, why = _state(job, states.get(job.job), complete, found)
        left = states[job.job].time_left if state == "running" else ""
        found[step] = StepProgress(step, job.job, state, why, _training(run_dir / step), left)
    return list(found.values())


def _state(
    job: SubmittedJob, known: JobState | None, complete: bool, before: Mapping[str, StepProgress]
) -> tuple[str, str]:
    """The state of a step and why it is so; `before` are the steps that it may need."""
    if known is not None and known.state == "PENDING":
        ahead = [need for need in job.needs if before[need].state in ("waiting", "running")]
        return "waiting", f"waits for {', '.join(ahead)}" if ahead else known.reason
    if known is not None and known.unfinished:
        return "running", "" if known.state == "RUNNING" else known.state.lower()
    if complete:
        return "complete", ""
    for need in job.needs:
        if before[need].state not in ("complete", "waiting", "running"):
            outcome = "has not run" if before[need].state == "cancelled" else before[need].state
            return "cancelled", f"{need}, which it needs, {outcome}"
    if known is not None and known.state == "CANCELLED":
        return "cancelled", "by its owner or the administrator"
    said = _last_error(Path(job.log))
    if known is None:
        return "ended", said or f"Slurm has forgotten it; see {job.log}"
    if known.state not in ("FAILED", "COMPLETED"):
        return "failed", " ".join(filter(None, [known.state, known.reason, said]))
    return "failed", said or f"it left no word: see {job.log}"


def _last_error(log: Path) -> str:
    """The last sentence of the project's own commands in a log."""
    lines = tail(log).splitlines()
    return next((line.removeprefix("error: ") for line in reversed(lines) if line.startswith("error: ")), "")


def tail(path: Path, size: int = TAIL_BYTES) -> str:
    """The last bytes of a file as text; empty when there is no such file."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - size))
            return handle.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _training(output: Path) -> dict[str, Any] | None:
    """The newest figures of a run of training, and how many steps it is to make."""
    figures: dict[str, Any] | None = None
    for line in reversed(tail(output / "metrics.jsonl").splitlines()):
        with contextlib.suppress(ValueError):  # cut off at either end
            read = json.loads(line)
            if isinstance(read, dict) and "tokens_per_second" in read:
                figures = read
                break
    if figures is None:
        return None
    with contextlib.suppress(OSError, yaml.YAMLError, KeyError, TypeError):
        trainer = yaml.safe_load((output / "config.yaml").read_text(encoding="utf-8"))["trainer"]
        figures["max_steps"] = int(trainer["max_steps"])
    return figures
