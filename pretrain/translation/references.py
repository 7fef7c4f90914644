"""Whether references fit what is translated: as many lines, which is found before anything is decoded.

Must not import torch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing

from conf.errors import InputError
from pipeline.compression import DAMAGE, MAGIC_BYTES, compression_of, decompressed
from pipeline.files import open_file
from pretrain.translation.inputs import find_input

_BLOCK = 1 << 20


def check_reference(reference: str, sources: str | Sequence[str]) -> None:
    """Refuse a file of references with another number of lines than the files of `sources` (paths, patterns, URLs).

    Raises InputError, which names the file, how many lines it must have and how many it has; also for a folder among
    the sources (shards have no lines), and what cannot be read.
    """
    paths = [sources] if isinstance(sources, str) else [str(path) for path in sources]
    folder = next((path for path in paths if os.path.isdir(path)), None)  # noqa: PTH112, it may be a URL
    if folder is not None:
        raise InputError(
            f"option 'reference' goes with input that is text or jsonl, but '{folder}' is a folder: leave it away"
        )
    expected = sum(count_lines(file.path) for file in find_input(paths))
    found = count_lines(reference)
    if found != expected:
        raise InputError(
            f"the references '{reference}' must have as many lines as {', '.join(paths)}, {expected:,}, but have "
            f"{found:,}: give the files that belong together"
        )


def count_lines(path: str) -> int:
    """The lines of a plain or compressed file; the last one may lack its end. Raises InputError if it is damaged."""
    count, last = 0, b"\n"
    try:
        with closing(open_file(path, {})) as handle:
            compression = compression_of(handle.read(MAGIC_BYTES))
            handle.seek(0)
            stream = decompressed(handle, compression, _BLOCK)
            while block := stream.read(_BLOCK):
                count += block.count(b"\n")
                last = block[-1:]
    except DAMAGE as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"the file '{path}' cannot be read: {why}") from error
    return count + (last != b"\n")
