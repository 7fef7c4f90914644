"""Token ids with marks in their upper bits: where words and sentences begin and end, carried along with the ids.

So what moves ids about (the word cache, packing) moves the marks too and need not know of them. A mark is there only
between an encoder that was asked for it and the shard writer, which makes columns of them. NumPy only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

# What shards may hold beside the tokens, in the order of their schema; each is an option of the masked_lm job.
COLUMNS = ("word_start", "sentence_lengths")

ID_MASK = (1 << 29) - 1
WORD_START = 1 << 29
SENTENCE_START = 1 << 30
SENTENCE_END = 1 << 31


def ids_of(marked: NDArray[np.integer], dtype: str) -> NDArray[np.unsignedinteger]:
    """The ids alone, as `dtype`."""
    return (marked & marked.dtype.type(ID_MASK)).astype(dtype)


def has(marked: NDArray[np.integer], mark: int) -> NDArray[np.bool_]:
    """Which ids have a mark."""
    return (marked & marked.dtype.type(mark)) != 0


def check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns in the order of the schema. Raises ValueError for one that does not exist."""
    unknown = set(columns) - set(COLUMNS)
    if unknown:
        raise ValueError(f"shards have no column {sorted(unknown)}: expected {' or '.join(COLUMNS)}")
    return tuple(column for column in COLUMNS if column in columns)
