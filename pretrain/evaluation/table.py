"""The table of scores for a terminal or a log file. Must not import torch."""

import statistics
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from pretrain.evaluation.behaviour import Behaviour
from pretrain.evaluation.metrics import ACCURACY, PAIR_ACCURACY
from pretrain.evaluation.power import LEVEL, POWER, planned_difference
from pretrain.evaluation.scores import Comparison, Outcome, Score

PLAIN_WIDTH = 130
HEADINGS = {"pretrained": "pretrained", "random": "random weights"}
KINDS = {"accuracy": "accuracy", "failure": "failure rate", "gap": "gap", "correlation": "correlation"}
STYLES = {"wins": "green", "loses": "red", "undecided": ""}
WORDS = {
    "wins": "Pretraining wins, outside the intervals",
    "loses": "Random weights win, outside the intervals",
    "undecided": "Undecided (the intervals meet)",
}


def print_scores(outcomes: Sequence[Outcome], source: str, console: Console | None = None) -> None:
    """Print a row per task, and in words which tasks are won, lost and undecided.

    Args:
        outcomes: of the tasks.
        source: what was evaluated, in words.
        console: where to; standard output by default, 130 columns wide where that is no terminal.
    """
    out = console or Console()
    if console is None and not out.is_terminal:
        out = Console(width=PLAIN_WIDTH)
    scores = [score for outcome in outcomes for score in outcome.scores]
    comparisons = {(row.task, row.metric): row for outcome in outcomes for row in outcome.comparisons}
    table = Table(
        title=f"Scores of {source}", title_justify="left", box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False
    )
    table.add_column("task", overflow="fold")
    table.add_column("metric")
    table.add_column("n", justify="right")
    table.add_column("pretrained", justify="right", no_wrap=True)
    table.add_column("gap", justify="right", no_wrap=True)
    if comparisons:
        table.add_column("random weights", justify="right", no_wrap=True)
        table.add_column("pretraining")
    rows: dict[tuple[str, str], dict[str, Score]] = {}
    for score in scores:
        rows.setdefault((score.task, score.metric), {})[score.model] = score
    for (task, metric), models in rows.items():
        pretrained = models["pretrained"]
        cells = [task, metric, str(pretrained.n), shown_with_runs(pretrained), least_gap(pretrained)]
        comparison = comparisons.get((task, metric))
        if comparison is not None:
            cells += [shown_with_runs(models["random"]), comparison.verdict]
        table.add_row(*cells, style=STYLES[comparison.verdict] if comparison else "")
    out.print(table)
    if comparisons:
        out.print("With 95 % intervals, each row by itself.", highlight=False)
    if any(least_gap(score) for score in scores):
        out.print(
            "gap: how far another model must be ahead to be told apart on so many single items (McNemar's test at "
            f"{LEVEL:.0%}, power {POWER:g}), if the two err independently; a smaller difference says nothing.",
            highlight=False,
        )
    for sentence in verdict_sentences(list(comparisons.values())):
        out.print(sentence, highlight=False)
    print_behaviour(outcomes, out)
    for outcome in outcomes:
        for note in outcome.notes:
            out.print(f"Note: {note}.", highlight=False)


def print_behaviour(outcomes: Sequence[Outcome], out: Console) -> None:
    """Print the behavioural reports, a table for each task: slices, gaps, failure rates, with 95 % intervals."""
    rows = [row for outcome in outcomes for row in outcome.behaviour]
    for task in dict.fromkeys(row.task for row in rows):
        mine = [row for row in rows if row.task == task]
        models = list(dict.fromkeys(row.model for row in mine))
        table = Table(title=f"Behaviour: {task}", title_justify="left")
        table.add_column("test", overflow="fold")
        table.add_column("what")
        table.add_column("n", justify="right")
        for model in models:
            table.add_column(HEADINGS[model], justify="right", no_wrap=True)
        by_test: dict[tuple[str, str], dict[str, Behaviour]] = {}
        for row in mine:
            by_test.setdefault((row.test, row.kind), {})[row.model] = row
        for (test, kind), found in by_test.items():
            first = next(iter(found.values()))
            cells = [shown(found[model]) if model in found else "" for model in models]
            table.add_row(test, KINDS[kind], str(first.n), *cells)
        out.print(table)


def shown(score: Score | Behaviour) -> str:
    """`0.853 [0.801, 0.899]`."""
    return f"{score.value:.3f} [{score.interval[0]:.3f}, {score.interval[1]:.3f}]"


def shown_with_runs(score: Score) -> str:
    """`shown`, and below it, of several runs, `median 0.850, sd 0.012`."""
    if len(score.runs) < 2:
        return shown(score)
    return f"{shown(score)}\nmedian {statistics.median(score.runs):.3f}, sd {statistics.stdev(score.runs):.3f}"


def least_gap(score: Score) -> str:
    """`0.062` of an accuracy; nothing of other metrics, or where no gap could be seen."""
    if score.metric not in (ACCURACY, PAIR_ACCURACY):
        return ""
    gap = planned_difference(score.n, score.value)
    return "" if gap is None else f"{gap:.3f}"


def verdict_sentences(comparisons: Sequence[Comparison]) -> list[str]:
    """One sentence per verdict that occurs, naming its tasks."""
    sentences = []
    for verdict, words in WORDS.items():
        names = [row.task for row in comparisons if row.verdict == verdict]
        if names:
            sentences.append(f"{words}: {', '.join(names)}.")
    return sentences
