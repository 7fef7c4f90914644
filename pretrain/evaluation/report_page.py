"""The report as one HTML page: no script, no address on the web, readable on a light and a dark screen.

Must not import torch.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from conf.command_line import shell_line
from pretrain.evaluation.report import Facts, ScoreRow, TrainingFact
from pretrain.evaluation.report_charts import Line, interval_bars, line_chart

TEMPLATE = "report.html.j2"
# Tasks whose names have no group.
FINE_TUNED = "fine-tuned"
VERDICT_WORDS = {"wins": "pretraining wins", "loses": "random wins", "undecided": "undecided"}


def render(facts: Facts) -> str:
    """The page of a run's facts, as HTML text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": duration, "size": size, "command": shell_line, "name": task_name}
    training = facts.training
    return environment.get_template(TEMPLATE).render(
        facts=facts,
        headline=headline(facts),
        statements=statements(facts),
        groups=grouped(facts.scores),
        verdict_words=VERDICT_WORDS,
        bars=interval_bars,
        loss_chart=training and _loss_chart(training),
        throughput_chart=training and _throughput_chart(training),
        training_figures=training_figures(facts),
        total_seconds=sum(step.seconds for step in facts.steps),
    )


def headline(facts: Facts) -> list[str]:
    """What a reader in a hurry should know, in two or three sentences; bad news included."""
    said = []
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
    compared = [row for row in facts.scores if row.verdict is not None]
    if compared:
        wins, loses = len(facts.tasks_that("wins")), len(facts.tasks_that("loses"))
        said.append(
            f"Against the same model with random weights, pretraining wins {wins} of {len(compared)} comparisons "
            f"outside the intervals, loses {loses}, and {len(compared) - wins - loses} are undecided."
        )
    return said


def statements(facts: Facts) -> list[tuple[str, str]]:
    """(verdict, sentence) for each verdict that occurs, naming its tasks."""
    words = {
        "wins": "Pretraining wins, outside the intervals",
        "undecided": "Undecided (the intervals meet)",
        "loses": "Random weights win, outside the intervals",
    }
    return [
        (verdict, f"{start}: {', '.join(full_name(name) for name in names)}.")
        for verdict, start in words.items()
        if (names := facts.tasks_that(verdict))
    ]


def grouped(rows: Sequence[ScoreRow]) -> list[tuple[str, list[ScoreRow]]]:
    """Rows by group in order of appearance; in each, an overall row first."""
    groups: dict[str, list[ScoreRow]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    titled = {name.replace("_", " ") if name else FINE_TUNED: found for name, found in groups.items()}
    return [(name, sorted(found, key=lambda row: not row.task.endswith("/overall"))) for name, found in titled.items()]


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


def task_name(task: str) -> str:
    """`minimal_pairs/subject_verb` -> `subject verb`."""
    return (
        task.rsplit("/", 1)[-1].replace("_", " ")
        if not task.endswith("/overall")
        else (f"{task.rsplit('/', 1)[0].replace('_', ' ')} overall")
    )


def full_name(task: str) -> str:
    """`minimal_pairs/word_order` -> `word order (minimal pairs)`: two tasks may share their last part."""
    if task.endswith("/overall"):
        return task_name(task)
    return f"{task_name(task)} ({task.split('/')[0].replace('_', ' ') if '/' in task else FINE_TUNED})"


def duration(seconds: float) -> str:
    """Seconds in words: `4.2 s`, `3 min 7 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def size(number: int) -> str:
    """Bytes in words: `312 B`, `4.1 MB`."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


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
