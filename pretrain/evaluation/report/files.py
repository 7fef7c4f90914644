"""Reads the JSON files that steps leave, with one sentence for a file that is not what it should be."""

import json
from pathlib import Path
from typing import Any

from conf.errors import InputError


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
