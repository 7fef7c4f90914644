"""Pairs of token sequences -> one batch for an encoder with a decoder: a pair a row, each side as wide as its longest.

Pure functions on numpy arrays. No objective, no shard, no model is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pretrain.data.batching import PairBatch
from pretrain.data.pair_batches import Int64Array, padded
from pretrain.models.attention import AttentionLayout
from pretrain.models.tokens import Tokens


def lay_out_pairs(
    source_ids: NDArray[np.integer],
    source_lengths: Int64Array,
    target_ids: NDArray[np.integer],
    target_lengths: Int64Array,
    used: NDArray[np.bool_],
    *,
    pad_id: int,
    longest: int,
    languages: tuple[Int64Array, Int64Array] | None = None,
) -> PairBatch:
    """Return n pairs as a batch; all ids of a side are flat, lengths [n] at least 1 (targets 2).

    The decoder reads all but the last token of a target and predicts all but the first; every place of its side that
    holds a token is a target slot, without weight where the pair is not `used` [n]. Rows are no wider than `longest`,
    for which a model has positions, unless a side is. `languages` are the numbers of the sources' and the targets'.
    """
    width, inside = _places(source_lengths, longest)
    lengths = target_lengths - 1
    decoder_width, decoder_inside = _places(lengths, longest)
    ends = np.cumsum(target_lengths)
    is_read = np.ones(len(target_ids), dtype=bool)
    is_read[ends - 1] = False
    is_predicted = np.ones(len(target_ids), dtype=bool)
    is_predicted[ends - target_lengths] = False
    # A source and its padding are two sequences of a row. On the other side the target takes the padding after it,
    # which none of its tokens sees, and an empty sequence stands for the source's padding.
    starts, decoder_starts = np.arange(len(lengths)) * width, np.arange(len(lengths)) * decoder_width
    return PairBatch(
        source=Tokens(
            input_ids=_filled(inside, source_ids, pad_id),
            position_ids=torch.from_numpy((np.arange(width) * inside).reshape(-1)),
            layout=_layout(starts, starts + source_lengths, width),
            language_ids=None if languages is None else torch.from_numpy(np.repeat(languages[0], width)),
        ),
        target=Tokens(
            input_ids=_filled(decoder_inside, target_ids[is_read], pad_id),
            position_ids=torch.from_numpy((np.arange(decoder_width) * decoder_inside).reshape(-1)),
            layout=_layout(decoder_starts, decoder_starts + decoder_width, decoder_width),
            language_ids=None if languages is None else torch.from_numpy(np.repeat(languages[1], decoder_width)),
        ),
        target_positions=torch.from_numpy(np.flatnonzero(decoder_inside)),
        labels=torch.from_numpy(target_ids[is_predicted].astype(np.int64)),
        weights=torch.from_numpy(np.repeat(used.astype(np.float32), lengths)),
    )


def _places(lengths: Int64Array, longest: int) -> tuple[int, NDArray[np.bool_]]:
    """The width of rows for `lengths` [n], and which of their places hold a token, [n, width]."""
    widest = int(lengths.max(initial=1))
    width = max(widest, min(int(padded(np.array(widest))), longest))
    return width, np.arange(width) < lengths[:, None]


def _filled(inside: NDArray[np.bool_], ids: NDArray[np.integer], pad_id: int) -> Tensor:
    whole = np.full(inside.shape, pad_id, dtype=np.int64)
    whole[inside] = ids
    return torch.from_numpy(whole.reshape(-1))


def _layout(starts: Int64Array, ends: Int64Array, width: int) -> AttentionLayout:
    """Two sequences a row: from its start to `ends` [n], and from there to the next row."""
    bounds = np.append(np.stack((starts, ends), axis=1).reshape(-1), len(starts) * width)
    return AttentionLayout(torch.from_numpy(bounds.astype(np.int32)), max_seqlen=width, row_length=width)


def with_sources(
    batch: PairBatch, sources: Sequence[Sequence[int]], languages: Int64Array, *, pad_id: int, longest: int
) -> PairBatch:
    """Return a batch of `lay_out_pairs` with other sources, of `languages` [n], and all else as it was.

    What is new lies on the CPU.
    """
    lengths = np.array([len(source) for source in sources], dtype=np.int64)
    width, inside = _places(lengths, longest)
    starts = np.arange(len(lengths)) * width
    decoder = batch.target.layout
    ids = np.concatenate([np.asarray(source, dtype=np.int64) for source in sources])
    return replace(
        batch,
        source=Tokens(
            input_ids=_filled(inside, ids, pad_id),
            position_ids=torch.from_numpy((np.arange(width) * inside).reshape(-1)),
            layout=_layout(starts, starts + lengths, width),
            language_ids=torch.from_numpy(np.repeat(languages, width)),
        ),
        # Its own layout: it remembers masks over the sources it had.
        target=replace(
            batch.target, layout=AttentionLayout(decoder.cu_seqlens, decoder.max_seqlen, decoder.row_length)
        ),
    )
