"""Sentence pairs from two files with a line each to a pair. A target of the Hydra group `corpus`.

Decoding and compression are those of `pipeline.sources`. Must not import apache_beam or torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from conf.errors import InputError
from pipeline.aligned_lines import byte_of_lines, count_lines, first_lines
from pipeline.compression import DAMAGE, MAGIC_BYTES, compression_of, decompressed
from pipeline.files import find_files, open_file, require_files, total_size
from pipeline.lines import Record, lines_in, read_lines
from pipeline.pair_sources import text_corpus
from pipeline.ranges import COMPRESSION_RATIO, WHOLE, Beside, Piece, Plan, Range, SourceFile, plan_ranges
from pipeline.records import BOM, Pair, ReadFailure
from pipeline.sources import RecordError, TextCorpus

# A compressed file is counted while it is planned when it is no larger; a larger one is checked while it is read.
COUNTED_BYTES = 64 << 20


def refuse_misaligned(source: str, source_lines: int, target: str, target_lines: int) -> None:
    """Raise InputError unless two files have the same number of lines."""
    if source_lines != target_lines:
        raise InputError(
            f"the files of a bitext must have the same number of lines, but '{source}' has {source_lines} and "
            f"'{target}' has {target_lines}: they are not aligned, find where a line was lost or split"
        )


@dataclass(frozen=True)
class BitextCorpus:
    """Aligned text files, plain or compressed (told by content): line n of one is the translation of line n of another.

    Attributes:
        source: local paths or fsspec URLs of the source side, with wildcards.
        target: those of the target side, as many; the n-th file of one side belongs to the n-th of the other.
        encoding: of all files; see TextCorpus.
        bad_bytes: what becomes of a pair with bytes that are not of that encoding; see TextCorpus.
        range_bytes: source text that one worker reads at a time and writes as one shard.
        block_bytes: read buffer.
        max_record_bytes: a pair with a longer line counts as failed.
        storage_options: for fsspec.
    """

    holds: ClassVar[str] = "pairs"

    source: list[str]
    target: list[str]
    encoding: str = "utf-8"
    bad_bytes: Literal["reject", "replace", "fail"] = "reject"
    range_bytes: int = 64 << 20
    block_bytes: int = 1 << 20
    max_record_bytes: int = 1 << 20
    storage_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for side in ("source", "target"):
            object.__setattr__(self, side, [str(path) for path in getattr(self, side)])
        object.__setattr__(self, "storage_options", dict(self.storage_options))
        object.__setattr__(self, "_text", text_corpus(self, self.source))

    def check_paths(self) -> None:
        """Make sure that each path names a file; opens none.

        Raises:
            InputError: a path that matches nothing.
        """
        require_files(self.source, self.storage_options, "corpus.source")
        require_files(self.target, self.storage_options, "corpus.target")

    def plan(self) -> Plan:
        """Find the files, put them side by side, count their lines and cut both at the same lines.

        Cuts follow from the sizes of the source files alone. Plain files are read through for it, once.

        Raises:
            InputError: a path that matches nothing, files that are no text, sides of different numbers of files, or two
                files with different numbers of lines.
        """
        sources = find_files(self.source, self.storage_options, "corpus.source")
        targets = find_files(self.target, self.storage_options, "corpus.target")
        if len(sources) != len(targets):
            raise InputError(
                f"a bitext must have as many target files as source files, but corpus.source matches {len(sources)} "
                f"('{sources[0].path}' first) and corpus.target {len(targets)} ('{targets[0].path}' first)"
            )
        if total_size(sources) == 0 and total_size(targets) == 0:
            raise InputError(f"the corpus is empty: '{sources[0].path}' and '{targets[0].path}' have 0 bytes")
        text = self._lines
        plain = [text.probe(source) & text.probe(target) for source, target in zip(sources, targets, strict=True)]
        expansion = [1 if is_plain else COMPRESSION_RATIO for is_plain in plain]
        plan = plan_ranges(sources, plain, self.range_bytes, expansion)
        besides = self._besides(plan, targets, plain)
        ranges = [
            replace(range_, pieces=tuple(replace(piece, beside=besides[piece.file, piece.start]) for piece in pieces))
            for range_ in plan.ranges
            for pieces in [range_.pieces]
        ]
        return Plan((*sources, *targets), tuple(ranges), plan.generation)

    def read(self, range_: Range) -> Iterator[Pair | ReadFailure]:
        """The pairs of one range, in order, with a `ReadFailure` in the place of each that cannot be read.

        A file that is damaged or vanishes on the way is one failure at the line that was reached.

        Raises:
            InputError: a side ends before the other; or, with bad_bytes=fail, the first line with bad bytes.
        """
        for piece in range_.pieces:
            yield from self._read_piece(piece)

    def reading_key(self) -> str:
        """A text of all options that change what `read` yields."""
        names = ("encoding", "bad_bytes", "max_record_bytes")
        return ",".join([type(self).__name__, *(f"{name}={getattr(self, name)!r}" for name in names)])

    @property
    def _lines(self) -> TextCorpus:
        lines: TextCorpus = self.__dict__["_text"]
        return lines

    def _besides(self, plan: Plan, targets: list[SourceFile], plain: list[bool]) -> dict[tuple[int, int], Beside]:
        """For each piece, by file and start, where its lines lie in the target file."""
        starts: dict[int, list[int]] = {}
        for range_ in plan.ranges:
            for piece in range_.pieces:
                starts.setdefault(piece.file, []).append(piece.start)
        found: dict[tuple[int, int], Beside] = {}
        for number, cuts in starts.items():
            source, target = plan.files[number], targets[number]
            lines, places = [0], [0]
            if plain[number] or all(0 <= file.size <= COUNTED_BYTES for file in (source, target)):
                try:
                    lines, source_lines = first_lines(source.path, cuts, self.storage_options)
                    target_lines = count_lines(target.path, self.storage_options)
                except DAMAGE as error:
                    if len(cuts) > 1:
                        raise InputError(f"'{source.path}' or '{target.path}' cannot be read: {error}") from error
                    lines = [0]  # read as far as it goes, and counted as failed
                else:
                    refuse_misaligned(source.path, source_lines, target.path, target_lines)
                    places = byte_of_lines(target.path, lines, self.storage_options)
            for cut, line, place in zip(cuts, lines, places, strict=True):
                found[number, cut] = Beside(len(plan.files) + number, target.path, target.name, place, line)
        return found

    def _read_piece(self, piece: Piece) -> Iterator[Pair | ReadFailure]:
        beside = piece.beside
        assert beside is not None
        line, reached = beside.line, piece.start
        try:
            with (
                closing(open_file(piece.path, self.storage_options)) as source_file,
                closing(open_file(beside.path, self.storage_options)) as target_file,
            ):
                source_stream = self._stream(source_file, max(piece.start - 1, 0))
                target_stream = self._stream(target_file, beside.start)
                sources = lines_in(source_stream, piece.start, piece.end, self.max_record_bytes)
                targets = read_lines(target_stream, beside.start, self.max_record_bytes)
                for reached, source in sources:
                    target = next(targets, None)
                    if target is None:
                        rest = sum(1 for _ in sources)
                        refuse_misaligned(piece.path, line + 1 + rest, beside.path, line)
                    else:
                        yield self._pair(piece, beside, line, reached, source, target)
                    line += 1
                if piece.end == WHOLE and (more := sum(1 for _ in targets)):
                    refuse_misaligned(piece.path, line, beside.path, line + more)
        except DAMAGE as error:
            detail = f"{piece.name} or {beside.name} is damaged or cannot be read after line {line}: {error}"
            yield ReadFailure(piece.file, reached, "damaged_file", detail)

    def _stream(self, handle: Any, start: int) -> Any:
        compression = compression_of(handle.read(MAGIC_BYTES))
        handle.seek(0 if compression else start)
        return decompressed(handle, compression, self.block_bytes)

    def _pair(
        self, piece: Piece, beside: Beside, line: int, offset: int, source: bytes | None, target: Record
    ) -> Pair | ReadFailure:
        texts = []
        for name, path, record, first in (
            (piece.name, piece.path, source, offset == 0),
            (beside.name, beside.path, target[1], target[0] == 0),
        ):
            try:
                texts.append(self._lines.decode(record.removeprefix(BOM) if record is not None and first else record))
            except RecordError as error:
                self._lines.fail_if_asked(error, f"{path} in line {line + 1}")
                return ReadFailure(piece.file, offset, error.reason, f"{name} in line {line + 1}: {error}")
        return Pair(texts[0], texts[1], f"{piece.name}:{line + 1}", piece.file, offset)
