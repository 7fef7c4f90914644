"""`python -m slurm.status run_dir=...`: the jobs of a chain as one table; exit code 1 where a step has failed.

Reads the run directory and asks Slurm, so it may be typed on any login node. Must not import `pipeline` or `pretrain`.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING, DictConfig

from conf.command import EXIT_FAILURE, command
from slurm.progress import StepProgress, progress_of, submission_in
from slurm.scheduler import Scheduler
from slurm.text_table import text_table

COLUMNS = ("step", "job", "state", "progress", "tokens/s", "loss", "time left", "")


@dataclass
class StatusOptions:
    """Options of `conf/status.yaml`."""

    run_dir: str = MISSING


@command("status", schema=StatusOptions, directory="run_dir")
def main(config: DictConfig) -> None:
    """Print the table."""
    run_dir = Path(config.run_dir)
    submission = submission_in(run_dir)
    states = Scheduler().states([job.job for job in submission.jobs.values()], submission.comment)
    steps = progress_of(run_dir, submission, states)
    print(f"chain {submission.chain} in {run_dir}, submitted {submission.submitted}:")
    print(table(steps))
    if any(step.state in ("failed", "ended") for step in steps):
        sys.exit(EXIT_FAILURE)


def table(steps: Sequence[StepProgress]) -> str:
    """Steps as lines of text, one column under another."""
    return text_table(COLUMNS, [_row(step) for step in steps])


def _row(step: StepProgress) -> tuple[str, ...]:
    figures = step.training or {}
    of = f" of {figures['max_steps']}" if "max_steps" in figures else ""
    return (
        step.step,
        "-" if step.job is None else str(step.job),
        step.state,
        f"step {figures['step']}{of}" if "step" in figures else "-",
        f"{figures['tokens_per_second']:,.0f}" if "tokens_per_second" in figures else "-",
        f"{figures['loss']:.3f}" if "loss" in figures else "-",
        step.time_left or "-",
        step.why,
    )


if __name__ == "__main__":
    main()
