"""Rows as lines of text for a terminal. Must not import anything of the project."""

from collections.abc import Sequence


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows below a head, one column under another; a column that says nothing ("" or "-") in any row is left out."""
    lines = [head, *rows]
    shown = [column for column in range(len(head)) if any(row[column] not in ("", "-") for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  " + "  ".join(line[column].ljust(widths[column]) for column in shown).rstrip() for line in lines
    )
