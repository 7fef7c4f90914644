"""Reads the JSON files that steps leave, with one sentence for a file that is not what it should be."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from conf.errors import InputError

NAMING = ("task", "metric", "test", "model", "system")  # what tells a row from the others of its list


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file.

    Raises:
        InputError: it cannot be read, is no JSON, or holds no object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"'{path}' must hold one JSON object, but holds a {type(found).__name__}")
    return found


def require_finite(path: Path, record: Mapping[str, Any], again: str) -> None:
    """Refuse a file of rows (of scores, of a comparison) with a number that is none: JSON as Python reads it has them.

    Args:
        path: the file.
        record: what it holds.
        again: the command that writes it anew.

    Raises:
        InputError: naming the file, the row and the field.
    """
    for place, number in _not_finite(record):
        kind, *rest = place
        row = record[kind][rest[0]] if isinstance(record[kind], list) else None
        names = [str(row[part]) for part in NAMING if part in row] if isinstance(row, dict) else []
        whose = f" of {', '.join(names)} in '{kind}'" if names else ""
        field = ".".join(map(str, rest[1:] if names else place))
        raise InputError(f"'{path}': '{field}'{whose} must be a finite number, but is {number}: run {again} again")


def _not_finite(value: Any, *place: Any) -> Iterator[tuple[tuple[Any, ...], float]]:
    """The numbers of a JSON value that are NaN or infinite, each with its place: ("scores", 0, "value")."""
    if isinstance(value, float) and not math.isfinite(value):
        yield place, value
    elif isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _not_finite(part, *place, key)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, one a line; a last line that is not whole is left out, for a run may be writing it.

    Raises:
        InputError: another line is no JSON.
    """
    # Not splitlines: a text may hold U+2028 and its like, which end no line of a file.
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    found = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            found.append(json.loads(line))
        except ValueError as error:
            if number == len(lines):
                break
            raise InputError(f"line {number} of '{path}' cannot be read as JSON: {error}") from error
    return found
