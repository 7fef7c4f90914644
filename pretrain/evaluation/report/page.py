"""The report as one HTML page: no script, nothing loaded from elsewhere, readable on a light and a dark screen.

Must not import torch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, stdev
from typing import TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from conf.command_line import shell_line
from pretrain.evaluation.calibration import Calibration
from pretrain.evaluation.report.charts import Line, interval_bars, line_chart
from pretrain.evaluation.report.facts import Facts, TrainingFact
from pretrain.evaluation.report.score_charts import (
    anchor_strip,
    forest,
    learning_curve,
    part_bars,
    reliability,
    run_strip,
)
from pretrain.evaluation.report.score_facts import BehaviourFact, Evaluation, ScoreRow
from pretrain.evaluation.report.words import duration, p_value, path_name, size, task_name

TEMPLATE = "page.html.j2"
TUNED, ZERO_SHOT = "fine-tuned", "zero-shot"
VERDICT_WORDS = {"wins": "pretraining wins", "loses": "random wins", "undecided": "undecided"}
GAP_WORDS = {"above": "above, real", "below": "below, real", "undecided": "undecided"}
KIND_WORDS = {
    "accuracy": "Accuracy: the share that is right.",
    "failure": "Failure rate: the share of tests that the model fails; 0 is best.",
    "gap": "Gap between groups: 0 is none, and real is one whose interval leaves 0 out.",
    "correlation": "Correlation: 0 is none, and real is one whose interval leaves 0 out.",
}
MODELS = ("pretrained", "random")
NAMED = 12  # tasks that a sentence names
Row = TypeVar("Row", BehaviourFact, Calibration, ScoreRow)


def render(facts: Facts) -> str:
    """The page of a run's facts, as HTML text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": duration,
        "size": size,
        "command": shell_line,
        "name": task_name,
        "path": path_name,
        "p_value": p_value,
    }
    training = facts.training
    evaluation = facts.evaluation or Evaluation()
    return environment.get_template(TEMPLATE).render(
        facts=facts,
        evaluation=evaluation,
        contents=contents(facts),
        headline=headline(facts),
        statements=statements(evaluation),
        groups=grouped(evaluation),
        label=lambda row: label(row, evaluation),
        against_random=any(row.random is not None for row in evaluation.rows),
        verdict_words=VERDICT_WORDS,
        gap_words=GAP_WORDS,
        kind_words=KIND_WORDS,
        sources=sources(evaluation),
        curves=[(curve, picture) for curve in evaluation.curves if (picture := learning_curve(curve))],
        calibration=[
            (task, {one.model: one for one in rows}) for task, rows in _by_task(evaluation.calibration).items()
        ],
        behaviour=[(task, list(_by_kind(rows))) for task, rows in _by_task(evaluation.behaviour).items()],
        signatures=signatures(evaluation),
        reach=reach(facts),
        reaches={kind: behaviour_reach(evaluation, kind) for kind in ("gap", "correlation")},
        behaviour_models=[model for model in MODELS if any(row.model == model for row in evaluation.behaviour)],
        intervals=lambda models: [models[name].interval if name in models else None for name in MODELS],
        bars=interval_bars,
        anchor_strip=anchor_strip,
        forest=forest,
        part_bars=part_bars,
        reliability=reliability,
        run_strip=run_strip,
        median=median,
        stdev=stdev,
        loss_chart=training and _loss_chart(training),
        throughput_chart=training and _throughput_chart(training),
        training_figures=training_figures(facts),
        total_seconds=sum(step.seconds for step in facts.steps),
    )


def contents(facts: Facts) -> list[tuple[str, str]]:
    """(place, name) of each section that the page has."""
    evaluation = facts.evaluation or Evaluation()
    sections = [
        ("comparison", "Two checkpoints", facts.comparison),
        ("scores", "Scores", True),
        ("published", "Published", evaluation.anchored),
        ("curves", "Learning curves", evaluation.curves),
        ("phenomena", "Phenomena", evaluation.parts),
        ("runs", "Runs", evaluation.repeated),
        ("calibration", "Calibration", evaluation.calibration),
        ("behaviour", "Behaviour", evaluation.behaviour),
        ("training", "Training", facts.chain),
        ("data", "Data", facts.chain),
        ("worst", "Worst items", facts.worst),
        ("examples", "Examples", facts.examples),
        ("steps", "Steps", facts.chain),
        ("provenance", "Provenance", True),
    ]
    return [(place, name) for place, name, there in sections if there]


