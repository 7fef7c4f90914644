"""What a cluster is to `slurm.submit`: a place where the steps of a plan run.

An entry of conf/cluster names a class with these methods. Must not import `pipeline` or `pretrain`.
"""

from collections.abc import Sequence
from typing import Protocol

from slurm.plan import ChainState, Decision


class StepFailed(Exception):
    """A step's command did not end well; the message names the step, its log and its last lines."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Take the sentence for the user and the exit code for the shell."""
        super().__init__(message)
        self.exit_code = exit_code


class Cluster(Protocol):
    """A place where steps run."""

    def lines(self, state: ChainState, decisions: Sequence[Decision]) -> list[tuple[str, str]]:
        """What `dry_run=true` shows: names of steps, each with what is typed into a shell to run it."""
        ...

    def refuse_if_under_way(self, state: ChainState) -> None:
        """Refuse a chain whose steps this place has been given already and has not brought to an end.

        Raises:
            InputError: which steps they are.
        """
        ...

    def run(self, state: ChainState, decisions: Sequence[Decision]) -> str | None:
        """Run what the decisions say has to run, each step after those it needs. To be called with the chain locked.

        Returns:
            None when all have run; or a sentence that says where they will, and how to follow them.

        Raises:
            InputError: the steps cannot be handed over; none of them will run.
            StepFailed: a step failed or was interrupted; no step that needs it has been started.
        """
        ...

    def run_one(self, state: ChainState, decision: Decision) -> None:
        """Run one step here and now, all that it needs being complete.

        Raises:
            StepFailed: it failed or was interrupted.
        """
        ...
