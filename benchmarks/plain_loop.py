"""The peer as one would write it by hand: transformers' BertForMaskedLM or BART in a plain padded torch loop.

Its own best: batches made beforehand, SDPA, autocast, fused AdamW, torch.compile where asked. As in any such loop the
logits are of all tokens (of BART, of all of its decoder's). Must not import the project's trainer or models.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import BartConfig, BartForConditionalGeneration, BertConfig, BertForMaskedLM

IGNORED = -100
CLIPPING = 1.0

# Theirs: torch's fused attention, and matrix products with a softmax between.
Attention = Literal["sdpa", "eager"]


class LoopBatch(Protocol):
    """What `PlainLoop` steps over."""

    @property
    def tokens(self) -> int:
        """Those that the loop's rate counts."""

    @property
    def places(self) -> int:
        """Of which `tokens` are a share."""

    def inputs(self) -> dict[str, Tensor | None]:
        """The arguments of the model, labels among them."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""


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

    @property
    def places(self) -> int:
        """All places."""
        return self.input_ids.numel()

    def inputs(self) -> dict[str, Tensor | None]:
        """The arguments of BertForMaskedLM."""
        return {"input_ids": self.input_ids, "attention_mask": self.attention_mask, "labels": self.labels}

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
    groups = groups_of([len(one) for one in sequences], rows, by_length, generator)
    if by_length:
        groups = [groups[i] for i in generator.permutation(len(groups))]
    return [
        _mask(*padded([sequences[i] for i in group], special_ids["pad"]), special_ids, vocab_size, generator)
        for group in groups
    ]


def groups_of(
    lengths: Sequence[int], rows: int, by_length: bool, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """The numbers of the sequences in each batch of `rows`: in random order, or sorted by length, shortest first.

    What is left over after the last whole batch is not used.
    """
    order = generator.permutation(len(lengths))
    if by_length:
        order = order[np.argsort(np.asarray(lengths)[order], kind="stable")]
    return [order[start : start + rows] for start in range(0, len(order) - rows + 1, rows)]


def padded(
    sequences: Sequence[Sequence[int] | NDArray[np.int64]], pad_id: int, multiple: int = 8
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(ids [R, L], which of the places are no padding); L is the longest sequence, rounded up to `multiple`."""
    lengths = np.array([len(one) for one in sequences])
    length = -(-int(lengths.max()) // multiple) * multiple
    ids = np.full((len(sequences), length), pad_id, dtype=np.int64)
    inside = np.arange(length) < lengths[:, None]
    ids[inside] = np.concatenate([np.asarray(one, dtype=np.int64) for one in sequences])
    return ids, inside


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
        config: BertConfig | BartConfig,
        batches: Sequence[LoopBatch],
        device: torch.device,
        *,
        bf16: bool,
        compiled: bool | None = None,
    ) -> None:
        if not batches:
            raise ValueError("a loop needs at least one batch, but there are too few sequences for one")
        torch.manual_seed(0)
        self.model: torch.nn.Module = (
            BertForMaskedLM(config) if isinstance(config, BertConfig) else BartForConditionalGeneration(config)
        )
        torch.nn.Module.to(self.model, device)
        self._call: Any = self.model if compiled is None else torch.compile(self.model, dynamic=compiled)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        self._batches, self._device, self._bf16 = itertools.cycle(batches), device, bf16
        self.fill = sum(batch.tokens for batch in batches) / sum(batch.places for batch in batches)

    def step(self) -> int:
        """Take one optimiser step; return the batch's tokens that count."""
        here = next(self._batches)
        batch = here.to(self._device)
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._bf16):
            loss = self._call(**batch.inputs()).loss
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


def bart_config(
    vocab_size: int,
    special_ids: dict[str, int],
    *,
    layers: tuple[int, int],
    hidden: int,
    heads: int,
    width: int,
    positions: int,
    dropout: float,
    attention_dropout: float,
    attention: Attention = "sdpa",
) -> BartConfig:
    """A BART of this shape, `layers` of encoder and decoder, its embeddings and output matrix tied."""
    implementation: dict[str, Any] = {"attn_implementation": attention}
    return BartConfig(
        vocab_size=vocab_size,
        d_model=hidden,
        encoder_layers=layers[0],
        decoder_layers=layers[1],
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=width,
        decoder_ffn_dim=width,
        max_position_embeddings=positions,
        dropout=dropout,
        attention_dropout=attention_dropout,
        pad_token_id=special_ids["pad"],
        bos_token_id=special_ids["cls"],
        eos_token_id=special_ids["sep"],
        decoder_start_token_id=special_ids["cls"],
        forced_eos_token_id=None,
        **implementation,
    )
