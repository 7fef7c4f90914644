"""Two checkpoints side by side: what `comparison.json` of `python -m pretrain.compare` says. Must not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.errors import InputError
from pretrain.evaluation.report.files import read_json

FILE = "comparison.json"


@dataclass(frozen=True)
class ComparedRow:
    """A task under two checkpoints: `difference` is the second less the first, with its 95 % interval.

    `detectable` is the smallest difference that a set of `n` items shows with power 0.8; `corrected` is the p-value
    after the correction for all rows, `equivalence` that of the test for a difference within the margin. None is what a
    test could not say.
    """

    task: str
    metric: str
    n: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    test: str
    p: float | None
    corrected: float | None
    detectable: float | None
    equivalence: float | None
    verdict: str


@dataclass(frozen=True)
class ComparisonFact:
    """Two evaluations by name, the margin of equivalence, a row for each task, and what a reader must know of them."""

    first: str
    second: str
    margin: float
    rows: tuple[ComparedRow, ...]
    notes: tuple[str, ...] = ()


def read_comparison(folder: Path) -> ComparisonFact:
    """What `comparison.json` in a folder says.

    Raises:
        InputError: there is no such file, or it is not what it should be.
    """
    path = folder / FILE
    if not path.is_file():
        raise InputError(
            f"option 'comparison' must be the output folder of python -m pretrain.compare, but there is no '{path}'"
        )
    record = read_json(path)
    try:
        first, second = (str(record[side]["name"]) for side in ("first", "second"))
        rows = tuple(_row(row) for row in record["rows"])
        notes = tuple(str(note) for note in record.get("notes", ()))
        return ComparisonFact(first, second, float(record["margin"]), rows, notes)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"'{path}' is no comparison (field {error}): run python -m pretrain.compare again") from error


def _row(row: Mapping[str, Any]) -> ComparedRow:
    numbers = {name: float(row[name]) for name in ("first", "second", "difference", "low", "high")}
    return ComparedRow(
        task=str(row["task"]),
        metric=str(row["metric"]),
        n=int(row["n"]),
        test=str(row["test"]),
        p=_number(row["p"]),
        corrected=_number(row["p_corrected"]),
        detectable=_number(row["detectable"]),
        equivalence=_number(row.get("equivalence_p_corrected", row["equivalence_p"])),
        verdict=str(row["verdict"]),
        **numbers,
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
