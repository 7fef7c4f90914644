"""Records of a byte stream: lines and paragraphs, with the rule that gives each to exactly one byte range.

Only LF and CRLF end a line: U+2028, U+0085, form feed and the like are characters of a text, and a lone CR is too. All
functions are pure apart from reading their stream, and hold one record at a time. Must import nothing of the project.
"""

import io
from collections.abc import Iterator

from pipeline.ranges import WHOLE

_SKIP_BLOCK = 1 << 20

# (offset, bytes), or (offset, None) for a record longer than the limit
Record = tuple[int, bytes | None]


def read_lines(stream: io.BufferedReader, offset: int, maximum: int) -> Iterator[Record]:
    """Lines of a stream, without their ends.

    Args:
        stream: at a line's first byte.
        offset: the byte that is, counted in the whole file.
        maximum: bytes a line may have; a longer one is skipped and given as None.
    """
    limit = maximum + 2  # room for CR LF
    while line := stream.readline(limit):
        start = offset
        offset += len(line)
        if line.endswith(b"\n"):
            content = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        elif len(line) < limit:
            content = line
        else:
            offset += _skip_line(stream)
            content = line
        yield start, content if len(content) <= maximum else None


def _skip_line(stream: io.BufferedReader) -> int:
    """Read to just after the next line end; the number of bytes that were read."""
    skipped = 0
    while chunk := stream.readline(_SKIP_BLOCK):
        skipped += len(chunk)
        if chunk.endswith(b"\n"):
            break
    return skipped


def lines_from(stream: io.BufferedReader, start: int, maximum: int) -> Iterator[Record]:
    """All lines that begin at byte `start` or later.

    The stream must be at byte max(start - 1, 0): the line that begins AT `start` is known by the line end before it.
    """
    offset = start
    if start > 0:
        offset = start - 1 + _skip_line(stream)
    yield from read_lines(stream, offset, maximum)


def lines_in(stream: io.BufferedReader, start: int, end: int, maximum: int) -> Iterator[Record]:
    """The lines that begin in [start, end); the stream is at byte max(start - 1, 0)."""
    for offset, line in lines_from(stream, start, maximum):
        if end != WHOLE and offset >= end:
            return
        yield offset, line


def paragraphs_in(stream: io.BufferedReader, start: int, end: int, maximum: int) -> Iterator[Record]:
    """The runs of non-blank lines whose blank line before them begins in [start, end), joined by LF.

    The file's start counts as a blank line at byte 0. To give a run to the range of the blank line before it, and not
    of its own first byte, is what lets a range decide without looking back. The stream is at byte max(start - 1, 0).
    """
    ours = start == 0  # whether the last blank line seen was in this range
    first = 0
    size = 0
    paragraph: list[bytes] = []
    for offset, line in lines_from(stream, start, maximum):
        beyond = end != WHOLE and offset >= end
        if line is not None and is_blank(line):
            if size:
                yield first, _join(paragraph, size, maximum)
                paragraph, size = [], 0
            if beyond:
                return
            ours = True
        elif ours:
            if not size:
                first = offset
            size += maximum + 1 if line is None else len(line) + 1
            if line is not None and size <= maximum + 1:
                paragraph.append(line)
        elif beyond:
            return
    if size:
        yield first, _join(paragraph, size, maximum)


def _join(lines: list[bytes], size: int, maximum: int) -> bytes | None:
    return b"\n".join(lines) if size <= maximum + 1 else None


def is_blank(line: bytes) -> bool:
    """Whether a line holds nothing but white space (Unicode's, in UTF-8), or nothing."""
    stripped = line.strip()
    if not stripped:
        return True
    if stripped[0] < 0x80:
        return False
    return stripped.decode("utf-8", "replace").isspace()
