"""What an evaluation says: scores, comparisons and notes, and the one file they are kept in. Must not import torch."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from conf.files import atomic_write_text
from pretrain.evaluation.behaviour import Behaviour
from pretrain.evaluation.calibration import Calibration
from pretrain.evaluation.statistics import Estimate, verdict

ModelName = Literal["pretrained", "random"]
FORMAT = 1


@dataclass(frozen=True)
class Score:
    """One number with all that is needed to say what it means.

    `interval` is at 95 %; `n` counts items; `seeds` are those of fine-tuning for a pretrained model, of the
    initialisation for a random one; `signature` names versions and hashes: equal signatures, comparable numbers. `runs`
    are the values of single runs, in the order of `seeds`, where there are several to one score; `failed` counts those
    that are no better than knowing nothing: they stay in the value.
    """

    task: str
    metric: str
    model: ModelName
    value: float
    interval: tuple[float, float]
    n: int
    seeds: tuple[int, ...]
    signature: str
    runs: tuple[float, ...] = ()
    failed: int = 0


@dataclass(frozen=True)
class Runs:
    """The values of the runs behind a score, and how many of them failed."""

    values: tuple[float, ...] = ()
    failed: int = 0


@dataclass(frozen=True)
class Comparison:
    """Pretrained against random weights on one task; `verdict` is "wins", "loses" or "undecided" (intervals meet)."""

    task: str
    metric: str
    difference: float
    verdict: str


@dataclass(frozen=True)
class Published:
    """A published score of the same task and metric as one of ours: what a reader wants to see beside it.

    `split` is what it was measured on, `scored` what ours is of. `system` begins with "human" for the human level;
    `tuned` says that the system learnt from the task's training rows.
    """

    task: str
    metric: str
    system: str
    value: float
    split: str
    source: str
    tuned: bool
    scored: str


@dataclass(frozen=True)
class CurveSizes:
    """Which scores make a learning curve: training items by the name of the score, rising, and the area's name."""

    task: str
    sizes: dict[str, int]
    area: str


@dataclass
class Outcome:
    """The scores of a task, what compares them, remarks, one row per item, and what more a report shows."""

    scores: list[Score] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    calibration: list[Calibration] = field(default_factory=list)
    anchors: list[Published] = field(default_factory=list)
    curves: list[CurveSizes] = field(default_factory=list)
    behaviour: list[Behaviour] = field(default_factory=list)

    def add(
        self,
        task: str,
        metric: str,
        n: int,
        estimates: dict[ModelName, tuple[Estimate, tuple[int, ...], str]],
        runs: Mapping[ModelName, Runs] | None = None,
    ) -> None:
        """Add a task's scores, by model (estimate, seeds, signature), and their comparison if both are there.

        `runs` are what a score is the mean of, where that is several runs.
        """
        for model, (estimate, seeds, signature) in estimates.items():
            interval = (estimate.low, estimate.high)
            behind = (runs or {}).get(model, Runs())
            self.scores.append(
                Score(task, metric, model, estimate.value, interval, n, seeds, signature, behind.values, behind.failed)
            )
        if len(estimates) == 2:
            pretrained, random = estimates["pretrained"][0], estimates["random"][0]
            difference = pretrained.value - random.value
            self.comparisons.append(Comparison(task, metric, difference, verdict(pretrained, random)))


def signature(**parts: object) -> str:
    """`task=minimal_pairs.1|items=3c45f021|...`: what must be equal for two scores to be comparable."""
    return "|".join(f"{name}={value}" for name, value in parts.items())


def short(digest: str) -> str:
    """The first 12 hex digits of a hash, without the name of the hash function."""
    return digest.rpartition(":")[2][:12]


def write_scores(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write `scores.json`: the format, and a list of each kind of an outcome's parts but the items."""
    record = {
        "format": FORMAT,
        "scores": [asdict(score) for outcome in outcomes for score in outcome.scores],
        "comparisons": [asdict(row) for outcome in outcomes for row in outcome.comparisons],
        "calibration": [asdict(one) for outcome in outcomes for one in outcome.calibration],
        "behaviour": [asdict(row) for outcome in outcomes for row in outcome.behaviour],
        "notes": [note for outcome in outcomes for note in outcome.notes],
        "anchors": [asdict(row) for outcome in outcomes for row in outcome.anchors],
        "curves": [asdict(curve) for outcome in outcomes for curve in outcome.curves],
    }
    atomic_write_text(path, json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_items(path: Path, outcome: Outcome) -> None:
    """Write one JSON line per item."""
    lines = (json.dumps(item, ensure_ascii=False) + "\n" for item in outcome.items)
    atomic_write_text(path, "".join(lines))
