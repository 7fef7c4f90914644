"""One step, run here: its place made ready, its command run and logged, its record written.

Every cluster runs a step by this code, so that a step is complete by the same rule wherever it ran. Must not import
`pipeline` or `pretrain`.
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
from slurm.cluster import StepFailed
from slurm.plan import ChainState, Decision
from slurm.process import Outcome, run_logged, shown_beside_errors
from slurm.records import REPLACED, begin, complete

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """How a step is treated that does not end well.

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


def run_step(state: ChainState, decision: Decision, label: str, command: Sequence[str], patience: Patience) -> None:
    """Run one step to its end and record it.

    Args:
        state: the chain; the steps that this one needs have run.
        decision: what is to be done with the step: "run" or "resume".
        label: how the step is named in the log.
        command: what is run: the step's own command line, or what starts it.
        patience: how long it may take to end, and how much of a failure is shown.

    Raises:
        StepFailed: it failed or was interrupted.
    """
    step, run_dir = decision.step, state.chain.run_dir
    parts = state.parts(step)  # only now: the steps it needs have run since the plan was made
    resume = decision.action == "resume"
    if begin(run_dir, step, parts, resume):
        logger.info("%s: starts clean; its old outputs are in %s", label, run_dir / REPLACED)
    log = run_dir / "logs" / f"{step.name}.log"
    if resume:
        logger.info("%s: goes on where it was interrupted", label)
    logger.info("%s: %s", label, shell_line(["python", *step.arguments()]))
    own = [sys.executable, *step.arguments()]
    started, begun = datetime.now(UTC), time.monotonic()
    outcome = run_logged(command, log, resume, patience.grace_seconds, patience.tail_lines)
    if outcome.stopped_by is not None:
        raise StepFailed(
            f"{outcome.stopped_by.name} came while step '{step.name}' ran; it has ended (log: {log}), and the same "
            "command goes on from there",
            128 + outcome.stopped_by,
        )
    if outcome.status != 0:
        raise _failure(outcome, f"step '{step.name}' failed: {_ending(outcome.status)}", str(log))
    complete(run_dir, step, parts, own, started, time.monotonic() - begun, state.fingerprints)
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


def _failure(outcome: Outcome, ending: str, log: str) -> StepFailed:
    code = outcome.status if outcome.status == EXIT_BAD_INPUT else EXIT_FAILURE
    if shown_beside_errors():
        return StepFailed(f"{ending}; its last lines are above, all of them in {log}", code)
    tail = "\n".join(f"    {line}" for line in outcome.tail)
    return StepFailed(f"{ending}; log: {log}\n{tail}", code)


def _ending(status: int) -> str:
    if status == EXIT_BAD_INPUT:
        return f"exit code {status}, bad input"
    return f"ended by signal {-status}" if status < 0 else f"exit code {status}"
