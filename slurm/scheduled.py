"""`python -m slurm.scheduled run_dir=...`: one firing of a schedule. Cron starts it.

A chain on this machine runs here to its end. A chain of Slurm jobs is submitted, and what became of it is noticed by
the next firing: that needs no job of its own, which could be lost like those that it watches. Must not import
`pipeline` or `pretrain`.
"""

import fcntl
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING, DictConfig

from conf.command import EXIT_FAILURE, command
from conf.errors import InputError
from slurm.progress import progress_of
from slurm.schedule import Schedule, firings, folder_of, log_firing, read_schedule
from slurm.scheduler import Scheduler
from slurm.submission import read_submission

logger = logging.getLogger(__name__)
NOTIFY_SECONDS = 60.0


@dataclass
class ScheduledOptions:
    """Options of `conf/scheduled.yaml`."""

    run_dir: str = MISSING


@command("scheduled", schema=ScheduledOptions, directory="run_dir")
def main(config: DictConfig) -> None:
    """Run the chain unless it is under way."""
    run_dir = Path(config.run_dir)
    schedule = read_schedule(run_dir)
    if schedule is None:
        raise InputError(f"'{run_dir}' has no schedule: python -m slurm.submit schedule=... installs one")
    with (folder_of(run_dir) / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log_firing(run_dir, "skipped", "the run before has not ended")
            return
        if not _fire(run_dir, schedule):
            sys.exit(EXIT_FAILURE)


def _fire(run_dir: Path, schedule: Schedule) -> bool:
    under_way = _look_after_jobs(run_dir, schedule)
    if under_way:
        log_firing(run_dir, "skipped", f"the jobs of the run before have not ended: {under_way}")
        return True
    before = read_submission(run_dir)
    done = subprocess.run(
        [sys.executable, "-m", "slurm.submit", *schedule.words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout, end="", flush=True)
    said = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode:
        why = next((line.removeprefix("error: ") for line in reversed(said) if line.startswith("error: ")), "")
        _failed(run_dir, schedule, why or f"exit code {done.returncode}")
        return False
    now = read_submission(run_dir)
    submitted = now is not None and (before is None or before.comment != now.comment)
    log_firing(run_dir, "submitted" if submitted else "complete", said[-1] if said else "")
    return True


def _look_after_jobs(run_dir: Path, schedule: Schedule) -> str:
    """The steps whose jobs have not ended; of jobs that have, the outcome is noted once, and a failure told."""
    submission = read_submission(run_dir)
    if submission is None or not submission.whole:
        return ""
    states = Scheduler().states([job.job for job in submission.jobs.values()], submission.comment)
    steps = progress_of(run_dir, submission, states)
    under_way = [step.step for step in steps if step.state in ("waiting", "running")]
    last = next((line for line in reversed(firings(run_dir)) if line["outcome"] != "skipped"), None)
    if not under_way and last is not None and last["outcome"] == "submitted":
        broken = [f"{step.step} {step.state}: {step.why}" for step in steps if step.state != "complete"]
        if broken:
            _failed(run_dir, schedule, "; ".join(broken))
        else:
            log_firing(run_dir, "complete", f"the jobs submitted {submission.submitted}")
    return ", ".join(under_way)


def _failed(run_dir: Path, schedule: Schedule, why: str) -> None:
    log_firing(run_dir, "failed", why)
    if schedule.notify is None:
        return
    message = (
        f"The scheduled chain of {run_dir} failed: {why}. What it wrote is in {run_dir}/logs, what the schedule did in "
        f"{folder_of(run_dir)}/log.jsonl. The next firing goes on where it stopped.\n"
    )
    environment = {**os.environ, "PALIMPSEST_RUN": str(run_dir), "PALIMPSEST_STATE": "failed"}
    try:
        told = subprocess.run(
            ["/bin/bash", "-c", schedule.notify],
            input=message,
            env=environment,
            text=True,
            capture_output=True,
            timeout=NOTIFY_SECONDS,
            check=False,
        )
        trouble = "" if told.returncode == 0 else f"exit code {told.returncode} {told.stderr.strip()}".strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        trouble = str(error)
    if trouble:
        logger.warning("the command of notify failed: %s", trouble)


if __name__ == "__main__":
    main()
