"""The peer as one would write it by hand: transformers' BertForMaskedLM in a plain padded torch loop.

Its own best: batches made beforehand, SDPA, autocast, fused AdamW, torch.compile where asked. As in any such loop the
logits are of all tokens. Must not import the project's trainer or models.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

IGNORED = -100
CLIPPING = 1.0


@dataclass(frozen=True)
class PaddedBatch:
    """`input_ids`, `labels` int64 [R, L], labels -100 where there is no target; `attention_mask` int64 [R, L], or None
    where no place is padding."""

    input_ids: Tensor
    labels: Tensor
    attention_mask: Tensor | None

    @property
    def tokens(self) -> int:
        """Places that are not padding."""
        return int(self.attention_mask.sum()) if self.attention_mask is not None else self.input_ids.numel()

    def to(self, device: torch.device) -> "PaddedBatch":
        """The same batch on another device."""
        mask = self.attention_mask
        return PaddedBatch(
            self.input_ids.to(device, non_blocking=True),
            self.labels.to(device, non_blocking=True),
            None if mask is None else mask.to(device, non_blocking=True),
        )


def batches_of_sequences(
    sequences: Sequence[Sequence[int] | NDArray[np.int64]],
    rows: int,
    special_ids: dict[str, int],
    vocab_size: int,
    by_length: bool,
) -> list[PaddedBatch]:
    """Batches of `rows` sequences each, padded to the longest of the batch (a multiple of 8), in random order.

    `by_length` sorts the sequences first, so that like lengths meet; the batches then come in random order. What is
    left over after the last whole batch is not used.
    """
    generator = np.random.default_rng(0)
    order = generator.permutation(len(sequences))
    if by_length:
        order = order[np.argsort([len(sequences[i]) for i in order], kind="stable")]
    groups = [order[start : start + rows] for start in range(0, len(order) - rows + 1, rows)]
    if by_length:
        groups = [groups[i] for i in generator.permutation(len(groups))]
    made = []
    for group in groups:
        chosen = [sequences[i] for i in group]
        length = -(-max(map(len, chosen)) // 8) * 8
        ids = np.full((len(chosen), length), special_ids["pad"], dtype=np.int64)
        inside = np.arange(length) < np.array([len(one) for one in chosen])[:, None]
        ids[inside] = np.concatenate([np.asarray(one, dtype=np.int64) for one in chosen])
        made.append(_mask(ids, inside, special_ids, vocab_size, generator))
    return made


def batches_of_full_rows(
    sequences: Sequence[Sequence[int] | NDArray[np.int64]],
    rows: int,
    length: int,
    special_ids: dict[str, int],
    vocab_size: int,
) -> list[PaddedBatch]:
    """Batches of [rows, length] without any padding: the sequences in random order, put together and cut.

    As in transformers' own examples; tokens of different sequences see each other.
    """
    generator = np.random.default_rng(0)
    order = generator.permutation(len(sequences))
    flat = np.concatenate([np.asarray(sequences[i], dtype=np.int64) for i in order])
    whole = flat[: len(flat) // (rows * length) * rows * length].reshape(-1, rows, length)
    made = [_mask(ids, np.ones_like(ids, dtype=bool), special_ids, vocab_size, generator) for ids in whole]
    return [replace(batch, attention_mask=None) for batch in made]


def _mask(
    ids: NDArray[np.int64],
    inside: NDArray[np.bool_],
    special_ids: dict[str, int],
    vocab_size: int,
    generator: np.random.Generator,
) -> PaddedBatch:
    """15 % of the ordinary tokens, of them 80 % [MASK], 10 % any id, 10 % as they are (Devlin et al. 2019)."""
    ordinary = inside & ~np.isin(ids, list(special_ids.values()))
    chosen = ordinary & (generator.random(ids.shape) < 0.15)
    kind = generator.random(ids.shape)
    masked = np.where(chosen & (kind < 0.8), special_ids["mask"], ids)
    drawn = generator.integers(vocab_size, size=ids.shape)
    masked = np.where(chosen & (kind >= 0.8) & (kind < 0.9), drawn, masked)
    labels = np.where(chosen, ids, IGNORED)
    return PaddedBatch(torch.from_numpy(masked), torch.from_numpy(labels), torch.from_numpy(inside.astype(np.int64)))


class PlainLoop:
    """A `TrainingLoop` over `batches`, again and again. `compiled`: None, or torch.compile's option `dynamic`."""

    def __init__(
        self,
        config: BertConfig,
        batches: Sequence[PaddedBatch],
        device: torch.device,
        *,
        bf16: bool,
        compiled: bool | None = None,
    ) -> None:
        if not batches:
            raise ValueError("a loop needs at least one batch, but there are too few sequences for one")
        torch.manual_seed(0)
        self.model: torch.nn.Module = BertForMaskedLM(config)
        torch.nn.Module.to(self.model, device)
        self._call: Any = self.model if compiled is None else torch.compile(self.model, dynamic=compiled)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        self._batches, self._device, self._bf16 = itertools.cycle(batches), device, bf16
        self.fill = sum(batch.tokens for batch in batches) / sum(batch.input_ids.numel() for batch in batches)

    def step(self) -> int:
        """Take one optimiser step; return the batch's tokens that are not padding."""
        here = next(self._batches)
        batch = here.to(self._device)
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bf16):
            loss = self._call(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIPPING)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return here.tokens

    def close(self) -> None:
        """Nothing is held beyond the model."""


def bert_config(
    vocab_size: int, *, layers: int, hidden: int, heads: int, width: int, dropout: float, attention_dropout: float
) -> BertConfig:
    """A BERT of this shape with SDPA, the fastest attention that it has for training in one process."""
    # The attention's name is an option that the configuration's signature does not show.
    attention: dict[str, Any] = {"attn_implementation": "sdpa"}
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=width,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        **attention,
    )
