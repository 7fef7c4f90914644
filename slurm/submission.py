"""What is known on disk of the jobs that a chain was last submitted as: one file in the run directory.

It is written before the first job is submitted and says so, so that a submission that was killed half-way can be taken
back. Must not import `pipeline` or `pretrain`.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conf.errors import InputError
from conf.files import atomic_write_text
from slurm.records import steps_directory

FORMAT = 1


@dataclass(frozen=True)
class SubmittedJob:
    """One step's job.

    Attributes:
        job: its number.
        needs: the steps of the same submission that it waits for.
        log: the file of its own output.
        config: hash of the step's configuration when it was submitted.
    """

    job: int
    needs: tuple[str, ...]
    log: str
    config: str


@dataclass
class Submission:
    """The jobs of a chain.

    Attributes:
        comment: what all its jobs have for a comment, and no other job has.
        chain: name of the chain.
        steps: all steps of the chain in the order they run, complete ones among them.
        submitted: when, ISO 8601, UTC.
        whole: all jobs were submitted and released.
        jobs: the jobs by step.
    """

    comment: str
    chain: str
    steps: tuple[str, ...]
    submitted: str
    whole: bool = False
    jobs: dict[str, SubmittedJob] = field(default_factory=dict)


def jobs_directory(run_dir: Path) -> Path:
    """Where this file and the texts of the jobs lie."""
    return steps_directory(run_dir) / "slurm"


def write_submission(run_dir: Path, submission: Submission) -> None:
    """Store it."""
    directory = jobs_directory(run_dir)
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **asdict(submission)}, indent=1)
    atomic_write_text(directory / "submission.json", text + "\n")


def read_submission(run_dir: Path) -> Submission | None:
    """The last one; None when the chain was never submitted.

    Raises:
        InputError: the file is damaged, or of another version.
    """
    path = jobs_directory(run_dir) / "submission.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise InputError(f"'{path}' is damaged ({error}): remove it once its jobs are out of the queue") from error
    try:
        if found.pop("format") != FORMAT:
            raise KeyError("format")
        jobs = {step: SubmittedJob(**{**job, "needs": tuple(job["needs"])}) for step, job in found.pop("jobs").items()}
        return Submission(**{**found, "steps": tuple(found["steps"])}, jobs=jobs)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"'{path}' is of another version: remove it once its jobs are out of the queue") from error
