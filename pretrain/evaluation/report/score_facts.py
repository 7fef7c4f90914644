"""What `scores.json` says, as a report shows it: rows, anchors, curves, parts, runs, calibration, behaviour.

Must not import torch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conf.errors import InputError
from pretrain.evaluation.calibration import Bin, Calibration
from pretrain.evaluation.report.files import read_json, require_finite

FEW_PARTS = 3  # as many parts of a task are rows of the table of scores; of more there is a picture


@dataclass(frozen=True)
class Interval:
    """A score with its 95 % interval; `seeds` counts, `runs` are single runs' values, of which `failed` failed."""

    value: float
    low: float
    high: float
    seeds: int
    signature: str
    runs: tuple[float, ...] = ()
    failed: int = 0

    def against(self, value: float) -> str:
        """Where the interval lies: "above" or "below" a value that it excludes, else "undecided"."""
        if self.low > value:
            return "above"
        return "below" if self.high < value else "undecided"


@dataclass(frozen=True)
class AnchorFact:
    """A published score beside ours: `gap` is ours less it, `verdict` whether our interval excludes it.

    `split` is what it was measured on, `scored` what ours is of.
    """

    system: str
    value: float
    split: str
    scored: str
    source: str
    tuned: bool
    gap: float
    verdict: str

    @property
    def human(self) -> bool:
        """Whether it is a human level."""
        return self.system.startswith("human")


@dataclass(frozen=True)
class ScoreRow:
    """One task: the pretrained model's score, that of random weights if it was measured, and which wins."""

    task: str
    metric: str
    n: int
    pretrained: Interval | None

    random: Interval | None
    verdict: str | None
    anchors: tuple[AnchorFact, ...] = ()

    @property
    def group(self) -> str:
        """What stands before the slash of the task's name."""
        return self.task.partition("/")[0] if "/" in self.task else ""

    @property
    def tuned(self) -> bool:
        """Whether the model was trained on the task: a score of its own without seeds is zero-shot."""
        return self.pretrained is not None and self.pretrained.seeds > 0


@dataclass(frozen=True)
class CurvePoint:
    """The score at one training size."""

    size: int
    row: ScoreRow


@dataclass(frozen=True)
class LearningCurve:
    """A metric over training sizes, and the area under it."""

    task: str
    metric: str
    points: tuple[CurvePoint, ...]
    area: ScoreRow | None

    @property
    def named(self) -> list[tuple[str, ScoreRow]]:
        """Each size in words with its row, and the area."""
        rows = [(f"{point.size:,}", point.row) for point in self.points]
        return rows if self.area is None else [*rows, ("area", self.area)]


@dataclass(frozen=True)
class Parts:
    """The scores of a task's parts: its phenomena, or the values of one fact. `chance` is None where it is unknown."""

    task: str
    fact: str
    rows: tuple[ScoreRow, ...]
    chance: float | None

    @property
    def named(self) -> list[tuple[str, ScoreRow]]:
        """Each part's name with its row."""
        return [(self.name(row), row) for row in self.rows]

    def name(self, row: ScoreRow) -> str:
        """A part's own name."""
        return row.task.removeprefix(f"{self.task}/").removeprefix(f"{self.fact}=").replace("_", " ")


@dataclass(frozen=True)
class BehaviourFact:
    """One behavioural test of one model; of a failure rate low is good, of a gap 0 is none."""

    task: str
    test: str
    kind: str
    model: str
    interval: Interval
    n: int
    note: str


@dataclass
class Evaluation:
    """All that `scores.json` says."""

    rows: list[ScoreRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    curves: list[LearningCurve] = field(default_factory=list)
    parts: list[Parts] = field(default_factory=list)
    calibration: list[Calibration] = field(default_factory=list)
    behaviour: list[BehaviourFact] = field(default_factory=list)

    def tasks_that(self, verdict: str) -> list[str]:
        """Names of the tasks with this verdict."""
        return [row.task for row in self.rows if row.verdict == verdict]

    @property
    def main_rows(self) -> list[ScoreRow]:
        """Rows for the table of scores: those that no picture of parts and no curve shows."""
        elsewhere = {row.task for part in self.parts for row in part.rows}
        elsewhere |= {point.row.task for curve in self.curves for point in curve.points}
        return [row for row in self.rows if row.task not in elsewhere]

    @property
    def anchored(self) -> list[ScoreRow]:
        """Rows beside which something was published."""
        return [row for row in self.rows if row.anchors]

    @property
    def repeated(self) -> list[ScoreRow]:
        """Rows whose score is made of several runs."""
        return [row for row in self.rows if row.pretrained is not None and len(row.pretrained.runs) > 1]


def read_scores(path: Path) -> Evaluation:
    """What `scores.json` says.

    Raises:
        InputError: the file is not what it should be, or a number in it is NaN or infinite.
    """
    record = read_json(path)
    require_finite(path, record, "python -m pretrain.evaluate")
    try:
        found = Evaluation(rows=list(_rows(record)), notes=[str(note) for note in record.get("notes", [])])
        found.curves = list(_curves(record, found.rows))
        found.parts = list(_parts(found))
        found.calibration = [_calibration(row) for row in record.get("calibration", [])]
        found.behaviour = [_behaviour(row) for row in record.get("behaviour", [])]
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"'{path}' is no file of scores (field {error}): run python -m pretrain.evaluate again"
        ) from error
    return found


