"""`cluster=local`: the steps of a chain one after another, as subprocesses on this machine.

Must not import `pipeline` or `pretrain`.
"""

import sys
from collections.abc import Sequence

from conf.command_line import shell_line
from slurm.chain import Step
from slurm.plan import ChainState, Decision
from slurm.run_step import Patience, run_step


class LocalCluster:
    """This machine, one step at a time."""

    def __init__(self, grace_seconds: float = 60.0, tail_lines: int = 20) -> None:
        """Take the two times of `Patience`."""
        self._patience = Patience(grace_seconds, tail_lines)

    def lines(self, state: ChainState, decisions: Sequence[Decision]) -> list[tuple[str, str]]:
        """The command of every step."""
        return [(decision.step.name, shell_line(_command(decision.step))) for decision in decisions]

    def refuse_if_under_way(self, state: ChainState) -> None:
        """Nothing: the lock on the run directory tells."""

    def run(self, state: ChainState, decisions: Sequence[Decision]) -> str | None:
        """Run what the decisions say has to run, in their order.

        Raises:
            StepFailed: a step failed or was interrupted; those after it have not been started.
        """
        for number, decision in enumerate(decisions, start=1):
            if decision.action != "skip":
                label = f"[{number}/{len(decisions)}] {decision.step.name}"
                run_step(state, decision, label, _command(decision.step), self._patience)
        return None

    def run_one(self, state: ChainState, decision: Decision) -> None:
        """Run one step.

        Raises:
            StepFailed: it failed or was interrupted.
        """
        run_step(state, decision, decision.step.name, _command(decision.step), self._patience)


def _command(step: Step) -> list[str]:
    return [sys.executable, *step.arguments()]
