"""A progress bar on a terminal, plain lines in a log file. Must not import anything of the project."""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

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

    def update(self, completed: float, note: str = "", left: float | None = None) -> None:
        """Say how far the work is, in the units of `total`, with a few words on what it does.

        `left` are the seconds until its end, as far as the caller can tell.
        """
        remaining = "" if left is None else f"{duration(left)} left"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=completed, note=note, left=remaining)
            return
        now = time.monotonic()
        if completed >= self._total or now - self._last >= PLAIN_INTERVAL_SECONDS:
            self._last = now
            share = completed / self._total if self._total else 1.0
            words = ", ".join(part for part in (note, remaining) if part)
            logger.info("%s: %.0f%% (%g of %g) %s", self._label, 100 * share, completed, self._total, words)


def duration(seconds: float) -> str:
    """Return a time as people read it: "0:42", "12:05", "3:07:00", "2 d 4 h"."""
    whole = round(seconds)
    if whole >= 86400:
        return f"{whole // 86400} d {whole % 86400 // 3600} h"
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


class _Left(ProgressColumn):
    """What the caller says is left, or else what rich makes of the speed so far."""

    def __init__(self) -> None:
        super().__init__()
        self._rich = TimeRemainingColumn()

    def render(self, task: Task) -> Text:
        if task.fields["left"]:
            return Text(task.fields["left"], style="progress.remaining")
        return Text.assemble(self._rich.render(task), " left")


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
        _Left(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, note="", left="")
        yield ProgressLine(label, total, bar, task)
