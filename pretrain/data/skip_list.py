"""The skip list: rows that a run must not learn from, named by hand after a look at `python -m pretrain.rows`.

A file of lines {"data": <shard directory or its content hash>, "row": <number of a training row>}, with
"content_hash" too if the directory may move; other keys are left alone, so that the lines which the command prints can
be used as they are. A skipped row keeps its place in its batch
with weight 0: nothing else moves. Must not import torch or read a shard.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conf.errors import InputError


@dataclass(frozen=True)
class SkippedRow:
    """One line of the file `path`."""

    path: Path
    line: int
    data: str
    row: int
    content_hash: str | None = None

    def names(self, directory: Path, content_hash: str) -> bool:
        """Whether the line means this shard directory: by what `data` says, or, where that path is gone (the shards
        have moved), by the hash that stands beside it."""
        if self.data == content_hash or Path(self.data).resolve() == directory.resolve():
            return True
        return self.content_hash == content_hash and not Path(self.data).exists()

    def refuse(self, expected: str, found: str) -> InputError:
        """Return the error that says what is wrong with the line."""
        return InputError(f"'{self.path}', line {self.line}: {expected}, but {found}.")


def read_skip_list(path: str | Path) -> list[SkippedRow]:
    """Read the file; blank lines are passed over.

    Raises InputError if it cannot be read or a line is not of that form, naming file and line.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"skip_rows must be a file with a line of JSON for each row to skip, but '{path}' cannot be read: {error}."
        ) from error
    return [_parse(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _parse(path: Path, number: int, line: str) -> SkippedRow:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    data, row = (record.get("data"), record.get("row")) if isinstance(record, dict) else (None, None)
    if not isinstance(data, str) or not data or not isinstance(row, int) or isinstance(row, bool) or row < 0:
        raise InputError(
            f"'{path}', line {number}: expected an object with \"data\", a shard directory or its content hash, and "
            f'"row", a row number from 0 on, but found {line.strip()[:80]!r}.'
        )
    content_hash = record.get("content_hash")
    return SkippedRow(path, number, data, row, content_hash if isinstance(content_hash, str) else None)


def rows_to_skip(skips: Iterable[SkippedRow], directory: Path, content_hash: str, num_rows: int) -> frozenset[int]:
    """Return the rows that the list names of a directory with `num_rows` training rows.

    Raises InputError for a row that it does not have, naming file and line.
    """
    mine = [skip for skip in skips if skip.names(directory, content_hash)]
    for skip in mine:
        if skip.row >= num_rows:
            raise skip.refuse(f"\"row\" must be below the {num_rows} training rows of '{directory}'", f"is {skip.row}")
    return frozenset(skip.row for skip in mine)


def require_known(path: str | Path, sources: Iterable[tuple[Path, str]]) -> None:
    """Raise InputError, naming file and line, for an entry that none of a run's `sources` (directory, content hash) is.

    A run has one list for the data of all its stages, so no single mixture can tell a slip from another stage's row.
    """
    known = list(sources)
    for skip in read_skip_list(path):
        if not any(skip.names(directory, content_hash) for directory, content_hash in known):
            listed = ", ".join(f"'{directory}'" for directory, _ in known)
            raise skip.refuse(
                f'"data" must be one of the shards of the run, {listed}, or a content hash', f"is '{skip.data}'"
            )
