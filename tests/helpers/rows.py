"""Rows for tests, and parts of them."""

from pipeline.shards import Rows


def part_of(rows: Rows, part) -> Rows:
    """Some of the rows, with the columns that these have."""
    return Rows(*(None if column is None else column[part] for column in vars(rows).values()))
