"""Masked language modelling: rows with some tokens replaced, the tokens to be predicted, and the loss.

The choice is made when a row is read, from the row's own key (`Objective.make_batch`): the same on every rank layout,
another one at each visit. Rows are never changed in place. Must not import deepspeed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from conf.errors import InputError
from pipeline.shards import Rows
from pretrain.data.batching import Batch, from_rows
from pretrain.data.counter import UInt64Array
from pretrain.models.config import EncoderConfig, require_encoder
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.objectives import DataFacts, MicroBatch, ReadsRows
from pretrain.objectives.masking import Choice, choose_spans, choose_tokens, choose_words, replace_tokens

Unit = Literal["token", "word", "span"]
RandomFrom = Literal["ordinary", "all"]


@dataclass(frozen=True)
class Targets:
    """C slots of targets, of which the first ones are used: `positions`, `labels` int64 [C], `weights` float32 [C]."""

    positions: NDArray[np.int64]
    labels: NDArray[np.int64]
    weights: NDArray[np.float32]


class MaskedLM(ReadsRows):
    """The objective of BERT, with dynamic masking (RoBERTa) and a fixed capacity of target slots a micro-batch.

    Training masks `mask_probability` of a row's ordinary tokens, evaluation `evaluation_mask_probability` (MosaicBERT:
    30 % and 15 %). `mask_share` / `random_share` / the rest: 80/10/10 in BERT. `unit`: single tokens; whole words
    (BERT's later release); spans of whole words, replaced as wholes (SpanBERT). `exclude`: ids of tokens that are
    never chosen, nor put in as random ones, like special tokens. `random_from`: random tokens are ordinary ones, or of
    all the vocabulary, as in BERT's released code.

    Raises InputError for a value out of its range.
    """

    loss_names: tuple[str, ...] = ("masked_lm",)
    columns: tuple[str, ...]
    needs_partners = False

    def __init__(
        self,
        facts: DataFacts,
        *,
        mask_probability: float = 0.15,
        evaluation_mask_probability: float = 0.15,
        mask_share: float = 0.8,
        random_share: float = 0.1,
        unit: Unit = "token",
        random_from: RandomFrom = "ordinary",
        exclude: Sequence[int] = (),
    ) -> None:
        for name, value in (
            ("mask_probability", mask_probability),
            ("evaluation_mask_probability", evaluation_mask_probability),
        ):
            if not 0.0 < value <= 1.0:
                raise InputError(f"objective.{name} must be above 0 and at most 1, but is {value}.")
        for name, value in (("mask_share", mask_share), ("random_share", random_share)):
            if not 0.0 <= value <= 1.0:
                raise InputError(f"objective.{name} must be between 0 and 1, but is {value}.")
        if mask_share + random_share > 1.0 + 1e-9:
            raise InputError(
                f"objective.mask_share + objective.random_share must be at most 1, "
                f"but is {mask_share + random_share:g}."
            )
        for name, choice, allowed in (
            ("unit", unit, ("token", "word", "span")),
            ("random_from", random_from, ("ordinary", "all")),
        ):
            if choice not in allowed:
                raise InputError(f"objective.{name} must be one of {', '.join(allowed)}, but is '{choice}'.")
        for token in exclude:
            if not 0 <= token < facts.vocab_size:
                raise InputError(
                    f"objective.exclude must hold ids below the vocabulary size {facts.vocab_size}, but holds {token}."
                )
        self.mask_probability = mask_probability
        self.evaluation_mask_probability = evaluation_mask_probability
        self.mask_share, self.random_share = mask_share, random_share
        self.unit = unit
        self.columns = () if unit == "token" else ("word_start",)
        self._facts = facts
        self._maskable_id = np.ones(facts.vocab_size, dtype=bool)
        self._maskable_id[[*facts.special_ids.values(), *exclude]] = False
        every_id = np.arange(facts.vocab_size, dtype=np.int64)
        self._random_ids = every_id if random_from == "all" else np.flatnonzero(self._maskable_id)
        if not self._maskable_id.any():
            raise InputError("objective.exclude must leave a token to predict, but leaves none.")

    def build_model(self, architecture: EncoderConfig, vocab_size: int) -> nn.Module:
        """Return an encoder with the masked-LM head. Raises InputError for one that cannot see what follows."""
        require_bidirectional(architecture)
        return MaskedLanguageModel(architecture, vocab_size)

    def make_batch(
        self,
        rows: Rows,
        row_keys: UInt64Array,
        used: NDArray[np.bool_],
        *,
        training: bool,
        partners: Rows | None = None,
    ) -> MicroBatch[Batch]:
        """Mask R rows as their keys [R] say; rows that are not `used` [R] get no weight."""
        inputs, targets = self.mask(rows, row_keys, used, training=training)
        input_ids, position_ids, layout = from_rows(inputs, rows.segments)
        batch = Batch(
            input_ids=input_ids,
            position_ids=position_ids,
            layout=layout,
            target_positions=torch.from_numpy(targets.positions),
            labels=torch.from_numpy(targets.labels),
            weights=torch.from_numpy(targets.weights),
        )
        tokens = int((rows.segments > 0)[used].sum())
        return MicroBatch(batch, counts={"masked_lm": float(targets.weights.sum())}, tokens=tokens)

    def mask(
        self, rows: Rows, row_keys: UInt64Array, used: NDArray[np.bool_], *, training: bool
    ) -> tuple[NDArray[np.int64], Targets]:
        """Return the masked input ids [R, L] and the targets of R rows."""
        probability = self.mask_probability if training else self.evaluation_mask_probability
        ids = rows.input_ids.astype(np.int64)
        choice = self._choose(rows, self._maskable_id[ids] & (rows.segments > 0), row_keys, probability)
        inputs = replace_tokens(
            ids,
            choice,
            row_keys,
            mask_share=self.mask_share,
            random_share=self.random_share,
            mask_id=self._facts.special_ids["mask"],
            random_ids=self._random_ids,
        )
        places = np.flatnonzero(choice.chosen)
        # Fixed shapes for compiled kernels: every batch has the slots that rows full of maskable tokens would need.
        capacity = max(1, len(ids) * int(np.rint(probability * self._facts.row_length)))
        positions, labels = np.zeros((2, capacity), dtype=np.int64)
        weights = np.zeros(capacity, dtype=np.float32)
        positions[: len(places)] = places
        labels[: len(places)] = ids.reshape(-1)[places]
        weights[: len(places)] = used[places // ids.shape[1]]
        return inputs, Targets(positions, labels, weights)

    def _choose(self, rows: Rows, maskable: NDArray[np.bool_], row_keys: UInt64Array, probability: float) -> Choice:
        if self.unit == "token":
            return choose_tokens(maskable, row_keys, probability)
        if rows.word_start is None:
            raise ValueError(f"objective.unit={self.unit} needs rows with the column word_start")
        if self.unit == "word":
            return choose_words(maskable, rows.word_start, row_keys, probability)
        return choose_spans(maskable, rows.word_start, rows.segments, row_keys, probability)

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum of weight * cross-entropy over the target slots, in fp32; 0 where no slot has a weight."""
        # Imported here: it brings torch's compiler along, a second of every process that only makes batches.
        from pretrain.objectives.linear_cross_entropy import linear_cross_entropy, output_layer

        states = cast(MaskedLanguageModel, model).target_states(
            batch.input_ids, batch.position_ids, batch.layout, batch.target_positions
        )
        return {"masked_lm": linear_cross_entropy(states, *output_layer(model), batch.labels, batch.weights)}


def require_bidirectional(architecture: EncoderConfig) -> None:
    """Raise InputError for a model that is no encoder, or in which a token sees only those before it."""
    require_encoder(architecture, "a masked-LM objective")
    if architecture.causal:
        raise InputError(
            "a masked-LM objective needs model.causal=false, but it is true: set it, or use objective=causal_lm."
        )
