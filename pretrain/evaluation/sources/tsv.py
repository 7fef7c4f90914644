"""Tab-separated rows WITHOUT quoting, as GLUE has them: a quote is a character like any other.

A csv reader would take a quote at the start of a cell for a quoted cell and swallow tabs and lines up to the next one.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from conf.errors import InputError
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split


def rows(
    file: DataFile,
    split: Split,
    columns: Sequence[str] | None = None,
    short: Literal["refuse", "leave_out"] = "refuse",
) -> Iterator[Row]:
    """The rows of a file.

    Args:
        file: the file.
        split: its split.
        columns: names of the columns of a file without a header row; None reads them from its first line.
        short: what to do with a row of too few cells. "leave_out" counts it in the file's notes; it is for sets whose
            published file has such rows.

    Raises:
        InputError: a row with another number of cells than the header, or a file without a line.
    """
    left_out: list[int] = []
    number = 0
    for line_number, line in file.lines():
        cells = line.split("\t")
        if columns is None:
            columns = cells
            if len(set(columns)) < len(columns):
                raise InputError(f"'{file.name}', line 1, must name each column once, but is {line!r}")
            continue
        if not line:
            continue
        if len(cells) < len(columns) and short == "leave_out":
            left_out.append(line_number)
            continue
        if len(cells) != len(columns):
            raise InputError(
                f"'{file.name}', line {line_number}, must have {len(columns)} tab-separated cells "
                f"({', '.join(columns)}), but has {len(cells)}: get the file again or repair the line"
            )
        yield Row(dict(zip(columns, cells, strict=True)), f"'{file.name}', line {line_number}", number, split)
        number += 1
    if columns is None:
        raise InputError(f"'{file.name}' must have a header row, but is empty")
    if left_out:
        shown = ", ".join(map(str, left_out[:5])) + (" ..." if len(left_out) > 5 else "")
        file.notes.append(f"'{file.name}': {len(left_out)} rows with too few cells are left out (lines {shown})")
