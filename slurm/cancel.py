"""`python -m slurm.cancel run_dir=...`: take the jobs of a chain out of the queue.

A step that runs is asked to save; submitted again, the chain goes on there. Must not import `pipeline` or `pretrain`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING, DictConfig

from conf.checks import suggestion
from conf.command import command
from conf.errors import InputError
from slurm.progress import submission_in
from slurm.scheduler import Scheduler
from slurm.submission import SubmittedJob


@dataclass
class CancelOptions:
    """Options of `conf/cancel.yaml`."""

    run_dir: str = MISSING
    step: str | None = None


@command("cancel", schema=CancelOptions, directory="run_dir")
def main(config: DictConfig) -> None:
    """Cancel all jobs of the last submission that have not ended, or those of one step and its dependents."""
    submission = submission_in(Path(config.run_dir))
    scheduler = Scheduler()
    chosen = set(submission.jobs) if config.step is None else with_dependents(config.step, submission.jobs)
    # By the comment too: a submission that was killed half-way may have left a job that it could not write down.
    states = scheduler.states([submission.jobs[step].job for step in chosen], submission.comment)
    running = {step: submission.jobs[step].job for step in submission.steps if step in chosen}
    running = {step: job for step, job in running.items() if job in states and states[job].unfinished}
    if config.step is None and not submission.whole:
        known = set(running.values())
        running |= {name: job for name, job in scheduler.find(submission.comment).items() if job not in known}
    scheduler.cancel(sorted(running.values(), reverse=True))
    names = ", ".join(f"{step} {job}" for step, job in running.items())
    print(f"cancelled {len(running)} jobs: {names}" if running else "nothing to cancel: no job is in the queue")


def with_dependents(step: str, jobs: Mapping[str, SubmittedJob]) -> set[str]:
    """A step and those that wait for it, directly or through others.

    Raises:
        InputError: the step has no job.
    """
    if step not in jobs:
        raise InputError(f"the chain has no job for step '{step}': {suggestion(step, jobs)}")
    found = {step}
    for name, job in jobs.items():  # in the order they run
        if found.intersection(job.needs):
            found.add(name)
    return found


if __name__ == "__main__":
    main()
