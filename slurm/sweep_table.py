"""The jobs of a sweep as rows: what differs between them, and what came of each.

Reads what `conf.sweep_record` and the jobs have written. Must not import `pipeline` or `pretrain`.
"""

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.command_line import override_name
from conf.sweep_record import Sweep, SweepJob
from slurm.scheduler import JobState
from slurm.text_table import text_table

METRICS = "metrics.jsonl"
COLUMNS = ("job", "state", "steps", "last", "best", "tokens_per_second", "why")


@dataclass(frozen=True)
class SweepRow:
    """One job of a sweep.

    Attributes:
        job: its number, which is the name of its directory.
        overrides: those of its overrides that differ between the jobs, by option.
        state: complete, running, saved, failed, lost (killed before it could say anything), waiting or not started.
        why: in words, why it failed.
        steps: how far it trained; None for a command without steps.
        last: the figure that the table is sorted by, as it was last; None where there is none.
        best: the same at its best.
        tokens_per_second: the last.
    """

    job: int
    overrides: Mapping[str, str]
    state: str
    why: str = ""
    steps: int | None = None
    last: float | None = None
    best: float | None = None
    tokens_per_second: float | None = None

    def flat(self) -> dict[str, Any]:
        """The row as one mapping: the overrides by their names, then the rest."""
        return {"job": self.job, **self.overrides, **{name: getattr(self, name) for name in COLUMNS[1:]}}


def differing(jobs: Mapping[int, Sequence[str]]) -> dict[int, dict[str, str]]:
    """Of the overrides of each job those that are not the same in all, by option, in the order they were typed."""
    split = {job: {override_name(line): line.split("=", 1)[-1] for line in lines} for job, lines in jobs.items()}
    names = list(dict.fromkeys(name for values in split.values() for name in values))
    varying = [name for name in names if len({values.get(name) for values in split.values()}) > 1]
    return {job: {name: values.get(name, "") for name in varying} for job, values in split.items()}


def rows_of(
    directory: Path,
    sweep: Sweep | None,
    begun: Mapping[int, SweepJob],
    states: Mapping[int, JobState],
    waiting: bool,
    by: str,
    highest: bool,
) -> list[SweepRow]:
    """A row for each job, the best first; those without the figure come last, in the order of their numbers.

    Args:
        directory: of the sweep.
        sweep: its plan; None where it left none: the jobs that have begun are all there is.
        begun: the records of the jobs that have begun.
        states: what Slurm knows of jobs, by their numbers there.
        waiting: whether Slurm has jobs of the sweep that have not begun.
        by: a figure of metrics.jsonl.
        highest: whether a higher one is better.
    """
    asked = dict(enumerate(sweep.jobs)) if sweep is not None else {}
    overrides = differing(asked | {number: job.overrides for number, job in begun.items() if number not in asked})
    rows = []
    for number in sorted(overrides):
        state, why = _state(begun.get(number), states, waiting)
        steps, last, best, rate = _figures(directory / str(number) / METRICS, by, highest)
        rows.append(SweepRow(number, overrides[number], state, why, steps, last, best, rate))
    sign = -1.0 if highest else 1.0
    return sorted(rows, key=lambda row: (row.best is None, sign * (row.best or 0.0), row.job))


def _state(job: SweepJob | None, states: Mapping[int, JobState], waiting: bool) -> tuple[str, str]:
    if job is None:
        return ("waiting", "") if waiting else ("not started", "")
    if job.state not in ("running", "saved") or job.slurm_job is None:
        return job.state, job.why
    known = states.get(job.slurm_job)
    if known is None:
        return ("lost", "Slurm has forgotten it, and it left no word") if job.state == "running" else ("saved", "")
    if known.unfinished:
        return ("waiting", "saved, to go on") if known.state == "PENDING" else ("running", "")
    return "lost", f"Slurm ended it: {known.state} {known.reason}".strip()


def _figures(path: Path, by: str, highest: bool) -> tuple[int | None, float | None, float | None, float | None]:
    """Steps, the last and the best of a figure, and tokens per second, of a file of metrics."""
    steps: int | None = None
    found: list[float] = []
    rate: float | None = None
    with contextlib.suppress(OSError), path.open(encoding="utf-8") as lines:
        for line in lines:
            try:
                values = json.loads(line)
            except ValueError:
                continue  # cut off by a kill
            steps = values.get("step", steps)
            rate = values.get("tokens_per_second", rate)
            if isinstance(values.get(by), int | float) and math.isfinite(values[by]):
                found.append(float(values[by]))
    if not found:
        return steps, None, None, rate
    return steps, found[-1], (max if highest else min)(found), rate


def as_text(rows: Sequence[SweepRow], by: str) -> str:
    """Rows as lines, one column under another."""
    names = list(rows[0].overrides) if rows else []
    head = ["job", *names, "state", "steps", f"last {by}", f"best {by}", "tokens/s", ""]
    return text_table(head, [_line(row) for row in rows])


def _line(row: SweepRow) -> list[str]:
    return [
        str(row.job),
        *row.overrides.values(),
        row.state,
        "-" if row.steps is None else str(row.steps),
        "-" if row.last is None else f"{row.last:.4f}",
        "-" if row.best is None else f"{row.best:.4f}",
        "-" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}",
        row.why,
    ]
