"""How a corpus is cut into ranges: a pure rule on each file's name and size, the unit of work of every job.

A range is what one worker reads, and what one shard is named after. So the rule depends on nothing but the files: the
same files give the same ranges on any runner, any number of workers, any day. Must import nothing of the project.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

WHOLE = -1
COMPRESSION_RATIO = 4  # about what gzip makes of text


@dataclass(frozen=True)
class SourceFile:
    """One file of a corpus.

    Attributes:
        path: where it is: absolute, or a URL.
        size: bytes as stored; -1 when the store does not say.
        fingerprint: a text that changes when the content does.
        name: its path relative to what the user's pattern fixes, so that it is the same wherever the corpus lies.
    """

    path: str
    size: int
    fingerprint: str
    name: str


@dataclass(frozen=True)
class Beside:
    """Where the lines of another file lie that belong to those of a piece, one to one.

    `file` is an index into the plan's files, `path` and `name` are that file's; `start` is the byte (of its content)
    of the line that belongs to the piece's first, and `line` the number of both, from 0.
    """

    file: int
    path: str
    name: str
    start: int = 0
    line: int = 0


@dataclass(frozen=True)
class Piece:
    """A part of one file: its records that START at a byte in [start, end); end -1 is the end of the file.

    `file` is an index into the plan's files; `path` and `name` are that file's, so that a worker needs no plan. In a
    corpus of aligned files, `beside` is the other one.
    """

    file: int
    path: str
    start: int
    end: int
    name: str
    beside: Beside | None = None


@dataclass(frozen=True)
class Range:
    """Pieces that one worker reads one after another. The id names its outputs."""

    id: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Plan:
    """All ranges of a corpus and the files they come from; `Piece.file` is an index into `files`."""

    files: tuple[SourceFile, ...]
    ranges: tuple[Range, ...]
    generation: int = 0

    def sources(self) -> list[dict[str, Any]]:
        """What a manifest states of the files."""
        return [{"name": file.name, "size": file.size, "fingerprint": file.fingerprint} for file in self.files]


def plan_ranges(
    files: Sequence[SourceFile], cuttable: Sequence[bool], range_bytes: int, expansion: Sequence[int] | None = None
) -> Plan:
    """Cut files into ranges.

    A cuttable file (records can be found from any byte) larger than `range_bytes` is cut at every multiple of
    `range_bytes`, so it grows without moving its earlier cuts. All other files are grouped, in the order given, until
    the next would pass `range_bytes`. The last piece of a file is open-ended, so a range's id does not depend on sizes.

    Args:
        files: in the order they shall be read.
        cuttable: for each file, whether it may be cut.
        range_bytes: the wanted size of a range, in bytes of text; at least 1.
        expansion: for each file, how many bytes of text a stored byte is taken for (COMPRESSION_RATIO for a compressed
            one); 1 for all if not given.
    """
    groups: list[tuple[Piece, ...]] = []
    group: list[Piece] = []
    weight = 0
    for index, (file, may_cut, factor) in enumerate(zip(files, cuttable, expansion or [1] * len(files), strict=True)):
        if may_cut and file.size > range_bytes:
            if group:
                groups.append(tuple(group))
                group, weight = [], 0
            groups.extend((piece,) for piece in _cut(index, file, range_bytes))
            continue
        file_weight = range_bytes if file.size < 0 else file.size * factor
        if group and weight + file_weight > range_bytes:
            groups.append(tuple(group))
            group, weight = [], 0
        group.append(Piece(index, file.path, 0, WHOLE, file.name))
        weight += file_weight
    if group:
        groups.append(tuple(group))
    ranges = (Range(range_id(number, pieces), pieces) for number, pieces in enumerate(groups))
    return Plan(tuple(files), tuple(ranges))


def _cut(index: int, file: SourceFile, range_bytes: int) -> Iterator[Piece]:
    starts = range(0, file.size, range_bytes)
    for start in starts:
        end = WHOLE if start == starts[-1] else start + range_bytes
        yield Piece(index, file.path, start, end, file.name)


def range_id(number: int, pieces: Sequence[Piece]) -> str:
    """`<number, 5 digits>-<8 hex digits>`, the digits a hash of the pieces' file names and cut points."""
    digest = hashlib.blake2b(digest_size=4)
    for piece in pieces:
        digest.update(f"{piece.name}\0{piece.start}\0{piece.end}\n".encode("utf-8", "surrogateescape"))
    return f"{number:05d}-{digest.hexdigest()}"
