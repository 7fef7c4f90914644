"""Rows or single sequences -> flat tokens with a layout: the batches of encoders, and of encoders with a decoder.

Pure functions on numpy arrays and tensors. No objective, no masking, no model, no file is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout
from pretrain.models.tokens import Tokens, moved


class ModelBatch(Protocol):
    """All that the engine and the trainer know of a batch."""

    @property
    def layout(self) -> AttentionLayout:
        """That of the rows that were read."""

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        """The same batch on another device."""

    def for_compiled_code(self) -> None:
        """Have a compiled graph assume nothing of what has another shape in each batch."""


@dataclass
class Batch:
    """What a model and the losses need, T tokens flat, C target slots, P slots for pairs of sentences.

    `input_ids`, `position_ids` int64 [T] (positions restart at each sequence); `target_positions` int64 [C] index the
    flat tokens; `labels` int64 [C]; `weights` float32 [C], 0 for a slot that is not used (its position and label are
    valid indices all the same, so shapes stay constant). Only where the objective has them: `token_type_ids` int64
    [T], and `sentence_positions` int64 [P] (the first token of each pair), `sentence_labels` int64 [P] and
    `sentence_weights` float32 [P], with unused slots as above.
    """

    input_ids: Tensor
    position_ids: Tensor
    layout: AttentionLayout
    target_positions: Tensor
    labels: Tensor
    weights: Tensor
    token_type_ids: Tensor | None = None
    sentence_positions: Tensor | None = None
    sentence_labels: Tensor | None = None
    sentence_weights: Tensor | None = None

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The same batch on another device."""
        return moved(self, device, non_blocking)

    def for_compiled_code(self) -> None:
        """Have a compiled graph assume nothing of the number of sequences."""
        self.layout.for_compiled_code()


@dataclass
class PairBatch:
    """What a model with encoder and decoder and its loss need: T tokens for the one, D for the other, C target slots.

    Both layouts have the same S sequences, in as many rows: sequence i of the decoder sees sequence i of the encoder
    and no other. A sequence may have no token in the decoder; the decoder's rows have a length of their own, and what
    pads one is at the end of the row's last sequence, where (the decoder being causal) no token before it sees it.

    `source` has the T tokens, `target` the D that the decoder reads; `target_positions` int64 [C] index these; `labels`
    int64 [C]; `weights` float32 [C], 0 for a slot that is not used, whose position and label are valid indices all the
    same. Only where it is wanted: `hidden_keys` bool [T], true where the encoder's token is not seen by the decoder
    (every sequence has one that is).
    """

    source: Tokens
    target: Tokens
    target_positions: Tensor
    labels: Tensor
    weights: Tensor
    hidden_keys: Tensor | None = None

    @property
    def layout(self) -> AttentionLayout:
        """The encoder's, which is that of the rows that were read."""
        return self.source.layout

    def to(self, device: torch.device | str, non_blocking: bool = False) -> PairBatch:
        """The same batch on another device."""
        return moved(self, device, non_blocking)

    def for_compiled_code(self) -> None:
        """Have a compiled graph assume nothing of the number of sequences."""
        self.source.layout.for_compiled_code()
        self.target.layout.for_compiled_code()


def from_rows(
    input_ids: NDArray[np.integer] | Tensor, segments: NDArray[np.integer] | Tensor
) -> tuple[Tensor, Tensor, AttentionLayout]:
    """Packed rows -> (input_ids [T], position_ids [T], layout), T = R x L.

    Both arguments are [R, L]; `segments` numbers the pieces of a row 1..k, 0 is padding. Each run of equal numbers is
    one sequence, padding too, so that no real token sees it. Raises ValueError if the shapes differ.
    """
    ids, parts = np.asarray(input_ids), np.asarray(segments)
    if ids.shape != parts.shape or ids.ndim != 2:
        raise ValueError(
            f"input_ids and segments must be the same [rows, length], but are {ids.shape} and {parts.shape}"
        )
    rows, length = ids.shape
    starts_here = np.ones((rows, length), dtype=bool)
    starts_here[:, 1:] = parts[:, 1:] != parts[:, :-1]
    starts = np.flatnonzero(starts_here)
    positions = np.arange(rows * length) - starts[np.cumsum(starts_here) - 1]
    bounds = np.append(starts, rows * length)
    layout = AttentionLayout(torch.from_numpy(bounds.astype(np.int32)), max_seqlen=length, row_length=length)
    flat = torch.from_numpy(ids.reshape(-1).astype(np.int64))
    return flat, torch.from_numpy(positions.astype(np.int64)), layout


def pad_sequences(
    sequences: Sequence[Sequence[int]], pad_id: int, multiple: int = 1
) -> tuple[Tensor, Tensor, AttentionLayout, Tensor]:
    """One sequence a row -> (input_ids [T], position_ids [T], layout, starts [S]); used where rows are not packed.

    Rows are as long as the longest sequence, rounded up to `multiple`. What pads a row is a sequence of its own, so
    the others' results do not depend on it. `starts` int64 are the flat indices of the first tokens.
    Raises InputError for no sequence at all or an empty one.
    """
    if not sequences or min(map(len, sequences)) == 0:
        raise InputError("a batch needs at least one sequence and each at least one token, but found none")
    lengths = np.array([len(sequence) for sequence in sequences])
    row_length = -(-int(lengths.max()) // multiple) * multiple
    ids = np.full((len(sequences), row_length), pad_id, dtype=np.int64)
    inside = np.arange(row_length) < lengths[:, None]
    ids[inside] = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences])
    input_ids, position_ids, layout = from_rows(ids, inside.astype(np.int32))
    return input_ids, position_ids, layout, torch.arange(len(sequences)) * row_length
