"""`cluster=slurm`: each step of a chain becomes a job that waits for those it needs.

All jobs are submitted or none: those that could start at once are held until the last has been taken. Must not import
`pipeline` or `pretrain`.
"""

import logging
import os
import re
import shlex
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conf.errors import InputError
from conf.files import atomic_write_text
from conf.provenance import config_hash
from slurm.chain import Step
from slurm.cluster import StepFailed
from slurm.fingerprints import files_below
from slurm.plan import ChainState, Decision
from slurm.run_step import MARKER, Patience, run_step
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
from slurm.submission import Submission, SubmittedJob, jobs_directory, read_submission, write_submission

logger = logging.getLogger(__name__)
# How long a job that has asked to be requeued waits for Slurm to end it.
END_SECONDS = 600.0


class SlurmCluster:
    """The Slurm that this machine belongs to; its options are those of `slurm.sbatch_lines.Resources`, and

    commands: other options for all steps of a command, such as `pretrain: {nodes: 4, gpus_per_node: 8}`.
    steps: other options for one step of the chain.
    signal_seconds: so long before the end of its time a step is asked to save; its job is then requeued.
    max_idle_starts: after so many starts of a job without progress it is not requeued any more.
    grace_seconds, tail_lines: see `slurm.run_step.Patience`.
    controller_seconds: how long a controller that is away is waited for.
    """

    def __init__(
        self,
        partition: str | None = None,
        account: str | None = None,
        qos: str | None = None,
        nodes: int = 1,
        gpus_per_node: int | None = None,
        cpus_per_task: int | None = None,
        time: str | None = None,
        extra: Sequence[str] = (),
        commands: Mapping[str, Mapping[str, Any]] | None = None,
        steps: Mapping[str, Mapping[str, Any]] | None = None,
        signal_seconds: int = 180,
        max_idle_starts: int = 3,
        grace_seconds: float = 150.0,
        tail_lines: int = 20,
        controller_seconds: float = 120.0,
    ) -> None:
        """Take the options of `cluster`; see the class.

        Raises:
            InputError: a value that cannot be.
        """
        try:
            self._everyone = Resources(partition, account, qos, nodes, gpus_per_node, cpus_per_task, time, tuple(extra))
        except InputError as error:
            raise InputError(f"'cluster': {error}") from error
        if signal_seconds < 0 or max_idle_starts < 1 or controller_seconds < 0:
            raise InputError(
                "cluster.signal_seconds and cluster.controller_seconds must be at least 0 and cluster.max_idle_starts "
                f"at least 1, but they are {signal_seconds}, {controller_seconds:g} and {max_idle_starts}"
            )
        self._commands, self._steps = dict(commands or {}), dict(steps or {})
        self._signal_seconds, self._max_idle_starts = signal_seconds, max_idle_starts
        self._patience = Patience(grace_seconds, tail_lines)
        self._scheduler = Scheduler(controller_seconds)

    def lines(self, state: ChainState, decisions: Sequence[Decision]) -> list[tuple[str, str]]:
        """The sbatch line of every step that has to run; pasted into a shell in this order they submit the chain."""
        jobs = self._jobs(state, decisions, "palimpsest")
        lines = [(job.step.name, line_to_paste(job)) for job in jobs]
        if jobs:
            # Slurm does not make the folder of a log, and a job without one fails.
            folder = f"mkdir -p {shlex.quote(str(_log_directory(state.chain.run_dir.absolute())))}"
            lines[0] = (lines[0][0], f"{folder}\n{lines[0][1]}")
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
        """Run one step inside its job. A step that saves and stops, asked by a signal, has its job requeued.

        Raises:
            InputError: its configuration is no longer what was submitted.
            StepFailed: it failed, or stopped and is not to go on.
        """
        step, run_dir = decision.step, state.chain.run_dir
        submission = read_submission(run_dir)
        submitted = None if submission is None else submission.jobs.get(step.name)
        if submitted is not None and submitted.config != _config_hash(state, step):
            raise InputError(
                f"the configuration of step '{step.name}' has changed since it was submitted: submit the chain again"
            )
        words = step_words(step, self._resources(step), sys.executable)
        try:
            run_step(state, decision, step.name, words, self._patience)
        except StepFailed as failure:
            own = os.environ.get("SLURM_JOB_ID")
            if not failure.goes_on or own is None or submission is None:
                raise
            self._requeue(run_dir, step, int(own), submission.comment, failure)

    def _resources(self, step: Step) -> Resources:
        return resources_of(step, self._everyone, self._commands, self._steps)

    def _jobs(self, state: ChainState, decisions: Sequence[Decision], comment: str) -> list[Job]:
        """The jobs of the steps that have to run, each after those it needs."""
        check_names(state.chain, self._steps)
        run_dir = state.chain.run_dir.absolute()
        running = [decision.step for decision in decisions if decision.action != "skip"]
        names = {step.name for step in running}
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
                script=job_script(state.words, step.name, sys.executable),
                script_path=str(jobs_directory(run_dir) / f"{step.name}.sh"),
                signal_seconds=self._signal_seconds,
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

    def _requeue(self, run_dir: Path, step: Step, own: int, comment: str, failure: StepFailed) -> None:
        """Requeue this job and wait for Slurm to end it; to end by itself would count as done or as failed.

        Raises:
            StepFailed: the job was cancelled, or has made no progress for too long.
        """
        found = self._scheduler.states([own], comment).get(own)
        if found is None or found.state != "RUNNING":
            raise failure
        done = f"job {own}, {_amount_done(run_dir, step)}\n"
        history = jobs_directory(run_dir) / f"{step.name}.requeues"
        with history.open("a", encoding="utf-8") as handle:
            handle.write(done)
        last = history.read_text(encoding="utf-8").splitlines(keepends=True)[-self._max_idle_starts :]
        if last.count(done) == self._max_idle_starts:
            raise StepFailed(
                f"step '{step.name}' was stopped {self._max_idle_starts} times without progress ({done.strip()}), so "
                "it is not requeued: give it more time (cluster.steps.NAME.time), or see its log for what takes it",
                failure.exit_code,
            )
        logger.info("%s; the job is requeued", failure)
        self._scheduler.requeue(own)
        time.sleep(END_SECONDS)
        raise failure


def _log_directory(run_dir: Path) -> Path:
    return run_dir / "logs" / "jobs"


def _config_hash(state: ChainState, step: Step) -> str:
    """Hash of a step's configuration; where the run directory lies does not count."""
    return config_hash(state.parts(step).config)


def _amount_done(run_dir: Path, step: Step) -> str:
    """How much of a step is there: the step of training that it has saved, or else its files and bytes."""
    files = [file for output in step.outputs for file in files_below(run_dir / output)]
    marker = next((file for file in files if file.name == MARKER), None)
    if marker is not None:
        return marker.read_text(encoding="utf-8").strip()
    return f"{len(files)} files of {sum(file.stat().st_size for file in files)} bytes"
