"""Text and jsonl files as documents: which ranges a corpus has, and the documents of one range.

A corpus is a target of the Hydra group `corpus`: `plan()` runs once, in the driver; `read(range)` runs in workers, as a
stream with bounded memory. One bad record is a `ReadFailure` among the documents; a file that is no text at all is bad
input and stops the plan. Must not import apache_beam or torch.
"""

import codecs
import io
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal, Protocol

from conf.errors import InputError
from pipeline.compression import DAMAGE, MAGIC_BYTES, compression_of, decompressed, strip_suffix
from pipeline.files import find_files, open_file, require_files, total_size
from pipeline.lines import Record, is_blank, lines_in, paragraphs_in
from pipeline.ranges import COMPRESSION_RATIO, Piece, Plan, Range, SourceFile, plan_ranges
from pipeline.records import BOM, Document, ReadFailure, without_lone_surrogates

JSONL_SUFFIXES = (".jsonl", ".ndjson", ".json")
PROBE_BYTES = 1 << 16
BINARY_SHARE = 0.2
_BINARY_FORMATS = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a zip archive (or an office document)",
    b"\x7fELF": "a program",
    b"\x89PNG": "a picture",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "a database",
}
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]")


class RecordError(Exception):
    """One record cannot be used: a reason code, and the detail as the message."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Corpus(Protocol):
    """What every job reads from.

    A corpus may have a method `check_paths()` as well, which raises InputError where there is nothing to read and opens
    no file: a chain asks it before its first step begins.
    """

    def plan(self) -> Plan:
        """The corpus's files and ranges.

        Raises:
            InputError: nothing to read, or a file that is not what the corpus holds.
        """

    def read(self, range_: Range) -> Iterator[Document | ReadFailure]:
        """The documents of one range, in order; the same ones on every call."""

    def reading_key(self) -> str:
        """A text of all options that change what `read` yields (not which files there are)."""


@dataclass(frozen=True)
class TextCorpus:
    """Documents of text and jsonl files, plain or compressed (gz, bz2, xz, zst, told by content).

    Attributes:
        paths: local paths or fsspec URLs, with wildcards.
        format: what the files hold; `auto` takes .jsonl, .ndjson and .json (before a compression suffix) for jsonl,
            one JSON object a line, and everything else for text.
        text_key: the field of a jsonl object that holds the text.
        id_key: the field that holds its id; an object without one is named `<file>:<offset>`.
        document: in text files, what one document is: a line, the lines between blank lines, or the file.
        encoding: of all files; LF must be one byte in it, so UTF-16 and UTF-32 are refused.
        bad_bytes: what becomes of a record with bytes that are not of that encoding (or, in jsonl, escapes that are no
            character): counted as failed, read with U+FFFD in their place, or an error that ends the job.
        range_bytes: text that one worker reads at a time and writes as one shard.
        block_bytes: read buffer.
        max_record_bytes: a longer line, paragraph or file counts as failed; it bounds a worker's memory.
        storage_options: for fsspec.
    """

    paths: list[str]
    format: Literal["auto", "text", "jsonl"] = "auto"
    text_key: str = "text"
    id_key: str = "id"
    document: Literal["line", "blank_line", "file"] = "line"
    encoding: str = "utf-8"
    bad_bytes: Literal["reject", "replace", "fail"] = "reject"
    range_bytes: int = 64 << 20
    block_bytes: int = 1 << 20
    max_record_bytes: int = 64 << 20
    storage_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Hydra hands over its own list and mapping types; workers get plain ones.
        object.__setattr__(self, "paths", [str(path) for path in self.paths])
        object.__setattr__(self, "storage_options", dict(self.storage_options))
        for option in ("range_bytes", "block_bytes", "max_record_bytes"):
            if getattr(self, option) < 1:
                raise InputError(f"option 'corpus.{option}' must be at least 1, but is {getattr(self, option)}")
        try:
            newline_is_one_byte = "\n".encode(self.encoding) == b"\n"
        except LookupError as error:
            raise InputError(f"option 'corpus.encoding' names no encoding that is known: '{self.encoding}'") from error
        if not newline_is_one_byte:
            raise InputError(
                "option 'corpus.encoding' must be one in which a line ends with the one byte LF, but "
                f"'{self.encoding}' is not: convert the files to utf-8 (whose byte order mark may stay)"
            )

    def check_paths(self) -> None:
        """Make sure that each path names a file; opens none.

        Raises:
            InputError: a path that matches nothing.
        """
        require_files(self.paths, self.storage_options)

    def plan(self) -> Plan:
        """Find the files, make sure that each is text, and cut them into ranges.

        Raises:
            InputError: a path that matches nothing, files that are all empty, or a file that is not text.
        """
        files = find_files(self.paths, self.storage_options)
        if total_size(files) == 0:
            raise InputError(
                f"the corpus is empty: corpus.paths matches {len(files)} file(s) of 0 bytes, "
                f"'{files[0].path}' the first of them"
            )
        plain = [self.probe(file) for file in files]
        cuttable = [is_plain and not self._is_whole(file.name) for file, is_plain in zip(files, plain, strict=True)]
        expansion = [1 if is_plain else COMPRESSION_RATIO for is_plain in plain]
        return plan_ranges(files, cuttable, self.range_bytes, expansion)

    def read(self, range_: Range) -> Iterator[Document | ReadFailure]:
        """The documents of one range, in order, with a `ReadFailure` in the place of each that cannot be read.

        A file that is damaged or vanishes on the way is one failure at the byte that was reached.

        Raises:
            InputError: with bad_bytes=fail, the first record with bad bytes.
        """
        for piece in range_.pieces:
            yield from self._read_piece(piece)

    def reading_key(self) -> str:
        """A text of all options that change what `read` yields."""
        names = ("format", "text_key", "id_key", "document", "encoding", "bad_bytes", "max_record_bytes")
        return ",".join([type(self).__name__, *(f"{name}={getattr(self, name)!r}" for name in names)])

    def _is_jsonl(self, name: str) -> bool:
        if self.format == "auto":
            return strip_suffix(name).lower().endswith(JSONL_SUFFIXES)
        return self.format == "jsonl"

    def _is_whole(self, name: str) -> bool:
        """Whether the file is one document, which no cut may part."""
        return self.document == "file" and not self._is_jsonl(name)

    def probe(self, file: SourceFile) -> bool:
        """Whether a file is plain (not compressed), having made sure that it is text."""
        try:
            with closing(open_file(file.path, self.storage_options)) as handle:
                head = handle.read(MAGIC_BYTES)
                handle.seek(0)
                compression = compression_of(head)
                try:
                    block = decompressed(handle, compression, PROBE_BYTES).read(PROBE_BYTES)
                except DAMAGE:
                    block = b""  # the jobs count it as failed, and read what can be read
        except OSError as error:
            raise InputError(f"corpus file '{file.path}' cannot be read: {error.strerror or error}") from error
        check_is_text(file.path, block, self.encoding)
        return compression is None and file.size >= 0

    def _read_piece(self, piece: Piece) -> Iterator[Document | ReadFailure]:
        reached = piece.start
        try:
            with closing(open_file(piece.path, self.storage_options)) as handle:
                for offset, record in self._records(handle, piece):
                    reached = offset
                    yield self._document(piece, offset, record)
        except DAMAGE as error:
            detail = f"{piece.name} is damaged or cannot be read; byte {reached} was reached: {error}"
            yield ReadFailure(piece.file, reached, "damaged_file", detail)

    def _records(self, handle: BinaryIO, piece: Piece) -> Iterator[Record]:
        """(offset, bytes) of each record of a piece that is not blank; bytes are None where they are too many."""
        compression = compression_of(handle.read(MAGIC_BYTES))
        handle.seek(max(piece.start - 1, 0))
        stream = decompressed(handle, compression, self.block_bytes)
        if self._is_whole(piece.name):
            records = _whole_file(stream, self.max_record_bytes)
        elif self.document == "blank_line" and not self._is_jsonl(piece.name):
            records = paragraphs_in(stream, piece.start, piece.end, self.max_record_bytes)
        else:
            records = lines_in(stream, piece.start, piece.end, self.max_record_bytes)
        for offset, record in records:
            if offset == 0 and record is not None:
                record = record.removeprefix(BOM)
            if record is None or not is_blank(record):
                yield offset, record

    def _document(self, piece: Piece, offset: int, record: bytes | None) -> Document | ReadFailure:
        try:
            text = self.decode(record)
            name = f"{piece.name}:{offset}"
            if self._is_jsonl(piece.name):
                text, name = self._parse(text, name)
            return Document(text, name, piece.file, offset)
        except RecordError as error:
            self.fail_if_asked(error, f"{piece.path} at byte {offset}")
            return ReadFailure(piece.file, offset, error.reason, f"{piece.name} at byte {offset}: {error}")

    def decode(self, record: bytes | None) -> str:
        """A record as text. Raises RecordError for bytes of another encoding, or None in the place of too many."""
        if record is None:
            raise RecordError("record_too_long", f"more than {self.max_record_bytes} bytes")
        try:
            return record.decode(self.encoding, "replace" if self.bad_bytes == "replace" else "strict")
        except UnicodeDecodeError as error:
            raise RecordError("undecodable", f"expected {self.encoding}, found other bytes: {error}") from error

    def fail_if_asked(self, error: RecordError, place: str) -> None:
        """Raise InputError for bad bytes where `bad_bytes` is "fail"."""
        if error.reason == "undecodable" and self.bad_bytes == "fail":
            raise InputError(f"{place}: {error} (corpus.bad_bytes=reject counts such records and goes on)") from error

    def _parse(self, line: str, name: str) -> tuple[str, str]:
        """Text and id of one line of jsonl."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RecordError("not_json", f"expected a JSON object, found what is no JSON: {error}") from error
        if not isinstance(value, dict):
            raise RecordError("not_an_object", f"expected a JSON object, found {_json_type(value)}")
        if self.text_key not in value:
            keys = ", ".join(map(str, value)) or "none"
            raise RecordError("no_text", f"expected the key '{self.text_key}', found the keys {keys[:200]}")
        text = value[self.text_key]
        if not isinstance(text, str):
            raise RecordError("text_not_string", f"expected text under '{self.text_key}', found {_json_type(text)}")
        given = value.get(self.id_key)
        name = str(given) if isinstance(given, str | int) else name
        whole = without_lone_surrogates(text)
        if whole is not text and self.bad_bytes != "replace":
            raise RecordError("undecodable", "expected characters, found half of a surrogate pair (such as \\ud800)")
        return whole, without_lone_surrogates(name)


def check_is_text(path: str, block: bytes, encoding: str) -> None:
    """Refuse a file that is not text in the encoding expected, by its first bytes.

    A stray bad byte or NUL is left to the records; a file is refused when over a fifth of its first characters are
    control characters or bytes that the encoding does not have.

    Raises:
        InputError: naming the file, and what it seems to be.
    """
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"'{path}' is UTF-16, but text in {encoding} was expected: convert it to utf-8")
    for magic, kind in _BINARY_FORMATS.items():
        if block.startswith(magic):
            raise InputError(
                f"'{path}' is not text but {kind}: give text or jsonl files (plain, gz, bz2, xz or zst) as corpus.paths"
            )
    text = block.decode(encoding, "replace")
    strange = sum(1 for _ in _NOT_TEXT.finditer(text))
    if strange > BINARY_SHARE * len(text):
        raise InputError(
            f"'{path}' is not text in {encoding} ({strange / len(text):.0%} of its first {len(text)} characters are "
            "control characters or undecodable): leave it out of corpus.paths, or set corpus.encoding to what it is"
        )


def _whole_file(stream: io.BufferedReader, maximum: int) -> Iterator[Record]:
    content = stream.read(maximum + 1)
    yield 0, content if len(content) <= maximum else None


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
