"""Token ids without meaning but with real lengths, for a machine that has no corpus: what `gpu` trains on.

Lengths are drawn from the quantiles below, cut and packed by the pipeline's own rules. Must not import torch at module
level, or a trainer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.packing import assemble, pack
from pipeline.shards import Rows

if TYPE_CHECKING:
    from pretrain.objectives import MicroBatch
    from pretrain.objectives.masked_lm import MaskedLM

VOCABULARY = 30_522
SPECIAL_IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}

Kind = Literal["paragraphs", "documents"]
# Tokens (WordPiece, 30,522 entries, special tokens not counted) at the quantiles 0, 0.05, ... 1.
LENGTHS: dict[Kind, tuple[int, ...]] = {
    # 35,584 paragraphs of English novels, 1840 to 1920 (ELTeC-eng); mean 64
    "paragraphs": (1, 7, 10, 13, 16, 19, 22, 26, 30, 34, 39, 45, 53, 61, 71, 84, 99, 119, 150, 203, 1089),
    # 947 documents of the Linux kernel's documentation; mean 1,986
    "documents": (
        *(22, 83, 134, 239, 328, 402, 505, 636, 764, 891, 1051),
        *(1224, 1441, 1650, 1913, 2160, 2601, 3345, 4400, 6496, 38305),
    ),
}


@dataclass(frozen=True)
class Synthetic:
    """Packed `rows`, and the same pieces one by one, each with its [CLS] and [SEP]; `fill` is that of the rows."""

    rows: Rows
    sequences: list[NDArray[np.int64]]
    row_length: int
    fill: float


def draw_lengths(kind: Kind, tokens: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Lengths of documents that hold `tokens` together, or as many more as the last one brings."""
    quantiles = np.asarray(LENGTHS[kind], dtype=np.float64)
    places = np.linspace(0.0, 1.0, len(quantiles))
    count = 16
    while True:
        lengths = np.interp(generator.random(count), places, quantiles).astype(np.int64)
        ends = np.cumsum(lengths)
        if ends[-1] >= tokens:
            return lengths[: int(np.searchsorted(ends, tokens)) + 1]
        count *= 2


def make(kind: Kind, tokens: int, row_length: int, vocab_size: int = VOCABULARY, seed: int = 0) -> Synthetic:
    """About `tokens` tokens of documents, cut at `row_length` and packed; ids as frequent as 1 / rank."""
    generator = np.random.default_rng(seed)
    lengths = draw_lengths(kind, tokens, generator)
    first = len(SPECIAL_IDS)
    ranks = np.exp(generator.random(int(lengths.sum())) * np.log(vocab_size - first))
    ids = (first - 1 + ranks).astype(np.uint16 if vocab_size <= 2**16 else np.uint32)
    packing = pack(lengths, row_length)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    keys = np.arange(len(lengths), dtype=np.uint64)
    cls, sep, pad = (SPECIAL_IDS[name] for name in ("cls", "sep", "pad"))
    shape = (packing.rows, row_length)
    input_ids, segments = np.full(shape, pad, dtype=ids.dtype), np.zeros(shape, dtype=np.int32)
    sequences: list[NDArray[np.int64]] = []
    row = 0
    for block in assemble(packing, ids, offsets, keys, cls, sep):
        for number in range(len(block)):
            begin, end = block.row_offsets[number : number + 2]
            pieces = block.lengths[block.piece_offsets[number] : block.piece_offsets[number + 1]]
            input_ids[row, : end - begin] = block.input_ids[begin:end]
            segments[row, : end - begin] = np.repeat(np.arange(1, len(pieces) + 1), pieces)
            borders = np.cumsum(pieces.astype(np.int64))[:-1]
            sequences += [piece.astype(np.int64) for piece in np.split(block.input_ids[begin:end], borders)]
            row += 1
    return Synthetic(Rows(input_ids, segments), sequences, row_length, packing.fill)


def micro_batches(rows: Rows, objective: MaskedLM, size: int, seed: int = 0) -> list[MicroBatch]:
    """Batches of `size` rows in random order, masked by the objective; a last one that is not whole is left out.

    All have the same shapes, `cu_seqlens` too, so that a compiled step is compiled once.
    """
    from pretrain.data.counter import derive_key, hash_coordinates

    order = np.random.default_rng(seed).permutation(len(rows.input_ids))
    made = []
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        part = Rows(rows.input_ids[chosen], rows.segments[chosen])
        keys = hash_coordinates(derive_key("benchmark", seed), chosen)
        made.append(objective.make_batch(part, keys, np.ones(size, dtype=bool), training=True))
    return same_shapes(made)


def same_shapes(batches: list[MicroBatch]) -> list[MicroBatch]:
    """The same batches, their `cu_seqlens` filled up with empty sequences to the longest of them."""
    import torch.nn.functional as F

    most = max((len(one.batch.layout.cu_seqlens) for one in batches), default=0)

    def filled(one: MicroBatch) -> MicroBatch:
        layout = one.batch.layout
        bounds = layout.cu_seqlens
        bounds = F.pad(bounds, (0, most - len(bounds)), value=int(bounds[-1]))
        return replace(one, batch=replace(one.batch, layout=replace(layout, cu_seqlens=bounds, _masks={})))

    return [filled(one) for one in batches]
