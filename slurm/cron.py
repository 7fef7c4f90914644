"""When a cron expression comes due, and the user's crontab with a marked block for each schedule.

Pure functions, but for the two that call `crontab`. Must not import `pipeline` or `pretrain`.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from conf.errors import InputError

FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?")
_FARTHEST_DAYS = 366 * 8  # a 29 February


@dataclass(frozen=True)
class Cron:
    """A cron expression: for each field the values that it allows; Sunday is 0."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def next_after(self, moment: datetime) -> datetime | None:
        """The first minute after a moment at which it comes due; None for a day that never comes."""
        day = (moment + timedelta(minutes=1)).replace(second=0, microsecond=0)
        for _ in range(_FARTHEST_DAYS):
            if self._is_day(day):
                for hour in sorted(hour for hour in self.hours if hour >= day.hour):
                    earliest = day.minute if hour == day.hour else 0
                    minute = min((minute for minute in self.minutes if minute >= earliest), default=None)
                    if minute is not None:
                        return day.replace(hour=hour, minute=minute)
            day = (day + timedelta(days=1)).replace(hour=0, minute=0)
        return None

    def _is_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        # As cron has it: where both are restricted, either will do.
        return in_month and in_week if self.any_day or self.any_weekday else in_month or in_week


def parse(expression: str) -> Cron:
    """Read a cron expression of five fields.

    Raises:
        InputError: the field and what it may be.
    """
    words = expression.split()
    if len(words) != len(FIELDS):
        raise InputError(
            "schedule must be list, remove, or a cron expression of five fields (minute, hour, day of the month, "
            f"month, day of the week), such as '0 3 * * *', but '{expression}' has {len(words)}"
        )
    values = [_field(word, *field) for word, field in zip(words, FIELDS, strict=True)]
    weekdays = frozenset(day % 7 for day in values[4])
    minutes, hours, days, months = values[:4]
    return Cron(minutes, hours, days, months, weekdays, words[2].startswith("*"), words[4].startswith("*"))


def _field(word: str, name: str, least: int, most: int) -> frozenset[int]:
    names = {"month": MONTHS, "day of the week": DAYS}.get(name, ())

    def refuse() -> InputError:
        return InputError(
            f"schedule: the {name} must be *, or numbers from {least} to {most}, ranges (1-5), steps (*/2) and lists "
            f"(1,3) of them, but is '{word}'"
        )

    def number(text: str) -> int:
        if text.lower() in names:
            return names.index(text.lower()) + least
        if not text.isdigit() or not least <= int(text) <= most:
            raise refuse()
        return int(text)

    found: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None or (match[1] == "*" and match[2]) or match[3] == "0":
            raise refuse()
        if match[1] == "*":
            first, last = least, most
        else:
            first = number(match[1])
            last = number(match[2]) if match[2] else most if match[3] else first
        if last < first:
            raise refuse()
        found.update(range(first, last + 1, int(match[3] or 1)))
    return frozenset(found)


def with_block(table: str, name: str, lines: Sequence[str]) -> str:
    """A crontab in which the block of a schedule is these lines (none: no block); all other lines stay as they are."""
    begin, end = _marks(name)
    kept: list[str] = []
    inside = False
    for line in table.splitlines():
        if line == begin:
            inside = True
        elif inside:
            inside = line != end
        else:
            kept.append(line)
    if lines:
        kept += [begin, *lines, end]
    return "".join(f"{line}\n" for line in kept)


def blocks(table: str) -> list[str]:
    """The names of the schedules that a crontab has."""
    head = _marks("")[0]
    return [line.removeprefix(head) for line in table.splitlines() if line.startswith(head)]


def read_table() -> str:
    """The user's crontab; empty where there is none.

    Raises:
        InputError: there is no cron here.
    """
    if shutil.which("crontab") is None:
        raise InputError("schedule needs cron, but there is no program 'crontab' here: ask for it on a login node")
    done = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False)
    if done.returncode and "no crontab" not in done.stderr:
        raise InputError(f"crontab -l: {done.stderr.strip()}")
    return done.stdout if done.returncode == 0 else ""


def write_table(table: str) -> None:
    """Replace the user's crontab as a whole.

    Raises:
        InputError: cron refuses it; the old one stays.
    """
    done = subprocess.run(["crontab", "-"], input=table, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"crontab refused the entry: {done.stderr.strip()}")


def _marks(name: str) -> tuple[str, str]:
    return f"# begin of palimpsest's schedule of {name}", f"# end of palimpsest's schedule of {name}"
