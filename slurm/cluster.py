"""What a cluster is to `slurm.submit`: a place where the steps of a plan run.

An entry of conf/cluster names a class with these two methods. Must not import `pipeline` or `pretrain`.
"""

from collections.abc import Sequence
from typing import Protocol

from slurm.chain import Step
from slurm.plan import ChainState, Decision


class StepFailed(Exception):
    """A step's command did not end well; the message names the step, its log and its last lines."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Take the sentence for the user and the exit code for the shell."""
        super().__init__(message)
        self.exit_code = exit_code


class Cluster(Protocol):
    """A place where steps run."""

    def command_line(self, step: Step) -> list[str]:
        """What is run for a step, as `dry_run=true` shows it."""
        ...

    def run(self, state: ChainState, decisions: Sequence[Decision]) -> None:
        """Run what the decisions say has to run, each step after those it needs.

        Raises:
            StepFailed: a step failed or was interrupted; no step that needs it has been started.
        """
        ...
