"""A chain that runs by schedule: what its run directory keeps of it, and its entry in the user's crontab.

`<run_dir>/schedule/` has `schedule.json`, `fire.sh`, which the crontab names, and `log.jsonl` with a line for each
firing. Must not import `pipeline` or `pretrain`.
"""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from conf.errors import InputError
from conf.files import atomic_write_text
from slurm.cron import blocks, parse, read_table, with_block, write_table

FORMAT = 1
# Of the environment of the shell that installs a schedule; keys and tokens are not among it.
KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "SLURM_CONF", "CLUSTER_ENV")


@dataclass(frozen=True)
class Schedule:
    """A schedule.

    Attributes:
        expression: of cron.
        words: those after `python -m slurm.submit` that run the chain.
        notify: a command that is told of a failure; None for none.
    """

    expression: str
    words: tuple[str, ...]
    notify: str | None


def folder_of(run_dir: Path) -> Path:
    """Where all of it lies."""
    return run_dir / "schedule"


def install(run_dir: Path, schedule: Schedule, environment: Mapping[str, str] = os.environ) -> str:
    """Write the schedule and its entry; returns a sentence.

    Raises:
        InputError: a bad expression, a path that cron could not read, or no cron.
    """
    due = parse(schedule.expression).next_after(datetime.now())
    if due is None:
        raise InputError(f"schedule '{schedule.expression}' names a day that never comes")
    run_dir = run_dir.absolute()
    if "%" in str(run_dir) or "\n" in str(run_dir):
        raise InputError(f"the run_dir of a schedule must have no % in it, which means something to cron: '{run_dir}'")
    table = read_table()
    folder = folder_of(run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write_text(folder / "schedule.json", json.dumps({"format": FORMAT, **asdict(schedule)}, indent=1) + "\n")
    atomic_write_text(folder / "fire.sh", _script(run_dir, environment))
    entry = f"{schedule.expression} /bin/bash {shlex.quote(str(folder / 'fire.sh'))}"
    write_table(with_block(table, str(run_dir), [entry]))
    return f"{run_dir} runs by schedule '{schedule.expression}', first at {due:%Y-%m-%d %H:%M}"


def remove(run_dir: Path) -> str:
    """Take the entry away; returns a sentence.

    Raises:
        InputError: there is none.
    """
    table, name = read_table(), str(run_dir.absolute())
    if name not in blocks(table):
        known = ", ".join(blocks(table)) or "none"
        raise InputError(f"'{name}' has no schedule in the crontab of this machine; those that have: {known}")
    write_table(with_block(table, name, []))
    return f"removed: {name} does not run by schedule any more; what it has written stays"


def listing(now: datetime) -> str:
    """All schedules of this machine's crontab, with the last firing, its outcome, and the next."""
    lines = []
    for name in blocks(read_table()):
        schedule, last = read_schedule(Path(name)), last_firing(Path(name))
        if schedule is None:
            lines.append(f"  {name}  its schedule.json is gone: remove it by schedule=remove run_dir={name}")
            continue
        due = parse(schedule.expression).next_after(now)
        said = f"{last['time']} {last['outcome']} {last['why']}".rstrip() if last else "never"
        lines.append(f"  {name}  '{schedule.expression}'  last: {said}  next: {due:%Y-%m-%d %H:%M}")
    return "\n".join(lines) or "no schedules in the crontab of this machine"


def read_schedule(run_dir: Path) -> Schedule | None:
    """The schedule of a run directory; None where there is none."""
    try:
        found = json.loads((folder_of(run_dir) / "schedule.json").read_text(encoding="utf-8"))
        if found.pop("format") != FORMAT:
            return None
        return Schedule(**{**found, "words": tuple(found["words"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def log_firing(run_dir: Path, outcome: str, why: str = "") -> None:
    """Add a line: outcome is complete, submitted, skipped or failed."""
    line = {"time": datetime.now().isoformat(timespec="seconds"), "outcome": outcome, "why": why}
    with (folder_of(run_dir) / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


def firings(run_dir: Path) -> list[dict[str, Any]]:
    """All lines of the log but those that a kill or a full disk has cut off."""
    try:
        text = (folder_of(run_dir) / "log.jsonl").read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    found = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def last_firing(run_dir: Path) -> dict[str, Any] | None:
    """The last line of the log."""
    return next(reversed(firings(run_dir)), None)


def _script(run_dir: Path, environment: Mapping[str, str]) -> str:
    """What cron starts: its environment is bare and its directory the home."""
    kept = [f"export {name}={shlex.quote(environment[name])}" for name in KEPT_VARIABLES if environment.get(name)]
    words: Sequence[str] = [sys.executable, "-m", "slurm.scheduled", f"run_dir={shlex.quote(str(run_dir))}"]
    return "\n".join(
        [
            "# Started by cron: runs the chain that schedule.json beside it describes. Written by",
            "# python -m slurm.submit schedule=...; removed from cron by schedule=remove.",
            *kept,
            '[ -z "${CLUSTER_ENV:-}" ] || source "$CLUSTER_ENV"',
            f"cd {shlex.quote(str(Path.cwd()))} || exit 1",
            f"exec {shlex.join(words)} >>{shlex.quote(str(folder_of(run_dir) / 'output.log'))} 2>&1",
            "",
        ]
    )
