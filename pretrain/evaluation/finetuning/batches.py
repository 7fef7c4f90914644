"""Which items make a batch, and the batch as flat tokens: like lengths together, short sequences sharing a row.

Pure functions of lengths and a generator; no model is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pretrain.data.batching import from_rows
from pretrain.evaluation.finetuning.encoding import EncodedItems
from pretrain.models.attention import AttentionLayout
from pretrain.models.tokens import moved

BUCKET_BATCHES = 50


@dataclass(frozen=True, eq=False)
class TaskBatch:
    """B items with S sequences in T flat tokens.

    `input_ids`, `position_ids`, `token_type_ids` int64 [T] (padding is of type 0); `starts` int64 [S], the first token
    of each sequence in the flat tokens, in the order of the items; `counts` int64 [B], the sequences of each item;
    `spans` int64 [B, 4], flat tokens [start, end) of both spans; `labels` float64 [B]. `weight` (a scalar) is what the
    batch's mean loss counts for: B, or 0 for a batch that only keeps a rank busy while others have items.
    """

    input_ids: Tensor
    position_ids: Tensor
    token_type_ids: Tensor
    layout: AttentionLayout
    starts: Tensor
    lengths: Tensor
    counts: Tensor
    labels: Tensor
    spans: Tensor | None
    weight: Tensor

    def to(self, device: torch.device | str, non_blocking: bool = False) -> TaskBatch:
        """The same batch on another device."""
        return moved(self, device, non_blocking)

    def for_compiled_code(self) -> None:
        """Have a compiled graph assume nothing of the number of sequences."""
        self.layout.for_compiled_code()


def bucketed_batches(lengths: Sequence[int], batch_size: int, generator: np.random.Generator) -> list[list[int]]:
    """One epoch's batches: every index once, items of like length together, batches in random order.

    Indices are shuffled, cut into buckets of 50 batches, sorted by length within the bucket and cut into batches; so
    batches differ from epoch to epoch, and their order says nothing of their length.
    """
    order = generator.permutation(len(lengths))
    bucket = batch_size * BUCKET_BATCHES
    batches = []
    for start in range(0, len(order), bucket):
        members = sorted(order[start : start + bucket].tolist(), key=lambda index: lengths[index])
        batches += [members[at : at + batch_size] for at in range(0, len(members), batch_size)]
    return [batches[index] for index in generator.permutation(len(batches))]


def packed_rows(lengths: Sequence[int]) -> tuple[list[list[int]], int]:
    """Indices of sequences that share a row, and the length of all rows: that of the longest sequence.

    First fit, the longest first: where one sequence is far longer than the others, these fill what it would pad.
    """
    width = max(lengths)
    rows: list[list[int]] = []
    rooms: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        number = next((row for row, room in enumerate(rooms) if lengths[index] <= room), len(rows))
        if number == len(rows):
            rows.append([])
            rooms.append(width)
        rows[number].append(index)
        rooms[number] -= lengths[index]
    return rows, width


def collate(data: EncodedItems, chosen: Sequence[int], pad_id: int) -> TaskBatch:
    """The items of these numbers as one batch; the results of an item do not depend on the others in it."""
    members = np.asarray(chosen, dtype=np.int64)
    counts = data.items[members + 1] - data.items[members]
    sequences = np.concatenate([np.arange(data.items[i], data.items[i + 1]) for i in members])
    lengths = data.lengths[sequences]
    rows, width = packed_rows(lengths.tolist())
    ids = np.full((len(rows), width), pad_id, dtype=np.int64)
    types = np.zeros((len(rows), width), dtype=np.int64)
    segments = np.zeros((len(rows), width), dtype=np.int32)
    firsts = np.zeros(len(sequences), dtype=np.int64)
    for number, row in enumerate(rows):
        at = 0
        for place, index in enumerate(row, start=1):
            source = slice(data.starts[sequences[index]], data.starts[sequences[index] + 1])
            here = slice(at, at + lengths[index])
            ids[number, here], types[number, here] = data.ids[source], data.types[source]
            segments[number, here] = place
            firsts[index] = number * width + at
            at += lengths[index]
    input_ids, position_ids, layout = from_rows(ids, segments)
    spans = None
    if data.spans is not None:
        spans = _int64(data.spans[members].astype(np.int64) + firsts[:, None])
    return TaskBatch(
        input_ids=input_ids,
        position_ids=position_ids,
        token_type_ids=torch.from_numpy(types.reshape(-1)),
        layout=layout,
        starts=_int64(firsts),
        lengths=_int64(lengths),
        counts=_int64(counts),
        labels=torch.from_numpy(data.labels[members]),
        spans=spans,
        weight=torch.tensor(float(len(members))),
    )


def _int64(values: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64))
