"""The columns of a shard: their types, and how those made on demand come out of marked ids. Neither Beam nor torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.packing import Block
from pipeline.token_flags import SENTENCE_END, SENTENCE_START, WORD_START, check_columns, has

IdType = Literal["uint16", "uint32"]


def id_dtype(vocab_size: int) -> IdType:
    """The smallest type that holds every id of a vocabulary."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


_ON_DEMAND = {"word_start": pa.bool_(), "sentence_lengths": pa.uint16()}


def schema(dtype: str, columns: Sequence[str] = ()) -> pa.Schema:
    """The Arrow schema of a shard with ids of `dtype` and the on-demand `columns`."""
    return pa.schema(
        [
            pa.field("input_ids", pa.list_(pa.from_numpy_dtype(np.dtype(dtype)))),
            pa.field("lengths", pa.list_(pa.uint16())),
            pa.field("document", pa.list_(pa.uint64())),
            *(pa.field(name, pa.list_(_ON_DEMAND[name])) for name in check_columns(columns)),
        ]
    )


def word_start_column(block: Block) -> NDArray[np.bool_]:
    """The column of a block of marked ids [N]: special tokens begin a word, so that none reaches across pieces."""
    ends = np.cumsum(block.lengths, dtype=np.int64)
    starts = has(block.input_ids, WORD_START)
    starts[ends - block.lengths] = starts[ends - 1] = True
    return starts


def sentence_start_column(block: Block) -> NDArray[np.bool_]:
    """As `Rows.sentence_start`, for the tokens of a block of marked ids [N]."""
    ends = np.cumsum(block.lengths, dtype=np.int64)
    starts = has(block.input_ids, SENTENCE_START)
    starts[ends - block.lengths] = True
    starts[ends - 1] = has(block.input_ids[ends - 2], SENTENCE_END)
    return starts
