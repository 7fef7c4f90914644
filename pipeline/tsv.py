"""Sentence pairs from tab-separated columns. A target of the Hydra group `corpus`.

Reading, decoding and compression are those of `pipeline.sources`. Must not import apache_beam or torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from conf.errors import InputError
from pipeline.aligned_lines import line_number
from pipeline.compression import DAMAGE, MAGIC_BYTES, compression_of, decompressed
from pipeline.files import open_file
from pipeline.lines import is_blank, read_lines
from pipeline.pair_sources import text_corpus
from pipeline.ranges import Plan, Range
from pipeline.records import BOM, Pair, ReadFailure
from pipeline.sources import TextCorpus

NUMBERED_FAILURES = 5  # a range's first failures are told with their line, for which the lines before are counted


@dataclass(frozen=True)
class _Layout:
    """Where the sides are among the `columns` of a file, from 0, and at which byte its header is, if it has one."""

    source: int
    target: int
    columns: int
    header: int | None


@dataclass(frozen=True)
class TsvCorpus:
    """Pairs in tab-separated columns, one a line; plain or compressed files. Nothing is quoted and no line is joined.

    Attributes:
        paths: local paths or fsspec URLs, with wildcards.
        source_column: the source's column: its number, from 1, or with `header` its name.
        target_column: the target's column.
        columns: how many columns each line must have; null: as many as the file's first line.
        header: whether the first line of each file names the columns.
        bad_lines: what becomes of a line with another number of columns: counted as failed, or an error.
        encoding, bad_bytes, range_bytes, block_bytes, max_record_bytes, storage_options: see TextCorpus.
    """

    holds: ClassVar[str] = "pairs"

    paths: list[str]
    source_column: int | str = 1
    target_column: int | str = 2
    columns: int | None = None
    header: bool = False
    bad_lines: Literal["reject", "fail"] = "reject"
    encoding: str = "utf-8"
    bad_bytes: Literal["reject", "replace", "fail"] = "reject"
    range_bytes: int = 64 << 20
    block_bytes: int = 1 << 20
    max_record_bytes: int = 1 << 20
    storage_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage_options", dict(self.storage_options))
        object.__setattr__(self, "_text", text_corpus(self, [str(path) for path in self.paths]))
        for option in ("source_column", "target_column"):
            column = getattr(self, option)
            if isinstance(column, str) and not self.header:
                raise InputError(
                    f"option 'corpus.{option}' must be a number, from 1, where corpus.header=false, but is '{column}'"
                )
            if not isinstance(column, str) and column < 1:
                raise InputError(f"option 'corpus.{option}' must be at least 1, but is {column}")
        if self.source_column == self.target_column:
            raise InputError(
                f"options 'corpus.source_column' and 'corpus.target_column' must differ, but both are "
                f"{self.source_column}"
            )

    def check_paths(self) -> None:
        """Make sure that each path names a file; opens none.

        Raises:
            InputError: a path that matches nothing.
        """
        self._lines.check_paths()

    def plan(self) -> Plan:
        """The files and their ranges.

        Raises:
            InputError: a path that matches nothing, or a file that is no text or lacks a column.
        """
        plan = self._lines.plan()
        for file in plan.files:
            if self._first_line(file.path)[1]:
                self._layout(file.path)
        return plan

    def read(self, range_: Range) -> Iterator[Pair | ReadFailure]:
        """The pairs of one range, in order, with a `ReadFailure` in the place of each line that is none.

        Raises:
            InputError: with bad_lines=fail or bad_bytes=fail, the first such line.
        """
        numbered = 0
        for piece in range_.pieces:
            layout: _Layout | None = None
            for record in self._lines.read(Range(range_.id, (piece,))):
                if isinstance(record, ReadFailure):
                    yield record
                    continue
                if layout is None:
                    layout = self._layout(piece.path)
                if record.offset == layout.header:
                    continue
                cells = record.text.split("\t")
                if len(cells) == layout.columns:
                    yield Pair(cells[layout.source], cells[layout.target], record.id, record.file, record.offset)
                    continue
                place = f"at byte {record.offset}"
                if numbered < NUMBERED_FAILURES or self.bad_lines == "fail":
                    place = f"in line {line_number(piece.path, record.offset, self.storage_options)}"
                    numbered += 1
                said = f"{place}: expected {layout.columns} tab-separated columns, found {len(cells)}"
                if self.bad_lines == "fail":
                    raise InputError(f"{piece.path} {said} (corpus.bad_lines=reject counts such lines and goes on)")
                yield ReadFailure(record.file, record.offset, "wrong_columns", f"{piece.name} {said}")

    def reading_key(self) -> str:
        """A text of all options that change what `read` yields."""
        names = ("source_column", "target_column", "columns", "header", "bad_lines")
        own = [f"{name}={getattr(self, name)!r}" for name in names]
        return ",".join([type(self).__name__, *own, self._lines.reading_key()])

    @property
    def _lines(self) -> TextCorpus:
        lines: TextCorpus = self.__dict__["_text"]
        return lines

    def _layout(self, path: str) -> _Layout:
        """What the first line of a file tells."""
        offset, cells = self._first_line(path)
        places = []
        for option in ("source_column", "target_column"):
            column = getattr(self, option)
            if isinstance(column, str):
                if column not in cells:
                    raise InputError(
                        f"'{path}' has no column '{column}' (option 'corpus.{option}'): its first line names "
                        f"{', '.join(cells)[:200]}"
                    )
                places.append(cells.index(column))
            elif column > (self.columns or len(cells)):
                raise InputError(
                    f"option 'corpus.{option}' is {column}, but '{path}' has {self.columns or len(cells)} "
                    "tab-separated columns"
                )
            else:
                places.append(column - 1)
        return _Layout(places[0], places[1], self.columns or len(cells), offset if self.header else None)

    def _first_line(self, path: str) -> tuple[int, list[str]]:
        """Byte and columns of a file's first line that is not blank; no columns where there is none."""
        try:
            with closing(open_file(path, self.storage_options)) as handle:
                compression = compression_of(handle.read(MAGIC_BYTES))
                handle.seek(0)
                stream = decompressed(handle, compression, self.block_bytes)
                for offset, line in read_lines(stream, 0, self.max_record_bytes):
                    if line is not None and not is_blank(line):
                        return offset, line.removeprefix(BOM).decode(self.encoding, "replace").split("\t")
        except DAMAGE as error:
            raise InputError(f"corpus file '{path}' cannot be read: {error}") from error
        return 0, []
