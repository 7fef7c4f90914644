"""What every benchmark shares: its command line, alternating runs, one table, flat JSON.

Must not import the project's packages: a benchmark imports what it measures.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Measurement:
    """One contestant's figures over all its runs.

    Attributes:
        name: what ran, with the settings that matter.
        rates: units of work per second, one a run (higher is better).
        note: padding, threads, precision: what a reader needs to judge the figure.
    """

    name: str
    rates: tuple[float, ...]
    note: str = ""

    @property
    def best(self) -> float:
        """The highest rate: on a shared machine the run least disturbed."""
        return max(self.rates)

    @property
    def median(self) -> float:
        """The middle rate."""
        return statistics.median(self.rates)


def arguments(description: str, extra: Callable[[argparse.ArgumentParser], None] | None = None) -> argparse.Namespace:
    """Parse a benchmark's command line: `--quick`, `--json FILE`, and what `extra` adds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="smaller sizes; ends within three minutes on two cores")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the named ratios as flat JSON")
    if extra is not None:
        extra(parser)
    return parser.parse_args()


def alternate(
    contestants: Mapping[str, Callable[[], float]], runs: int, notes: Mapping[str, str] | None = None
) -> dict[str, Measurement]:
    """Run the contestants in turn, A B C A B C ..., so that a drift of the machine's speed meets all alike.

    Each rate goes to stderr when it is known.

    Args:
        contestants: name -> a function that does the work once and returns its rate (units per second).
        runs: how often each runs.
        notes: name -> remark for the table.
    """
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(runs):
        for name, run in contestants.items():
            rates[name].append(run())
            print(f"{name}: {rates[name][-1]:,.4g}", file=sys.stderr, flush=True)
    return {name: Measurement(name, tuple(found), (notes or {}).get(name, "")) for name, found in rates.items()}


def machine() -> str:
    """The machine and the versions in one line, for the table's caption."""
    cores = len(os.sched_getaffinity(0))
    found = [f"Python {platform.python_version()}"]
    for package in ("torch", "transformers", "tokenizers", "datasets", "apache-beam", "deepspeed"):
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return f"{cores} cores, {platform.machine()}; " + ", ".join(found)


def report(
    title: str,
    unit: str,
    measurements: Sequence[Measurement],
    ratios: Mapping[str, float],
    json_path: Path | None,
) -> None:
    """Print the table and the ratios; write the ratios to `json_path` if given.

    Args:
        title: what was measured, with sizes.
        unit: the unit of every rate, per second.
        measurements: the contestants, ours first.
        ratios: key -> ours over the peer's (above 1: ours is faster).
        json_path: file for the ratios as one flat JSON object.
    """
    rows = [(row.name, f"{row.best:,.4g}", f"{row.median:,.4g}", str(len(row.rates)), row.note) for row in measurements]
    print_table(title, ("contestant", f"best, {unit}", "median", "runs", "note"), rows, caption=machine())
    write_figures(ratios, json_path)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> None:
    """Print a table; the first and the last column are words, what is between is figures."""
    table = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number in (0, len(columns) - 1) else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=None if os.isatty(1) else 140).print(table)


def write_figures(figures: Mapping[str, float], json_path: Path | None) -> None:
    """Print named figures, and write them to `json_path`, if given, as one flat JSON object."""
    for key, value in figures.items():
        print(f"{key} = {value:,.3f}" if abs(value) < 1000 else f"{key} = {value:,.0f}")
    if json_path is not None:
        json_path.write_text(json.dumps({key: round(value, 4) for key, value in figures.items()}, indent=2) + "\n")
