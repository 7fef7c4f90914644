"""Lines of files by number and by byte, counted through a stream of blocks. Must import nothing that knows of records.

A line ends at LF, and the last one also at the end of the file, as in `pipeline.lines`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from pipeline.compression import MAGIC_BYTES, compression_of, decompressed
from pipeline.files import open_file

_BLOCK = 1 << 22
_LF = 10


def _blocks(path: str, storage_options: Mapping[str, Any]) -> Iterator[bytes]:
    """The (decompressed) content of a file, block by block."""
    with closing(open_file(path, storage_options)) as handle:
        compression = compression_of(handle.read(MAGIC_BYTES))
        handle.seek(0)
        stream = decompressed(handle, compression, _BLOCK)
        while block := stream.read(_BLOCK):
            yield block


def count_lines(path: str, storage_options: Mapping[str, Any]) -> int:
    """How many lines a file has."""
    return first_lines(path, [], storage_options)[1]


def first_lines(path: str, cuts: Sequence[int], storage_options: Mapping[str, Any]) -> tuple[list[int], int]:
    """For each of the bytes `cuts`, ascending, the number (from 0) of the first line that begins there or later.

    Also returns how many lines there are, which is the number for a cut behind the start of the last one.
    """
    numbers: list[int] = []
    lines = offset = 0
    last = b"\n"
    for block in _blocks(path, storage_options):
        # A line begins at byte b > 0 where byte b - 1 is LF: those before a cut follow from the LFs before cut - 1.
        while len(numbers) < len(cuts) and cuts[len(numbers)] - 1 < offset + len(block):
            cut = cuts[len(numbers)]
            numbers.append(0 if cut == 0 else 1 + lines + block.count(b"\n", 0, cut - 1 - offset))
        lines += block.count(b"\n")
        offset += len(block)
        last = block[-1:]
    lines += last != b"\n"
    numbers += [lines if cut else 0 for cut in cuts[len(numbers) :]]
    return [min(number, lines) for number in numbers], lines


def byte_of_lines(path: str, numbers: Sequence[int], storage_options: Mapping[str, Any]) -> list[int]:
    """The byte at which each of the lines `numbers` (from 0, ascending) begins: the end for one behind the last."""
    found = [0 for number in numbers if number == 0]
    lines = offset = 0
    for block in _blocks(path, storage_options):
        here = block.count(b"\n")
        if len(found) < len(numbers) and numbers[len(found)] <= lines + here:
            ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == _LF)
            while len(found) < len(numbers) and numbers[len(found)] <= lines + here:
                found.append(offset + int(ends[numbers[len(found)] - lines - 1]) + 1)
        lines += here
        offset += len(block)
    return found + [offset] * (len(numbers) - len(found))


def line_number(path: str, offset: int, storage_options: Mapping[str, Any]) -> int:
    """The number, from 1, of the line that begins at a byte of the (decompressed) content."""
    lines = at = 0
    for block in _blocks(path, storage_options):
        lines += block.count(b"\n", 0, max(0, min(len(block), offset - at)))
        at += len(block)
        if at >= offset:
            break
    return lines + 1
