"""What a task is to the rest: jobs that can run anywhere in any order, and a way from their results to scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from conf.errors import InputError
from pretrain.evaluation.runs import Job
from pretrain.evaluation.scores import Outcome
from pretrain.evaluation.subject import Subject


class TaskMissing(InputError):
    """A task's data are not there: the sentence says what was looked for and where it can be had. A suite goes on
    without the task, and lists what is missing by `wanted`, the same in short."""

    def __init__(self, sentence: str, wanted: str | None = None) -> None:
        super().__init__(sentence)
        self.wanted = sentence if wanted is None else wanted


class PreparedTask(Protocol):
    """A task with its items read and checked, for one subject."""

    @property
    def name(self) -> str:
        """The name in the table of scores and of the file of items."""
        ...

    @property
    def jobs(self) -> Sequence[Job]:
        """The work, one job per model and seed."""
        ...

    def collect(self, results: Sequence[dict[str, Any]]) -> Outcome:
        """Scores from the jobs' results, given in the order of `jobs`."""
        ...


class Task(Protocol):
    """A task as configured: `conf/task/*.yaml` names a class of this kind."""

    def prepare(self, subject: Subject, directory: Path | None) -> PreparedTask | None:
        """Read and check the items; everything a user can get wrong is refused here, before any work.

        Args:
            subject: what is evaluated.
            directory: where relative paths of tasks begin; None if the user gave none.

        Raises:
            TaskMissing: its data are not there.

        Returns:
            None if the task reads from `directory` and there is none: it is left out, which the caller says.
        """
        ...
