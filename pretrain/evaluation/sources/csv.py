"""Quoted csv: cells in double quotes may hold commas, quotes (doubled) and line ends."""

import csv
from collections.abc import Iterator, Sequence

from conf.errors import InputError
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.rows import Row, Split


def rows(file: DataFile, split: Split, columns: Sequence[str] | None = None, delimiter: str = ",") -> Iterator[Row]:
    """The rows of a file; `columns` names those of a file without a header row.

    Raises:
        InputError: a row with another number of cells than the header, a quote that does not end, or an empty file.
    """
    reader = csv.reader((line for _, line in file.lines(keep_ends=True)), delimiter=delimiter, strict=True)
    number = 0
    start = 1
    try:
        for cells in reader:
            where, start = f"'{file.name}', line {start}", reader.line_num + 1
            if not cells:
                continue
            if columns is None:
                columns = cells
                if len(set(columns)) < len(columns):
                    raise InputError(f"{where}, must name each column once, but is {cells!r}")
                continue
            if len(cells) != len(columns):
                raise InputError(
                    f"{where}, must have {len(columns)} cells ({', '.join(columns)}), but has {len(cells)}: get the "
                    "file again or repair the line"
                )
            yield Row(dict(zip(columns, cells, strict=True)), where, number, split)
            number += 1
    except csv.Error as error:
        raise InputError(f"'{file.name}', line {start}, is not quoted csv: {error}") from error
    if columns is None:
        raise InputError(f"'{file.name}' must have a header row, but is empty")