def headline(facts: Facts) -> list[str]:
    """What a reader in a hurry should know, in two or three sentences; bad news included."""
    said = [f"Scores of the checkpoint {facts.checkpoint}."] if facts.checkpoint and not facts.chain else []
    training = facts.training
    if training is not None:
        validation = training.validation.values
        loss = (
            f"validation loss {validation[-1]:.3f}" if validation else f"training loss {training.loss.values[-1]:.3f}"
        )
        said.append(
            f"Trained {training.loss.steps[-1]:,.0f} steps on {training.tokens:,} tokens in "
            f"{duration(training.seconds)}, to a {loss} (nats per masked token)."
        )
    evaluation = facts.evaluation or Evaluation()
    compared = [row for row in evaluation.rows if row.verdict is not None]
    if compared:
        wins, loses = len(evaluation.tasks_that("wins")), len(evaluation.tasks_that("loses"))
        said.append(
            f"Against the same model with random weights, pretraining wins {wins} of {len(compared)} comparisons "
            f"outside the intervals, loses {loses}, and {len(compared) - wins - loses} are undecided."
        )
    anchors = [anchor.verdict for row in evaluation.anchored for anchor in row.anchors]
    if anchors:
        above, below = anchors.count("above"), anchors.count("below")
        said.append(
            f"Of {len(anchors)} published figures {above} lie below our intervals, {below} above, and "
            f"{len(anchors) - above - below} within."
        )
    failed = sum(row.pretrained.failed for row in evaluation.repeated if row.pretrained is not None)
    if failed:
        said.append(f"Failed runs of the pretrained model: {failed} (a run counts in every row that it is part of).")
    return said


def statements(evaluation: Evaluation) -> list[tuple[str, str]]:
    """(verdict, sentence) for each verdict that occurs, naming its tasks; of a task of many parts their number."""
    words = {
        "wins": "Pretraining wins, outside the intervals",
        "undecided": "Undecided (the intervals meet)",
        "loses": "Random weights win, outside the intervals",
    }
    found = []
    many = [part for part in evaluation.parts if len(part.rows) > NAMED]
    unnamed = {row.task for part in many for row in part.rows}
    for verdict, start in words.items():
        rows = [row for row in evaluation.rows if row.verdict == verdict and row.task not in unnamed]
        names = list(dict.fromkeys(map(full_name, rows)))  # once for all of its metrics
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        named = [*names[: NAMED - 1], names[NAMED - 1] + more] if more else names
        for part in many:
            count = sum(row.verdict == verdict for row in part.rows)
            if count:
                named.append(f"{count} of the {len(part.rows)} parts of {path_name(part.task)}")
        if named:
            found.append((verdict, f"{start}: {', '.join(named)}."))
    return found


def grouped(evaluation: Evaluation) -> list[tuple[str, list[ScoreRow]]]:
    """The rows of the table of scores by group in order of appearance; in each, overall rows first.

    A task as a whole belongs to the fine-tuned or to the zero-shot ones; one whose parts stand in the table to them.
    """
    areas, rows = _areas(evaluation), evaluation.main_rows
    with_parts = {
        row.group for row in rows if row.group and row.task not in areas and row.task != f"{row.group}/overall"
    }
    groups: dict[str, list[ScoreRow]] = {}
    for row in rows:
        name = row.group.replace("_", " ") if row.group in with_parts else _kind(row)
        groups.setdefault(name, []).append(row)
    return [(name, sorted(found, key=lambda row: not row.task.endswith("/overall"))) for name, found in groups.items()]


