"""`python -m slurm.logs run_dir=... [step=...] [follow=true]`: what a step of a submitted chain has written.

Must not import `pipeline` or `pretrain`.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING, DictConfig

from conf.checks import suggestion
from conf.command import command
from conf.errors import InputError
from slurm.progress import StepProgress, progress_of, submission_in, tail
from slurm.scheduler import Scheduler
from slurm.submission import Submission

LOOK_SECONDS = 1.0
ASK_SECONDS = 15.0


@dataclass
class LogsOptions:
    """Options of `conf/logs.yaml`."""

    run_dir: str = MISSING
    step: str | None = None
    lines: int = 40
    follow: bool = False


@command("logs", schema=LogsOptions, directory="run_dir")
def main(config: DictConfig) -> None:
    """Print the last lines of a step's log, and what comes after them."""
    if config.lines < 0:
        raise InputError(f"option 'lines' must be at least 0, but is {config.lines}")
    run_dir = Path(config.run_dir)
    submission = submission_in(run_dir)
    if config.step is not None and config.step not in submission.steps:
        raise InputError(f"the chain has no step '{config.step}': {suggestion(config.step, submission.steps)}")
    scheduler = Scheduler()
    states = scheduler.states([job.job for job in submission.jobs.values()], submission.comment)
    step = config.step or of_interest(progress_of(run_dir, submission, states))
    log = _log(run_dir, submission, step)
    if log is None and not config.follow:
        raise InputError(f"step '{step}' has written nothing yet: see it wait by python -m slurm.status")
    text = "" if log is None else tail(log)
    print(f"# {log or step}", file=sys.stderr)
    print("\n".join(text.splitlines()[-config.lines :] if config.lines else []), flush=True)
    if config.follow:
        _follow(run_dir, submission, step, scheduler, 0 if log is None else log.stat().st_size)


def of_interest(steps: Sequence[StepProgress]) -> str:
    """The first step that failed; else the first that runs; else the last that is complete; else the first."""
    for state in ("failed", "ended", "running"):
        for step in steps:
            if step.state == state:
                return step.step
    return next((step.step for step in reversed(steps) if step.state == "complete"), steps[0].step)


def _log(run_dir: Path, submission: Submission, step: str) -> Path | None:
    """The step's log, or that of its job where the step itself did not begin."""
    job = submission.jobs.get(step)
    logs = [run_dir / "logs" / f"{step}.log", *([] if job is None else [Path(job.log)])]
    return next((log for log in logs if log.is_file()), None)


def _follow(run_dir: Path, submission: Submission, step: str, scheduler: Scheduler, position: int) -> None:
    """Show what is added to a step's log until its job has ended."""
    job = submission.jobs.get(step)
    asked = 0.0
    running = job is not None
    while True:
        if job is not None and time.monotonic() - asked > ASK_SECONDS:
            found = scheduler.states([job.job], submission.comment).get(job.job)
            running, asked = found is not None and found.unfinished, time.monotonic()
        log = _log(run_dir, submission, step)
        if log is not None:
            size = log.stat().st_size
            position = 0 if size < position else position  # begun anew
            with log.open("rb") as handle:
                handle.seek(position)
                added = handle.read()
            position += len(added)
            sys.stdout.write(added.decode("utf-8", errors="replace"))
            sys.stdout.flush()
        if not running:
            return
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
