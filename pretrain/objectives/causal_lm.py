"""Causal language modelling: every token of a sequence is predicted from those before it. Must not import deepspeed."""

from typing import cast

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


class CausalLM(ReadsRows):
    """The targets are the next tokens within each packed sequence, [SEP] at its end included; nothing is random.

    Every place is a target slot, those at the end of a sequence and on padding without weight.
    """

    loss_names: tuple[str, ...] = ("causal_lm",)
    columns: tuple[str, ...] = ()
    needs_partners = False

    def __init__(self, facts: DataFacts) -> None:
        self._facts = facts

    def build_model(self, architecture: EncoderConfig, vocab_size: int) -> nn.Module:
        """Return a causal encoder with the language-model head. Raises InputError for one that sees what follows."""
        require_encoder(architecture, "objective=causal_lm")
        if not architecture.causal:
            raise InputError(
                "objective=causal_lm needs model.causal=true, but it is false: every token would see its target."
            )
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
        """Make a batch of R rows; rows that are not `used` [R] get no weight."""
        ids = rows.input_ids.astype(np.int64)
        labels = np.zeros_like(ids)
        labels[:, :-1] = ids[:, 1:]
        weights = np.zeros(ids.shape, dtype=np.float32)
        real = rows.segments > 0
        weights[:, :-1] = real[:, 1:] & (rows.segments[:, 1:] == rows.segments[:, :-1]) & used[:, None]
        input_ids, position_ids, layout = from_rows(ids, rows.segments)
        batch = Batch(
            input_ids=input_ids,
            position_ids=position_ids,
            layout=layout,
            target_positions=torch.arange(ids.size),
            labels=torch.from_numpy(labels.reshape(-1)),
            weights=torch.from_numpy(weights.reshape(-1)),
        )
        return MicroBatch(batch, counts={"causal_lm": float(weights.sum())}, tokens=int(real[used].sum()))

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum of the cross-entropies of the next tokens, in fp32."""
        # Imported here: it brings torch's compiler along, a second of every process that only makes batches.
        from pretrain.objectives.linear_cross_entropy import linear_cross_entropy, output_layer

        states = cast(MaskedLanguageModel, model).target_states(
            batch.input_ids, batch.position_ids, batch.layout, batch.target_positions
        )
        return {"causal_lm": linear_cross_entropy(states, *output_layer(model), batch.labels, batch.weights)}
