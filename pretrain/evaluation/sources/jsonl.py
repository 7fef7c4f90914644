"""One JSON object a line; empty lines do not count."""

import json
from collections.abc import Iterator
from typing import Any

from conf.errors import InputError
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split


def parsed(line: str) -> Any:
    """The value of a line.

    Raises:
        ValueError: it is not JSON, or a text in it holds half a character (an emoji cut in two, `\\ud83d` alone), which
            no tokenizer takes and no file can hold.
    """
    value = json.loads(line)
    if "\\ud" in line.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise ValueError(f"a text holds half a character, {half}, whose other half was cut off") from error
    return value


def rows(file: DataFile, split: Split) -> Iterator[Row]:
    """The rows of a file.

    Raises:
        InputError: a line that is not a JSON object.
    """
    number = 0
    for line_number, line in file.lines():
        if not line.strip():
            continue
        where = f"'{file.name}', line {line_number}"
        try:
            values = parsed(line)
        except ValueError as error:
            raise InputError(f"{where}, is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise InputError(f"{where}, must be a JSON object, but is a {type(values).__name__}")
        yield Row(values, where, number, split)
        number += 1


def rows_with_labels(
    file: DataFile, labels: DataFile, split: Split, field: str = "label", among: tuple[str, ...] = ()
) -> Iterator[Row]:
    """Rows whose labels are the lines of a second file; each becomes the row's `field`.

    Raises:
        InputError: as `rows`; the files have different numbers of rows; or a line is not among the labels `among`.
    """
    names = [(number, line.strip()) for number, line in labels.lines() if line.strip()]
    for number, name in names:
        if among and name not in among:
            raise InputError(f"'{labels.name}', line {number}, must be one of {', '.join(among)}, but is {name!r}")
    count = 0
    for row in rows(file, split):
        count += 1
        if count <= len(names):
            yield Row({**row.values, field: names[count - 1][1]}, row.where, row.number, split)
    if count != len(names):
        raise InputError(
            f"'{labels.name}' must have a label for each of the {count} rows of '{file.name}', but has {len(names)}: "
            "the files belong to different versions"
        )
