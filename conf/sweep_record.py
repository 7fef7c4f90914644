"""What a sweep (`--multirun`) leaves of itself in its directory: the jobs it was asked for, and what became of each.

`sweep.json` is written before the first job starts, `sweep/<job>.json` by each job when it starts and when it ends, so
that jobs which failed, were killed or never began are known too. Must not import the project's other packages.
"""

import importlib
import json
import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from conf.errors import sentence_of
from conf.files import atomic_write_text

FORMAT = 1
SWEEP = "sweep.json"
JOBS = "sweep"
EXIT_SAVED = 85  # of a run that was asked to save and stop: it is not at its end
# A folder of the job, where it leaves word for its batch script.
JOB_DIRECTORY = "PALIMPSEST_JOB_DIRECTORY"


@dataclass(frozen=True)
class Sweep:
    """A sweep as it was asked for.

    Attributes:
        command: what the words before the overrides were: `python -m pretrain`.
        jobs: the overrides of each job, by its number.
        folder: the folder of the launcher's own files.
        started: ISO 8601, UTC.
    """

    command: str
    jobs: tuple[tuple[str, ...], ...]
    folder: str
    started: str


@dataclass(frozen=True)
class SweepJob:
    """One job of a sweep.

    Attributes:
        job: its number in the sweep.
        state: running, complete, saved (asked to stop, it goes on when it is started again) or failed.
        why: in words, why it failed.
        overrides: its own.
        started: of its last start, ISO 8601, UTC.
        ended: of its last end; None while it runs.
        host: the machine.
        pid: the process there.
        slurm_job: its number in Slurm; None where there is none.
    """

    job: int
    state: str
    why: str
    overrides: tuple[str, ...]
    started: str
    ended: str | None
    host: str
    pid: int
    slurm_job: int | None


class SweepPlan(Callback):
    """Hydra's callback that writes `sweep.json` before a sweep begins."""

    def __init__(self, directory: str, command: str) -> None:
        """Take the option that names the sweep's directory, and what starts the command."""
        self._directory = directory
        self._command = command

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Write the plan."""
        if "submitit" in str(config.hydra.launcher.get("_target_")):
            importlib.import_module("submitit")  # which sets its level: it would repeat all that sacct says
            logging.getLogger("submitit").setLevel(logging.ERROR)
        if OmegaConf.is_missing(config, self._directory):
            return  # one directory a job, or none: the command itself will say so
        jobs = _jobs(config)
        if jobs is None:
            return
        directory = Path(str(config[self._directory]))
        folder = str(Path(str(config.hydra.sweep.dir)).absolute())
        try:
            write_sweep(directory, Sweep(self._command, jobs, folder, _now()))
        except OSError as error:
            # Hydra swallows exceptions of callbacks.
            print(f"error: '{directory}' cannot be written: {error.strerror}", file=sys.stderr, flush=True)
            sys.exit(2)
        print(
            f"a sweep of {len(jobs)} jobs in {directory}; its table: python -m slurm.sweep run_dir={directory}",
            file=sys.stderr,
            flush=True,
        )


def write_sweep(directory: Path, sweep: Sweep) -> None:
    """Store the plan; what became of jobs of an earlier sweep there is forgotten where they were others."""
    before = read_sweep(directory)
    (directory / JOBS).mkdir(parents=True, exist_ok=True)
    for number, overrides in enumerate(before.jobs if before is not None else ()):
        if number >= len(sweep.jobs) or sweep.jobs[number] != overrides:
            (directory / JOBS / f"{number}.json").unlink(missing_ok=True)
    atomic_write_text(directory / SWEEP, json.dumps({"format": FORMAT, **asdict(sweep)}, indent=1) + "\n")


def read_sweep(directory: Path) -> Sweep | None:
    """The plan; None where there is none that this version can read."""
    found = _read(directory / SWEEP)
    if found is None:
        return None
    return Sweep(**{**found, "jobs": tuple(tuple(overrides) for overrides in found["jobs"])})


def read_jobs(directory: Path) -> dict[int, SweepJob]:
    """What the jobs that have begun say of themselves, by number."""
    jobs = {}
    for path in (directory / JOBS).glob("*.json"):
        found = _read(path)
        if found is not None:
            job = SweepJob(**{**found, "overrides": tuple(found["overrides"])})
            jobs[job.job] = job
    return dict(sorted(jobs.items()))


@contextmanager
def sweep_job(directory: Path, number: int, overrides: Sequence[str]) -> Iterator[None]:
    """Keep the record of one job while it runs; of several ranks, the first does."""
    if os.environ.get("SLURM_PROCID", "0") != "0" and "SLURM_STEP_ID" in os.environ:
        yield
        return
    slurm_job = os.environ.get("SLURM_JOB_ID", "")

    def write(state: str, why: str = "", ended: str | None = None) -> None:
        job = SweepJob(
            number, state, why, tuple(overrides), started, ended, socket.gethostname(), os.getpid(),
            int(slurm_job) if slurm_job.isdigit() else None,
        )  # fmt: skip
        (directory / JOBS).mkdir(parents=True, exist_ok=True)
        atomic_write_text(
            directory / JOBS / f"{number}.json", json.dumps({"format": FORMAT, **asdict(job)}, indent=1) + "\n"
        )

    started = _now()
    write("running")
    try:
        yield
    except SystemExit as end:
        state = "complete" if end.code in (None, 0) else "saved" if end.code == EXIT_SAVED else "failed"
        write(state, f"exit code {end.code}" if state == "failed" else "", _now())
        raise
    except KeyboardInterrupt:
        write("failed", "interrupted", _now())
        raise
    except BaseException as error:
        write("failed", sentence_of(error), _now())
        raise
    write("complete", ended=_now())


def tell_batch_script() -> None:
    """Say to the batch script of a job of a sweep that its command failed, whatever its launcher makes of that."""
    folder = os.environ.get(JOB_DIRECTORY)
    if folder and Path(folder).is_dir():
        (Path(folder) / "failed").touch()


def in_submitit() -> bool:
    """Whether this process is a job that submitit started, which must hand back a result even where it failed."""
    return "SUBMITIT_EXECUTOR" in os.environ and "SUBMITIT_FOLDER" in os.environ


def _jobs(config: DictConfig) -> tuple[tuple[str, ...], ...] | None:
    """The overrides of each job, as Hydra's own sweeper makes them; None for another sweeper."""
    if not str(config.hydra.sweeper.get("_target_")).endswith(".BasicSweeper"):
        return None
    words = [f"{name}={value}" for name, value in (config.hydra.sweeper.get("params") or {}).items()]
    parsed = OverridesParser.create().parse_overrides([*words, *map(str, config.hydra.overrides.task)])
    (batch,) = BasicSweeper.split_arguments(parsed, None)
    return tuple(tuple(overrides) for overrides in batch)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.pop("format", None) == FORMAT else None
