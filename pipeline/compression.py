"""Compressed files as streams of their content, told apart by their first bytes and never by their names.

Every reader here goes on through concatenated members and raises at a truncated or damaged one: a short file must not
look like a complete one. Must import nothing of the project.
"""

import bz2
import gzip
import io
import lzma
import zlib
from typing import Any, BinaryIO

import zstandard

MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
MAGIC_BYTES = max(map(len, MAGIC))
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
# What the libraries raise for damaged data; OSError also covers a store that fails while it is read.
DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
_INPUT_BLOCK = 1 << 16


def compression_of(first_bytes: bytes) -> str | None:
    """`gz`, `bz2`, `xz`, `zst`, or None for anything else, by a file's first bytes (at least 6 where it has them)."""
    return next((name for magic, name in MAGIC.items() if first_bytes.startswith(magic)), None)


def strip_suffix(name: str) -> str:
    """A file name without the suffix that compression adds."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def decompressed(handle: BinaryIO, compression: str | None, block_bytes: int) -> io.BufferedReader:
    """A buffered stream of the content of an open file at its start; memory is bounded whatever the file's size.

    Raises, while it is read, one of `DAMAGE` for data that is truncated or not what its first bytes promise.
    """
    raw: Any = handle
    if compression == "gz":
        raw = gzip.GzipFile(fileobj=handle, mode="rb")
    elif compression == "bz2":
        raw = bz2.BZ2File(handle)
    elif compression == "xz":
        raw = lzma.LZMAFile(handle)  # noqa: SIM115 (closing it would close the caller's file)
    elif compression == "zst":
        raw = _ZstandardReader(handle)
    return io.BufferedReader(raw, block_bytes)


class _ZstandardReader(io.RawIOBase):
    """A stream of concatenated Zstandard frames.

    The library's own stream reader ends in silence when the data stops within a frame; this one raises EOFError.
    """

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill `buffer` with the next bytes of content; 0 at the end."""
        while not self._output:
            if not self._input:
                self._input = self._handle.read(_INPUT_BLOCK)
                if not self._input:
                    if self._frame is not None:
                        raise EOFError("the compressed data stops within a Zstandard frame")
                    return 0
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._output = memoryview(self._frame.decompress(self._input))
            self._input = b""
            if self._frame.eof:
                self._input = self._frame.unused_data
                self._frame = None
        size = min(len(buffer), len(self._output))
        buffer[:size] = self._output[:size]
        self._output = self._output[size:]
        return size
