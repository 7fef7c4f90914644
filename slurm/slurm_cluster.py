"""`cluster=slurm`: each step of a chain becomes a job that waits for those it needs.

All jobs are submitted or none: those that could start at once are held until the last has been taken. Must not import
`pipeline` or `pretrain`.
"""

import logging
import re
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conf.command_line import quote, shell_line
from conf.errors import InputError
from conf.files import atomic_write_text
from conf.provenance import config_hash
from slurm.chain import Step
from slurm.cluster_env import render
from slurm.plan import ChainState, Decision
from slurm.run_step import Patience, run_step
from slurm.sbatch_lines import (
    Job,
    Resources,
    check_names,
    job_script,
    line_to_paste,
    resources_of,
    sbatch_words,
    step_words,
)
from slurm.scheduler import Scheduler
from slurm.slurm_settings import SlurmSettings
from slurm.submission import Submission, SubmittedJob, jobs_directory, read_submission, write_submission

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SlurmCluster(SlurmSettings):
    """The Slurm that this machine belongs to.

    Attributes:
        commands: resources for all steps of a command, over those of the cluster.
        steps: resources for one step of the chain, over those of its command.
        signal_seconds: so long before the end of its time a step is asked to save; its job is then requeued.
        max_idle_starts: after so many starts of a job without progress it is not requeued any more.
        grace_seconds: see `slurm.run_step.Patience`.
        tail_lines: likewise.
        controller_seconds: how long a controller that is away is waited for.
    """

    commands: dict[str, Any] = field(default_factory=dict)
    steps: dict[str, Any] = field(default_factory=dict)
    signal_seconds: int = 180
    max_idle_starts: int = 3
    grace_seconds: float = 60.0
    tail_lines: int = 20
    controller_seconds: float = 120.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.signal_seconds < 0 or self.max_idle_starts < 1 or self.controller_seconds < 0:
            raise InputError(
                "cluster.signal_seconds and cluster.controller_seconds must be at least 0 and cluster.max_idle_starts "
                f"at least 1, but are {self.signal_seconds}, {self.controller_seconds:g} and {self.max_idle_starts}"
            )
        Patience(self.grace_seconds, self.tail_lines)
        _ = self.resources

    def lines(self, state: ChainState, decisions: Sequence[Decision]) -> list[tuple[str, str]]:
        """The sbatch line of every step that has to run; pasted into a shell in this order they submit the chain."""
        jobs = self._jobs(state, decisions, "palimpsest")
        lines = [(job.step.name, line_to_paste(job)) for job in jobs]
        if jobs:
            # Slurm does not make the folder of a log, and a job without one fails.
            run_dir = state.chain.run_dir.absolute()
            folders = shell_line(["mkdir", "-p", str(_log_directory(run_dir)), str(jobs_directory(run_dir))])
            words = [sys.executable, "-m", "slurm.submit", *state.words, f"render={quote(str(_environment(run_dir)))}"]
            lines[0] = (lines[0][0], f"{folders}\n{shell_line(words)}\n{lines[0][1]}")
        return lines

    def refuse_if_under_way(self, state: ChainState) -> None:
        """Refuse a chain whose jobs have not ended.

        Raises:
            InputError: the jobs, and what can be done.
        """
        submission = read_submission(state.chain.run_dir)
        if submission is None or not submission.whole:
            return
        numbers = {job.job: step for step, job in submission.jobs.items()}
        states = self._scheduler.states(numbers, submission.comment)
        under_way = [f"{numbers[job]} ({job}, {found.state})" for job, found in states.items() if found.unfinished]
        if under_way:
            where = f"run_dir={state.chain.run_dir}"
            raise InputError(
                f"the jobs of {state.chain.run_dir} have not ended: {', '.join(under_way)}; see them by "
                f"python -m slurm.status {where}, cancel them by python -m slurm.cancel {where}, or wait"
            )

    def run(self, state: ChainState, decisions: Sequence[Decision]) -> str | None:
        """Submit what the decisions say has to run.

        Raises:
            InputError: Slurm refused a job, and those submitted before it have been cancelled; or there are jobs of
                this chain already.
        """
        run_dir = state.chain.run_dir
        self.refuse_if_under_way(state)
        self._take_back(run_dir)
        submission = Submission(
            comment=f"palimpsest:{uuid.uuid4().hex[:12]}",
            chain=state.chain.name,
            steps=tuple(step.name for step in state.chain.steps),
            submitted=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        jobs = self._jobs(state, decisions, submission.comment)
        write_submission(run_dir, submission)
        _log_directory(run_dir).mkdir(parents=True, exist_ok=True)
        words = ["python", "-m", "slurm.submit", *state.words, f"render={_environment(run_dir)}"]
        atomic_write_text(_environment(run_dir), render(self, shell_line(words)))
        for job in jobs:
            atomic_write_text(job.script_path, job.script)
        try:
            for job in jobs:
                self._submit(state, submission, job)
            self._scheduler.release([submission.jobs[job.step.name].job for job in jobs if not job.needs])
        except BaseException as error:  # Ctrl-C too
            self._take_back(run_dir)
            if isinstance(error, InputError):
                raise InputError(f"{error}; no job of the chain is left in the queue") from error
            raise
        submission.whole = True
        write_submission(run_dir, submission)
        numbers = ", ".join(f"{step} {job.job}" for step, job in submission.jobs.items())
        return f"submitted {len(jobs)} jobs: {numbers}; follow them by python -m slurm.status run_dir={run_dir}"

    def run_one(self, state: ChainState, decision: Decision) -> None:
        """Run one step inside its job, started by `slurm/job.sh`, which requeues the job of one that was asked to save.

        Raises:
            InputError: its configuration is no longer what was submitted.
            StepFailed: it failed or was interrupted.
        """
        step = decision.step
        submission = read_submission(state.chain.run_dir)
        submitted = None if submission is None else submission.jobs.get(step.name)
        if submitted is not None and submitted.config != _config_hash(state, step):
            raise InputError(
                f"the configuration of step '{step.name}' has changed since it was submitted: submit the chain again"
            )
        scripts = Path(__file__).resolve().parent
        patience = Patience(self.grace_seconds, self.tail_lines)
        run_step(state, decision, step.name, step_words(step, scripts), patience)

    @property
    def _scheduler(self) -> Scheduler:
        return Scheduler(self.controller_seconds)

    @property
    def resources(self) -> Resources:
        """What a job asks for where neither its command nor its step says otherwise.

        Raises:
            InputError: an option that sbatch would not take.
        """
        try:
            return Resources(
                self.partition,
                self.account,
                self.qos,
                self.nodes,
                self.gpus_per_node,
                self.cpus_per_task,
                self.time,
                tuple(self.extra),
            )
        except InputError as error:
            raise InputError(f"'cluster': {error}") from error

    def _resources(self, step: Step) -> Resources:
        return resources_of(step, self.resources, self.commands, self.steps)

    def _jobs(self, state: ChainState, decisions: Sequence[Decision], comment: str) -> list[Job]:
        """The jobs of the steps that have to run, each after those it needs."""
        check_names(state.chain, self.steps)
        run_dir = state.chain.run_dir.absolute()
        running = [decision.step for decision in decisions if decision.action != "skip"]
        names = {step.name for step in running}
        environment = {"CLUSTER_ENV": str(_environment(run_dir)), "MAX_IDLE_STARTS": str(self.max_idle_starts)}
        run_name = re.sub(r"[^\w.-]", "_", run_dir.name)
        return [
            Job(
                step=step,
                resources=self._resources(step),
                needs=tuple(need for need in step.needs if need in names),
                name=f"{run_name}.{step.name}",
                comment=comment,
                directory=str(Path.cwd()),
                # Slurm fills in what follows a %.
                output=str(_log_directory(run_dir)).replace("%", "%%") + f"/{step.name}-%j.log",
                script=job_script(state.words, step.name, sys.executable, environment),
                script_path=str(jobs_directory(run_dir) / f"{step.name}.sh"),
                signal_seconds=self.signal_seconds,
            )
            for step in running
        ]

    def _submit(self, state: ChainState, submission: Submission, job: Job) -> None:
        dependencies = [str(submission.jobs[need].job) for need in job.needs]
        words = sbatch_words(job, dependencies, held=not dependencies)
        try:
            number = self._scheduler.submit(words, job.name, submission.comment)
        except InputError as error:
            raise InputError(f"step '{job.step.name}' was refused: {error}") from error
        log = job.output.replace("%j", str(number)).replace("%%", "%")
        submission.jobs[job.step.name] = SubmittedJob(number, job.needs, log, _config_hash(state, job.step))
        write_submission(state.chain.run_dir, submission)

    def _take_back(self, run_dir: Path) -> None:
        """Cancel what an unfinished submission has left in the queue, by its comment: its list may lack the last."""
        submission = read_submission(run_dir)
        if submission is None or submission.whole:
            return
        left = self._scheduler.find(submission.comment)
        if left:
            logger.warning("cancelled the jobs of a submission that was not finished: %s", sorted(left.values()))
        self._scheduler.cancel(sorted(left.values()))
        (jobs_directory(run_dir) / "submission.json").unlink(missing_ok=True)


def _log_directory(run_dir: Path) -> Path:
    return run_dir / "logs" / "jobs"


def _environment(run_dir: Path) -> Path:
    return jobs_directory(run_dir) / "cluster.env"


def _config_hash(state: ChainState, step: Step) -> str:
    """Hash of a step's configuration; where the run directory lies does not count."""
    return config_hash(state.parts(step).config)