def label(row: ScoreRow, evaluation: Evaluation) -> str:
    """The name of a row in the table, where a heading says what it is part of."""
    if row.task in _areas(evaluation):
        return f"{row.group.replace('_', ' ')}: area under the curve"
    return task_name(row.task)


def full_name(row: ScoreRow) -> str:
    """`minimal_pairs/word_order` -> `word order (minimal pairs)`: two tasks may share their last part."""
    if row.task.endswith("/overall"):
        return task_name(row.task)
    return f"{task_name(row.task)} ({row.group.replace('_', ' ') or _kind(row)})"


def sources(evaluation: Evaluation) -> dict[str, int]:
    """The sources of published scores, numbered in the order of the page."""
    found = dict.fromkeys(anchor.source for row in evaluation.anchored for anchor in row.anchors)
    return {source: number for number, source in enumerate(found, start=1)}


def signatures(evaluation: Evaluation) -> list[tuple[str, str, str, str]]:
    """(task, metric, model, signature) of every score."""
    return [
        (row.task, row.metric, model, score.signature)
        for row in evaluation.rows
        for model, score in (("pretrained", row.pretrained), ("random", row.random))
        if score is not None
    ]


def reach(facts: Facts) -> float:
    """How far the pictures of a comparison reach on either side of 0: past every interval and the margin."""
    if facts.comparison is None:
        return 1.0
    ends = [abs(end) for row in facts.comparison.rows for end in (row.low, row.high)]
    return max([*ends, 1.5 * facts.comparison.margin, 0.01])


def behaviour_reach(evaluation: Evaluation, kind: str) -> float:
    """The same for behavioural tests of a kind, on one scale for all of them."""
    gaps = [row.interval for row in evaluation.behaviour if row.kind == kind]
    return max([abs(end) for gap in gaps for end in (gap.low, gap.high)] + [0.01])


def training_figures(facts: Facts) -> dict[str, str]:
    """Figures of training and of the model, by name."""
    figures: dict[str, str] = {}
    training = facts.training
    if training is not None:
        figures["steps"] = f"{training.loss.steps[-1]:,.0f}"
        figures["tokens"] = f"{training.tokens:,}"
        figures["time in training"] = duration(training.seconds)
        if training.throughput.values:
            figures["tokens per second (median)"] = f"{median(training.throughput.values):,.0f}"
        figures["last training loss"] = f"{training.loss.values[-1]:.3f}"
        if training.validation.values:
            figures["validation loss, first"] = f"{training.validation.values[0]:.3f}"
            figures["validation loss, last"] = f"{training.validation.values[-1]:.3f}"
    for name in ("num_layers", "hidden_size", "num_heads", "intermediate_size", "norm", "positions", "vocab_size"):
        if facts.model.get(name) is not None:
            figures[name.replace("num_", "").replace("_", " ")] = str(facts.model[name])
    return figures


def _areas(evaluation: Evaluation) -> set[str]:
    return {curve.area.task for curve in evaluation.curves if curve.area is not None}


def _kind(row: ScoreRow) -> str:
    return TUNED if row.tuned else ZERO_SHOT


def _by_task(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.task, []).append(row)
    return found


def _by_kind(rows: Sequence[BehaviourFact]) -> Iterator[tuple[str, list[tuple[str, dict[str, BehaviourFact]]]]]:
    """(kind, [(test, {model: row})]) in order of appearance, the pretrained model first."""
    for kind in dict.fromkeys(row.kind for row in rows):
        tests: dict[str, dict[str, BehaviourFact]] = {}
        for row in sorted(rows, key=lambda row: MODELS.index(row.model)):
            if row.kind == kind:
                tests.setdefault(row.test, {})[row.model] = row
        yield kind, list(tests.items())


def _loss_chart(training: TrainingFact) -> str:
    lines = [
        Line("training", "training", training.loss),
        Line("validation", "validation", training.validation, marked=True),
    ]
    return line_chart(lines, "loss, nats per masked token")


def _throughput_chart(training: TrainingFact) -> str:
    return line_chart(
        [Line("tokens/s", "training", training.throughput)], "tokens per second", from_zero=True, height=170
    )
