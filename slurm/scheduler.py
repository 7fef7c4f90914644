"""Slurm's own programs: sbatch, squeue, sacct, scontrol and scancel, and what they say.

A controller that is away for a while is waited for. Must not import `pipeline` or `pretrain`.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from conf.errors import InputError

# What Slurm says while its controller restarts, is busy or is not to be reached.
AWAY = re.compile(
    r"Unable to contact slurm controller|Socket timed out|Connection refused|Connection reset|Zero Bytes were "
    r"transmitted|Transport endpoint is not connected|Unexpected message received|temporarily|try again",
    re.IGNORECASE,
)
UNFINISHED = frozenset(
    (
        "PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING",
        "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED", "PREEMPTED",
    )
)  # fmt: skip
LONGEST_PAUSE = 15.0


class Refused(InputError):
    """Slurm said no; the message is its own."""


@dataclass(frozen=True)
class JobState:
    """What Slurm knows of a job.

    Attributes:
        state: such as RUNNING.
        reason: why it waits, or why it ended.
        time_left: until its limit, as Slurm writes it; empty when it is not known.
        nodes: where it runs.
    """

    state: str
    reason: str = ""
    time_left: str = ""
    nodes: str = ""

    @property
    def unfinished(self) -> bool:
        """Whether the job has not come to its end."""
        return self.state in UNFINISHED


class Scheduler:
    """The Slurm that this machine belongs to."""

    def __init__(self, wait_seconds: float = 120.0, sleep: Callable[[float], None] = time.sleep) -> None:
        """Take how long a controller that is away is waited for."""
        self._wait_seconds = wait_seconds
        self._sleep = sleep

    def submit(self, words: Sequence[str], name: str, comment: str) -> int:
        """Submit a job and return its number.

        Args:
            words: the whole sbatch line, with --parsable.
            name: the job's name.
            comment: what no job of another submission has. A controller that went away in the middle may have taken
                the job: it is then found by these two, and not submitted twice.

        Raises:
            Refused: Slurm takes no such job.
        """
        until = time.monotonic() + self._wait_seconds
        pause = 1.0
        while True:
            done = _call(words)
            if done.returncode == 0:
                return int(done.stdout.strip().split(";")[0])
            if not AWAY.search(done.stderr) or time.monotonic() >= until:
                raise Refused(_sentence(done))
            self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            taken = self.find(comment).get(name)
            if taken is not None:
                return taken

    def find(self, comment: str) -> dict[str, int]:
        """The jobs of the user that have a comment and have not ended: name -> number."""
        said = self._ask(["squeue", "--me", "--noheader", "--format=%A|%j|%k"])
        rows = (line.split("|", 2) for line in said.splitlines())
        return {row[1]: int(row[0]) for row in rows if len(row) == 3 and row[2].strip() == comment}

    def states(self, jobs: Iterable[int], comment: str) -> dict[int, JobState]:
        """What is known of some jobs of one comment; those that Slurm has forgotten are left out.

        squeue knows the jobs that ended some minutes ago at most; sacct, where there is accounting, all of them.
        """
        wanted = sorted(jobs)
        if not wanted:
            return {}
        numbers = ",".join(map(str, wanted))
        found = {}
        said = self._ask(
            ["squeue", "--states=all", "--noheader", f"--jobs={numbers}", "--format=%A|%T|%r|%L|%N|%k"],
            ignoring="Invalid job id",
        )
        for line in said.splitlines():
            job, state, reason, left, nodes, its_comment = line.split("|", 5)
            if its_comment.strip() == comment:  # numbers begin again on a cluster that is set up anew
                found[int(job)] = JobState(state, "" if reason == "None" else reason, left.strip(), nodes)
        forgotten = [job for job in wanted if job not in found]
        if forgotten and shutil.which("sacct"):
            words = ["sacct", "-nPX", f"--jobs={','.join(map(str, forgotten))}", "--format=JobIDRaw,State,Comment"]
            done = _call(words)
            for line in done.stdout.splitlines() if done.returncode == 0 else []:
                job, state, its_comment = line.split("|", 2)
                if its_comment.strip() in ("", comment) and job.isdigit():  # many sites do not keep comments
                    found[int(job)] = JobState(state.split()[0])
        return found

    def partitions(self) -> str:
        """What Slurm says of its partitions, each in a line of `NAME=VALUE`."""
        return self._ask(["scontrol", "--oneliner", "show", "partition"])

    def accounts(self, user: str) -> str:
        """The accounts of a user, one a line."""
        return self._ask(["sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"user={user}", "format=account"])

    def setting(self, name: str) -> str:
        """The value of a setting of the cluster, such as MaxArraySize.

        Raises:
            Refused: there is no such setting.
        """
        for line in self._ask(["scontrol", "show", "config"]).splitlines():
            key, equals, value = line.partition("=")
            if equals and key.strip() == name:
                return value.strip()
        raise Refused(f"scontrol show config: no setting '{name}'")

    def would_take(self, words: Sequence[str]) -> str:
        """What Slurm says of a job that is not submitted: where and when it would start.

        Raises:
            Refused: Slurm would not take it.
        """
        said = self._ask(["sbatch", "--test-only", *words], of_errors=True)
        return re.sub(r"^sbatch: (Job \d+ )?", "", said.strip())

    def release(self, jobs: Sequence[int]) -> None:
        """Let held jobs start."""
        if jobs:
            self._ask(["scontrol", "release", ",".join(map(str, jobs))])

    def cancel(self, jobs: Sequence[int]) -> None:
        """Cancel jobs; one that has ended is left as it is."""
        if jobs:
            self._ask(["scancel", *map(str, jobs)], ignoring="Invalid job id")

    def requeue(self, job: int) -> None:
        """Put a running job back into the queue."""
        self._ask(["scontrol", "requeue", str(job)])

    def _ask(self, words: Sequence[str], ignoring: str | None = None, of_errors: bool = False) -> str:
        """Return what a program says, or what it says where it would say errors.

        Raises:
            Refused: it failed, other than by `ignoring`.
        """
        until = time.monotonic() + self._wait_seconds
        pause = 1.0
        while True:
            done = _call(words)
            if done.returncode == 0 or (ignoring is not None and ignoring in done.stderr):
                return done.stderr if of_errors else done.stdout
            if not AWAY.search(done.stderr) or time.monotonic() >= until:
                raise Refused(_sentence(done))
            self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _call(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    if shutil.which(words[0]) is None:
        raise InputError(
            f"there is no program '{words[0]}' here: cluster=slurm is for a machine that can submit to Slurm"
        )
    environment = dict(os.environ)
    if "SLURM_JOB_ID" in environment:
        # Inside a job: its own numbers of tasks and nodes would become options of the new one.
        kept = ("SLURM_CONF",)
        environment = {
            name: value
            for name, value in environment.items()
            if name in kept or not name.startswith(("SLURM_", "SBATCH_", "SRUN_", "PMIX_"))
        }
    return subprocess.run(list(words), capture_output=True, text=True, env=environment, check=False)


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    program = done.args[0]
    said = "; ".join(line.removeprefix(f"{program}: ").removeprefix("error: ") for line in lines)
    return f"{program}: {said or f'exit code {done.returncode}'}"
