"""A progress bar on a terminal, plain lines in a log file. Must not import anything of the project."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

logger = logging.getLogger(__name__)
PLAIN_INTERVAL_SECONDS = 5.0


class ProgressLine:
    """What a loop tells of its progress; shown by rich on a terminal, by log lines elsewhere."""

    def __init__(self, label: str, total: float, bar: Progress | None, task: TaskID | None) -> None:
        self._label = label
        self._total = total
        self._bar = bar
        self._task = task
        self._last = time.monotonic()

    def update(self, completed: float, note: str = "") -> None:
        """Say how far the work is, in the units of `total`, with a few words on what it does."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=completed, note=note)
            return
        now = time.monotonic()
        if completed >= self._total or now - self._last >= PLAIN_INTERVAL_SECONDS:
            self._last = now
            share = completed / self._total if self._total else 1.0
            logger.info("%s: %.0f%% (%g of %g) %s", self._label, 100 * share, completed, self._total, note)


@contextlib.contextmanager
def progress(label: str, total: float) -> Iterator[ProgressLine]:
    """Show the progress of a block of work.

    Args:
        label: what is being done, in two or three words.
        total: the amount of work, in any unit.
    """
    if not sys.stderr.isatty():
        yield ProgressLine(label, total, None, None)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, note="")
        yield ProgressLine(label, total, bar, task)
