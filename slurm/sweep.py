"""`python -m slurm.sweep run_dir=...`: the jobs of a sweep as one table, the best first; also as JSON and CSV.

Works for sweeps by any launcher, while they run and afterwards. Exit code 1 where a job has failed. Must not import
`pipeline` or `pretrain`.
"""

import csv
import io
import json
import os
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omegaconf import MISSING, DictConfig

from conf.command import EXIT_FAILURE, command
from conf.errors import InputError
from conf.files import atomic_write_text
from conf.sweep_launcher import COMMENT
from conf.sweep_record import Sweep, SweepJob, read_jobs, read_sweep
from slurm.scheduler import JobState, Scheduler
from slurm.sweep_table import SweepRow, as_text, rows_of

TABLE = "sweep_table"


@dataclass
class SweepOptions:
    """Options of `conf/sweep.yaml`."""

    run_dir: str = MISSING
    by: str = "validation_loss"
    highest: bool = False


@command("sweep", schema=SweepOptions, directory="run_dir")
def main(config: DictConfig) -> None:
    """Print the table, and write it beside the jobs."""
    directory = Path(config.run_dir)
    sweep, begun = read_sweep(directory), read_jobs(directory)
    if sweep is None and not begun:
        raise InputError(
            f"'{directory}' holds no sweep: name the run_dir (or output) of a command that ran with --multirun"
        )
    begun = {number: _seen_from_here(job) for number, job in begun.items()}
    states, waiting = _in_slurm(sweep, begun)
    rows = rows_of(directory, sweep, begun, states, waiting, config.by, config.highest)
    print(as_text(rows, config.by))
    write(directory, rows)
    if any(row.state in ("failed", "lost") for row in rows):
        sys.exit(EXIT_FAILURE)


def write(directory: Path, rows: Sequence[SweepRow]) -> None:
    """Write `sweep_table.json` and `sweep_table.csv`."""
    flat = [row.flat() for row in rows]
    atomic_write_text(directory / f"{TABLE}.json", json.dumps(flat, indent=1) + "\n")
    text = io.StringIO()
    writer = csv.DictWriter(text, list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    atomic_write_text(directory / f"{TABLE}.csv", text.getvalue())


def _seen_from_here(job: SweepJob) -> SweepJob:
    """A job without Slurm that was killed on this machine left no word of it."""
    if job.state != "running" or job.slurm_job is not None or job.host != socket.gethostname():
        return job
    try:
        os.kill(job.pid, 0)
    except ProcessLookupError:
        return replace(job, state="lost", why="its process was killed")
    except PermissionError:
        pass
    return job


def _in_slurm(sweep: Sweep | None, begun: Mapping[int, SweepJob]) -> tuple[dict[int, JobState], bool]:
    """What Slurm knows of the jobs that have begun, and whether there are others that wait."""
    numbers = {job.slurm_job for job in begun.values() if job.slurm_job is not None}
    arrays = _submitted(Path(sweep.folder)) if sweep is not None else set()
    if not (numbers | arrays) or shutil.which("squeue") is None:
        return {}, False
    states = Scheduler().states(numbers | arrays, COMMENT)
    return states, any(states[job].state == "PENDING" for job in arrays if job in states)


def _submitted(folder: Path) -> set[int]:
    """The numbers under which submitit has submitted the sweep: it names a folder <array>_<job> for each job."""
    names = [path.name.split("_")[0] for path in (folder / ".submitit").glob("*") if path.is_dir()]
    return {int(name) for name in names if name.isdigit()}


if __name__ == "__main__":
    main()
