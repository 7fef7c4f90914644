"""What is translated: text and jsonl files, plain or compressed, as sentences in chunks.

A chunk is the lines that begin in one stretch of `chunk_bytes` of a file's content, so chunks follow from the files
alone: no rank counts lines, and nothing in memory grows with the input. Must not import torch.
"""

from __future__ import annotations

import codecs
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Literal, Protocol

from conf.errors import InputError
from pipeline.compression import DAMAGE, MAGIC_BYTES, compression_of, decompressed, strip_suffix
from pipeline.files import find_files, open_file, total_size
from pipeline.lines import Record, lines_from, lines_in
from pipeline.ranges import SourceFile
from pipeline.records import without_lone_surrogates
from pipeline.sources import JSONL_SUFFIXES, PROBE_BYTES, check_is_text

LONGEST_LINE = 1 << 20
_BLOCK = 1 << 16
Format = Literal["auto", "text", "jsonl"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One source: an id that leads back to it, and its text; `readable` is False for a line that is no text.

    `ids` are its tokens without [CLS] and [SEP] where it was read as tokens of a tokenizer, which the input names.
    """

    id: str
    text: str
    readable: bool = True
    ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The lines that begin in bytes [start, end) of the content of file number `file`, or the rows [start, end) of
    shards; `id` names what is made of them."""

    id: str
    file: int
    start: int
    end: int


class Input(Protocol):
    """Sentences in chunks, the same ones whenever they are asked for."""

    @property
    def total(self) -> int:
        """The amount of input, in the unit of `position`."""

    def facts(self) -> dict[str, Any]:
        """What the sentences and their chunks depend on."""

    def fingerprints(self) -> dict[str, str]:
        """What is read, by name -> a text that changes with its content."""

    def chunks(self) -> Iterator[Chunk]:
        """All chunks in order. A chunk's sentences are to be asked for before the next chunk is."""

    def position(self, chunk: Chunk, share: float) -> float:
        """How much of `total` lies before a share of a chunk."""

    def sentences(self, chunk: Chunk) -> list[Sentence]:
        """The sentences of a chunk, in order. Raises InputError if they cannot be read."""


class TextInput:
    """The sentences of files, one a line; ids are those of jsonl objects, else `<file name>:<byte>`.

    `paths` are local paths or URLs, with wildcards. `format` auto takes .jsonl, .ndjson and .json for jsonl, whose
    objects have the text under `text_key`, everything else for text. Files of one name in several folders are told
    apart by as many of their folders as it takes.

    Raises InputError, in one sentence, for a path that matches nothing, a file that is no text, a jsonl file without a
    text under the key, and input of 0 bytes.
    """

    def __init__(self, paths: Sequence[str], format: Format, text_key: str, id_key: str, chunk_bytes: int) -> None:
        self.files = _apart(find_input(paths))
        if total_size(self.files) == 0:
            raise InputError(f"the input is empty: '{self.files[0].path}' has 0 bytes")
        self._format, self._text_key, self._id_key, self._chunk_bytes = format, text_key, id_key, chunk_bytes
        self._compression = [self._probe(file) for file in self.files]
        self._streams: dict[int, _Lines] = {}

    @property
    def total(self) -> int:
        """Bytes as stored, of all files: the unit of progress."""
        return sum(max(0, file.size) for file in self.files)

    def facts(self) -> dict[str, Any]:
        """What the sentences and their chunks depend on."""
        files = [{"name": file.name, "size": file.size, "fingerprint": file.fingerprint} for file in self.files]
        options = {"format": self._format, "text_key": self._text_key, "id_key": self._id_key}
        return {"files": files, **options, "chunk_bytes": self._chunk_bytes}

    def fingerprints(self) -> dict[str, str]:
        """Of each file."""
        return {file.name: file.fingerprint for file in self.files}

    def _probe(self, file: SourceFile) -> str | None:
        """How a file is compressed, having made sure that it is text."""
        try:
            with closing(open_file(file.path, {})) as handle:
                head = handle.read(MAGIC_BYTES)
                handle.seek(0)
                compression = compression_of(head)
                block = decompressed(handle, compression, PROBE_BYTES).read(PROBE_BYTES)
        except DAMAGE as error:
            raise InputError(f"the input '{file.path}' cannot be read: {error}") from error
        check_is_text(file.path, block, "utf-8")
        if self._is_jsonl(file):
            self._require_key(file, block)
        return compression

    def _is_jsonl(self, file: SourceFile) -> bool:
        if self._format == "auto":
            return strip_suffix(file.name).lower().endswith(JSONL_SUFFIXES)
        return self._format == "jsonl"

    def _require_key(self, file: SourceFile, block: bytes) -> None:
        """Refuse a file of whose first lines none has a text: it is a wrong key or format, not damage."""
        lines = block.removeprefix(codecs.BOM_UTF8).split(b"\n")
        if len(block) == PROBE_BYTES:
            lines.pop()  # cut
        values = [_parsed(line) for line in lines if line.strip()]
        objects = [value for value in values if isinstance(value, dict)]
        if not values or any(isinstance(value.get(self._text_key), str) for value in objects):
            return
        if not objects:
            raise InputError(
                f"the input '{file.path}' must have a JSON object a line, but none of its first {len(values)} lines is "
                "one: mend it, or set format=text"
            )
        found = ", ".join(map(str, objects[0])) or "no key"
        raise InputError(
            f"none of the first {len(values)} lines of the input '{file.path}' has a text under the key "
            f"'{self._text_key}' (option 'text_key'): the first object has {found}"
        )

    def chunks(self) -> Iterator[Chunk]:
        """All chunks in order. Of a compressed file they are known only as it is read, which goes on from one to the
        next: a chunk's sentences are to be asked for before the next chunk is."""
        for number, file in enumerate(self.files):
            place = 0
            while self._reaches(number, file, place * self._chunk_bytes):
                start = place * self._chunk_bytes
                yield Chunk(f"{number:05d}-{place:07d}", number, start, start + self._chunk_bytes)
                place += 1
            self._close(number)

    def _reaches(self, number: int, file: SourceFile, start: int) -> bool:
        if self._compression[number] is None:
            return start < file.size
        try:
            return self._lines(number).reach(start)
        except DAMAGE as error:
            raise _damaged(file, start, error) from error

    def _lines(self, number: int) -> _Lines:
        if number not in self._streams:
            self._streams[number] = _Lines(open_file(self.files[number].path, {}), self._compression[number])
        return self._streams[number]

    def _close(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is not None:
            stream.handle.close()

    def position(self, chunk: Chunk, share: float) -> float:
        """How much of `total` lies before a share of a chunk."""
        before = sum(max(0, file.size) for file in self.files[: chunk.file])
        if self._compression[chunk.file] is None:
            return before + chunk.start + share * (min(chunk.end, self.files[chunk.file].size) - chunk.start)
        return before + self._lines(chunk.file).handle.tell()

    def sentences(self, chunk: Chunk) -> list[Sentence]:
        """The sentences of a chunk, in order; a blank line is one too.

        Raises InputError if the file is damaged.
        """
        file = self.files[chunk.file]
        jsonl = self._is_jsonl(file)
        try:
            records = list(self._records(chunk, file))
        except DAMAGE as error:
            raise _damaged(file, chunk.start, error) from error
        return [self._sentence(f"{file.name}:{offset}", offset, record, jsonl) for offset, record in records]

    def _records(self, chunk: Chunk, file: SourceFile) -> Iterator[Record]:
        if self._compression[chunk.file] is not None:
            yield from self._lines(chunk.file).until(chunk.end)
            return
        with closing(open_file(file.path, {})) as handle:
            handle.seek(max(chunk.start - 1, 0))
            stream = decompressed(handle, None, _BLOCK)
            yield from lines_in(stream, chunk.start, chunk.end, LONGEST_LINE)

    def _sentence(self, name: str, offset: int, record: bytes | None, jsonl: bool) -> Sentence:
        if record is None:
            return Sentence(name, "", readable=False)
        if offset == 0:
            record = record.removeprefix(codecs.BOM_UTF8)
        try:
            text = record.decode("utf-8")
        except UnicodeDecodeError:
            return Sentence(name, record.decode("utf-8", "replace"), readable=False)
        if not jsonl or not text.strip():
            return Sentence(name, text)
        try:
            value = json.loads(text)
            found = value[self._text_key]
            given = value.get(self._id_key)
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            return Sentence(name, text, readable=False)
        name = without_lone_surrogates(str(given)) if isinstance(given, str | int) else name
        if not isinstance(found, str):
            return Sentence(name, text, readable=False)
        whole = without_lone_surrogates(found)
        return Sentence(name, whole, readable=whole is found)


def find_input(paths: Sequence[str]) -> list[SourceFile]:
    """The files of local paths or URLs, with wildcards. Raises InputError for one that matches nothing."""
    try:
        return find_files(paths, {}, "input")
    except InputError as error:
        words = str(error).replace("corpus path", "input").replace("corpus file", "the input")
        raise InputError(words) from error


def _apart(files: Sequence[SourceFile]) -> list[SourceFile]:
    """The files, of whom no two have the same name: it is the tail of the path, and as long as it must be."""
    names, parts = [file.name for file in files], [file.path.split("/") for file in files]
    sizes = [name.count("/") + 1 for name in names]
    while twice := {name for name, count in Counter(names).items() if count > 1}:
        for number, name in enumerate(names):
            if name in twice:
                sizes[number] += 1
                names[number] = "/".join(parts[number][-sizes[number] :])
    return [replace(file, name=name) for file, name in zip(files, names, strict=True)]


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _damaged(file: SourceFile, start: int, error: Exception) -> InputError:
    return InputError(
        f"the input '{file.path}' is damaged after byte {start} of its content ({error}): mend it; what was finished "
        "is kept"
    )


class _Lines:
    """The lines of a compressed file, read once from its start to its end."""

    def __init__(self, handle: BinaryIO, compression: str | None) -> None:
        self.handle = handle
        stream: io.BufferedReader = decompressed(handle, compression, _BLOCK)
        self._records = lines_from(stream, 0, LONGEST_LINE)
        self._next: Record | None = next(self._records, None)

    def until(self, end: int) -> Iterator[Record]:
        """The lines from here on that begin before byte `end`."""
        while self._next is not None and self._next[0] < end:
            yield self._next
            self._next = next(self._records, None)

    def reach(self, start: int) -> bool:
        """Pass over the lines before byte `start`; whether there is one after them."""
        for _ in self.until(start):
            pass
        return self._next is not None
