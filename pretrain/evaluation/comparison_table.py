"""A comparison of two evaluations for a terminal or a log file, and as the file `comparison.json`.

Must not import torch.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from conf.files import atomic_write_text
from pretrain.evaluation.compared import ComparedRow, TwoCompared, Verdict
from pretrain.evaluation.equivalence import LEVEL
from pretrain.evaluation.power import POWER

FORMAT = 1
PLAIN_WIDTH = 160
STYLES: dict[Verdict, str] = {"better": "green", "worse": "red", "equivalent": "cyan", "undecided": ""}
SMALLEST_SHOWN = 0.001


def write_comparison(path: Path, found: TwoCompared) -> None:
    """Write `comparison.json`: {"format", "first", "second", "margin", "level", "power", "rows", "notes"}."""
    record = {"format": FORMAT, **asdict(found), "level": LEVEL, "power": POWER}
    atomic_write_text(path, json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def print_comparison(found: TwoCompared, console: Console | None = None) -> None:
    """Print a row a score, and in words which gaps are real.

    Args:
        found: the comparison.
        console: where to; standard output by default, 160 columns wide where that is no terminal.
    """
    out = console or Console()
    if console is None and not out.is_terminal:
        out = Console(width=PLAIN_WIDTH)
    title = f"second: {found.second.name}, first: {found.first.name}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in ("task", "metric"):
        table.add_column(name, overflow="fold")
    for name in ("n", "first", "second", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("test", no_wrap=True)
    for name in ("p", "Holm p", "detects", "equal p"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in found.rows:
        table.add_row(
            row.task,
            row.metric,
            str(row.n),
            f"{row.first:.3f}",
            f"{row.second:.3f}",
            f"{row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}]",
            row.test.partition("(")[0],
            shown_p(row.p),
            shown_p(row.p_corrected),
            f"{row.detectable:.3f}",
            shown_p(row.equivalence_p_corrected),
            row.verdict,
            style=STYLES[row.verdict],
        )
    out.print(table)
    for sentence in (*legend(found), *verdict_sentences(found)):
        out.print(sentence, highlight=False)
    for note in found.notes:
        out.print(f"Note: {note}.", highlight=False)


def shown_p(p: float) -> str:
    """`0.012`, or `<0.001`."""
    return f"<{SMALLEST_SHOWN}" if p < SMALLEST_SHOWN else f"{p:.3f}"


def legend(found: TwoCompared) -> list[str]:
    """What the columns are."""
    return [
        f"difference: second less first, with an interval of 95 %, each row by itself. Holm p: corrected over all "
        f"{len(found.rows)} rows.",
        f"detects: the true difference that a single test at {LEVEL:.0%} finds here with power {POWER:g}; a smaller "
        "one says nothing.",
        f"equal p: of two one-sided tests that the difference is within +-{found.margin:g}, corrected likewise.",
    ]


def verdict_sentences(found: TwoCompared) -> list[str]:
    """One sentence for each verdict that occurs, naming its tasks: which gaps are real, and which need not be."""
    words: dict[Verdict, str] = {
        "better": "Real: the second is better at",
        "worse": "Real: the second is worse at",
        "equivalent": f"Equal but for +-{found.margin:g}:",
        "undecided": "Undecided, which is not equal: the gap may be chance at",
    }
    sentences = [
        f"{words[verdict]} {_names(rows, found)}."
        for verdict in words
        if (rows := [row for row in found.rows if row.verdict == verdict])
    ]
    small = [row for row in found.rows if row.verdict in ("better", "worse") and row.equivalence_p_corrected < LEVEL]
    if small:
        sentences.append(f"Real, but smaller than {found.margin:g}: {_names(small, found)}.")
    return sentences


def _names(rows: Sequence[ComparedRow], found: TwoCompared) -> str:
    """Tasks, with the metric where a task has several."""
    tasks = [row.task for row in found.rows]
    return ", ".join(f"{row.task} ({row.metric})" if tasks.count(row.task) > 1 else row.task for row in rows)
