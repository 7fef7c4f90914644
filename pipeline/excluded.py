"""Sentences that must not be trained on, such as those of test sets: their hashes, in a file that workers read.

A test set is one sentence a line; of a line with tabs each column is one. Imports neither Beam nor torch.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from conf.errors import InputError
from pipeline.compression import DAMAGE, MAGIC_BYTES, compression_of, decompressed
from pipeline.files import find_files, open_file
from pipeline.pair_filters import comparable
from pipeline.records import BOM, HASH_BYTES, text_hash

_BLOCK = 1 << 20


def sentence_hash(text: str) -> bytes:
    """A hash that texts share which differ in case, white space or Unicode form only."""
    return text_hash(comparable(text))


def hashes_of_files(patterns: Sequence[str]) -> bytes:
    """The hashes of all sentences of some files, plain or compressed, sorted, each once, one after another.

    Raises:
        InputError: a pattern that matches nothing, a file that cannot be read, or is not UTF-8; file and line are told.
    """
    found: set[bytes] = set()
    for file in find_files(patterns, {}, "job.exclude") if patterns else []:
        number = 1
        try:
            with closing(open_file(file.path, {})) as handle:
                compression = compression_of(handle.read(MAGIC_BYTES))
                handle.seek(0)
                for line in decompressed(handle, compression, _BLOCK):
                    for sentence in line.removeprefix(BOM).decode("utf-8").rstrip("\r\n").split("\t"):
                        if not sentence.isspace() and sentence:
                            found.add(sentence_hash(sentence))
                    number += 1
        except UnicodeDecodeError as error:
            raise InputError(
                f"'{file.path}' (option 'job.exclude') must be text in UTF-8, but line {number} is not: {error}"
            ) from error
        except DAMAGE as error:
            raise InputError(f"'{file.path}' (option 'job.exclude') cannot be read: {error}") from error
    return b"".join(sorted(found))


def name_of(hashes: bytes) -> str:
    """A short name for a set of hashes."""
    return hashlib.sha256(hashes).hexdigest()[:32]


@functools.lru_cache(maxsize=2)
def load(path: Path) -> frozenset[bytes]:
    """The hashes in a file, which is named after them, once a process."""
    content = path.read_bytes()
    return frozenset(content[at : at + HASH_BYTES] for at in range(0, len(content), HASH_BYTES))
