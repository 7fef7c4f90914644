"""Reads back what `python -m pretrain.compare` wrote: two checkpoints side by side. Must not import torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from conf.errors import InputError
from pretrain.evaluation.compared import ComparedRow, Side, TwoCompared, Verdict
from pretrain.evaluation.report.files import read_json, require_finite

FILE = "comparison.json"
AGAIN = "python -m pretrain.compare"
SIDES = ("first", "second")
TEXTS = ("task", "metric", "test")
COUNTS = ("n", "groups")
NUMBERS = (
    *("first", "second", "difference", "low", "high", "p", "detectable", "equivalence_p"),
    *("p_corrected", "equivalence_p_corrected"),
)


def read_comparison(folder: Path) -> TwoCompared:
    """What `comparison.json` in a folder says.

    Raises:
        InputError: there is no such file, it is not what it should be, or a number in it is NaN or infinite.
    """
    path = folder / FILE
    if not path.is_file():
        raise InputError(
            f"option 'comparison' must be the output folder of python -m pretrain.compare, but there is no '{path}'"
        )
    record = read_json(path)
    require_finite(path, record, AGAIN)
    try:
        first, second = (Side(**{name: str(text) for name, text in record[side].items()}) for side in SIDES)
        rows = tuple(_row(row) for row in record["rows"])
        return TwoCompared(first, second, float(record["margin"]), rows, tuple(map(str, record["notes"])))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"'{path}' is no comparison (field {error}): run {AGAIN} again") from error


def _row(row: Mapping[str, Any]) -> ComparedRow:
    verdict: Verdict = row["verdict"]
    if verdict not in get_args(Verdict):
        raise ValueError(f"'verdict' of {row['task']}: '{verdict}'")
    first, second = map(int, row["runs"])
    values: dict[str, Any] = {name: str(row[name]) for name in TEXTS}
    values |= {name: int(row[name]) for name in COUNTS}
    values |= {name: float(row[name]) for name in NUMBERS}
    return ComparedRow(**values, runs=(first, second), verdict=verdict)
