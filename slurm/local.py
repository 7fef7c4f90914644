"""`cluster=local`: the steps of a chain one after another, as subprocesses on this machine.

Must not import `pipeline` or `pretrain`.
"""

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from conf.command import EXIT_BAD_INPUT, EXIT_FAILURE
from conf.command_line import shell_line
from conf.errors import InputError
from slurm.chain import Step
from slurm.cluster import StepFailed
from slurm.plan import ChainState, Decision
from slurm.process import run_logged, shown_beside_errors
from slurm.records import REPLACED, begin, complete

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LocalCluster:
    """This machine, one step at a time.

    Attributes:
        grace_seconds: how long a step may take to save and end after Ctrl-C or SIGTERM before it is killed.
        tail_lines: how many last lines of a failed step are shown.
    """

    grace_seconds: float = 60.0
    tail_lines: int = 20

    def __post_init__(self) -> None:
        if self.grace_seconds < 0 or self.tail_lines < 1:
            raise InputError(
                "cluster.grace_seconds must be at least 0 and cluster.tail_lines at least 1, "
                f"but they are {self.grace_seconds:g} and {self.tail_lines}"
            )

    def command_line(self, step: Step) -> list[str]:
        """What is run for a step."""
        return [sys.executable, *step.arguments()]

    def run(self, state: ChainState, decisions: Sequence[Decision]) -> None:
        """Run what the decisions say has to run, in their order.

        Raises:
            StepFailed: a step failed or was interrupted; those after it have not been started.
        """
        for number, decision in enumerate(decisions, start=1):
            if decision.action != "skip":
                self._run_step(state, decision, f"[{number}/{len(decisions)}] {decision.step.name}")

    def _run_step(self, state: ChainState, decision: Decision, label: str) -> None:
        step, run_dir = decision.step, state.chain.run_dir
        parts = state.parts(step)  # only now: the steps it needs have run since the plan was made
        resume = decision.action == "resume"
        if begin(run_dir, step, parts, resume):
            logger.info("%s: starts clean; its old outputs are in %s", label, run_dir / REPLACED)
        command = self.command_line(step)
        log = run_dir / "logs" / f"{step.name}.log"
        if resume:
            logger.info("%s: goes on where it was interrupted", label)
        logger.info("%s: %s", label, shell_line(["python", *step.arguments()]))
        started, begun = datetime.now(UTC), time.monotonic()
        outcome = run_logged(command, log, resume, self.grace_seconds, self.tail_lines)
        if outcome.stopped_by is not None:
            raise StepFailed(
                f"{outcome.stopped_by.name} came while step '{step.name}' ran; it has ended (log: {log}), and the same "
                "command goes on from there",
                128 + outcome.stopped_by,
            )
        if outcome.status != 0:
            ending = f"step '{step.name}' failed: {_ending(outcome.status)}"
            code = outcome.status if outcome.status == EXIT_BAD_INPUT else EXIT_FAILURE
            if shown_beside_errors():
                raise StepFailed(f"{ending}; its last lines are above, all of them in {log}", code)
            tail = "\n".join(f"    {line}" for line in outcome.tail)
            raise StepFailed(f"{ending}; log: {log}\n{tail}", code)
        complete(run_dir, step, parts, command, started, time.monotonic() - begun, state.fingerprints)
        state.fingerprints.save()
        logger.info("%s: done in %s", label, duration(outcome.seconds))


def duration(seconds: float) -> str:
    """Seconds in words: `4.2 s`, `3 min 7 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _ending(status: int) -> str:
    if status == EXIT_BAD_INPUT:
        return f"exit code {status}, bad input"
    return f"ended by signal {-status}" if status < 0 else f"exit code {status}"