def compare(pretrained: Interval | None, random: Interval | None) -> str | None:
    """What two scores say: "wins" or "loses" if the intervals do not meet, else "undecided"; None if one is missing."""
    if pretrained is None or random is None:
        return None
    if pretrained.low > random.high:
        return "wins"
    return "loses" if pretrained.high < random.low else "undecided"


def _rows(record: Mapping[str, Any]) -> Iterator[ScoreRow]:
    tasks: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for score in record["scores"]:
        tasks.setdefault((score["task"], score["metric"]), {})[score["model"]] = score
    verdicts = {(row["task"], row["metric"]): row["verdict"] for row in record.get("comparisons", [])}
    for (task, metric), models in tasks.items():
        pretrained, random = _interval(models.get("pretrained")), _interval(models.get("random"))
        anchors = [row for row in record.get("anchors", []) if (row["task"], row["metric"]) == (task, metric)]
        yield ScoreRow(
            task=task,
            metric=metric,
            n=max(int(score["n"]) for score in models.values()),
            pretrained=pretrained,
            random=random,
            verdict=verdicts.get((task, metric), compare(pretrained, random)),
            anchors=tuple(_anchor(row, pretrained) for row in anchors if pretrained is not None),
        )


def _anchor(row: Mapping[str, Any], ours: Interval) -> AnchorFact:
    value = float(row["value"])
    return AnchorFact(
        system=str(row["system"]),
        value=value,
        split=str(row["split"]),
        scored=str(row["scored"]),
        source=str(row["source"]),
        tuned=bool(row["tuned"]),
        gap=ours.value - value,
        verdict=ours.against(value),
    )


def _curves(record: Mapping[str, Any], rows: list[ScoreRow]) -> Iterator[LearningCurve]:
    for curve in record.get("curves", []):
        of_curve = [row for row in rows if row.task in curve["sizes"] or row.task == curve["area"]]
        for metric in dict.fromkeys(row.metric for row in of_curve):
            by_task = {row.task: row for row in of_curve if row.metric == metric}
            points = tuple(
                CurvePoint(int(size), by_task[name]) for name, size in curve["sizes"].items() if name in by_task
            )
            yield LearningCurve(str(curve["task"]), metric, points, by_task.get(curve["area"]))


def _parts(found: Evaluation) -> Iterator[Parts]:
    on_curves = {point.row.task for curve in found.curves for point in curve.points}
    on_curves |= {curve.area.task for curve in found.curves if curve.area is not None}
    groups: dict[tuple[str, str, str], list[ScoreRow]] = {}
    for row in found.rows:
        if "/" not in row.task or row.task.endswith("/overall") or row.task in on_curves or row.pretrained is None:
            continue
        part = row.task.partition("/")[2]
        fact = part.partition("=")[0] if "=" in part else ""
        groups.setdefault((row.group, fact, row.metric), []).append(row)
    for (task, fact, metric), rows in groups.items():
        if len(rows) < FEW_PARTS:
            continue
        rows.sort(key=lambda row: -(row.pretrained.value if row.pretrained else 0.0))
        yield Parts(task, fact, tuple(rows), 0.5 if metric == "pair_accuracy" else None)


def _calibration(row: Mapping[str, Any]) -> Calibration:
    return Calibration(
        task=str(row["task"]),
        model=str(row["model"]),
        runs=int(row["runs"]),
        n=int(row["n"]),
        ece=float(row["ece"]),
        brier=float(row["brier"]),
        bins=tuple(Bin(float(one["confidence"]), float(one["accuracy"]), int(one["count"])) for one in row["bins"]),
    )


def _behaviour(row: Mapping[str, Any]) -> BehaviourFact:
    low, high = row["interval"]
    interval = Interval(float(row["value"]), float(low), float(high), 0, "")
    return BehaviourFact(
        task=str(row["task"]),
        test=str(row["test"]),
        kind=str(row["kind"]),
        model=str(row["model"]),
        interval=interval,
        n=int(row["n"]),
        note=str(row["note"] or ""),
    )


def _interval(score: Mapping[str, Any] | None) -> Interval | None:
    if score is None:
        return None
    low, high = score["interval"]
    return Interval(
        value=float(score["value"]),
        low=float(low),
        high=float(high),
        seeds=len(score["seeds"]),
        signature=str(score["signature"]),
        runs=tuple(float(value) for value in score.get("runs", ())),
        failed=int(score.get("failed", 0)),
    )
