"""Translation: the encoder reads a sentence, the decoder predicts the other one of its pair.

A row is a batch of pairs (`pretrain.data.pair_batches`), so nothing is drawn here. Must not import deepspeed.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from conf.errors import InputError
from pretrain.data.batching import PairBatch
from pretrain.data.counter import UInt64Array
from pretrain.data.pair_batches import Int64Array, PairReading, PairsOfRows
from pretrain.data.pair_layout import lay_out_pairs
from pretrain.objectives import DataFacts, MicroBatch
from pretrain.objectives.pairs import pair_states, require_decoder


class Translation:
    """Predict each target from its source, in batches of about `batch_tokens` tokens.

    `target_language` is what is translated into: shards of the other direction are read with their sides swapped. Null:
    as the shards have it. Both are for whoever opens the shards (`reading`).

    A batch of n pairs has n * the longest source and n * the longest target (both with padding) of at most that many;
    `trainer.global_batch_size` and `micro_batch_size` count such batches. The decoder reads [CLS] and the target and
    predicts the target and [SEP]. `label_smoothing` acts in training only: a validation loss is the plain one.

    After each validation loss `scored_sentences` held-out sources are translated, with `scored_beams` hypotheses each
    (1: greedy), and scored (`callbacks/translation_scores.py`); 0: none.

    Raises InputError for a value out of its range.
    """

    loss_names: tuple[str, ...] = ("translation",)
    columns: tuple[str, ...] = ()
    needs_partners = False

    def __init__(
        self,
        facts: DataFacts,
        *,
        batch_tokens: int = 4096,
        target_language: str | None = None,
        label_smoothing: float = 0.1,
        scored_sentences: int = 256,
        scored_beams: int = 1,
    ) -> None:
        if not 0.0 <= label_smoothing < 1.0:
            raise InputError(f"objective.label_smoothing must be in [0, 1), but is {label_smoothing}.")
        for name, value, least in (
            ("batch_tokens", batch_tokens, 1),
            ("scored_sentences", scored_sentences, 0),
            ("scored_beams", scored_beams, 1),
        ):
            if value < least:
                raise InputError(f"objective.{name} must be at least {least}, but is {value}.")
        self.label_smoothing = label_smoothing
        self.scored_sentences, self.scored_beams = scored_sentences, scored_beams
        self._facts = facts

    @classmethod
    def reading(cls, *, batch_tokens: int, target_language: str | None = None, **others: Any) -> PairReading:
        """See `Objective`."""
        return PairReading(batch_tokens, target_language)

    def build_model(self, architecture: Any, vocab_size: int) -> nn.Module:
        """Return an encoder with a decoder.

        Raises InputError for a model without a decoder, or one with languages where the shards' are not known.
        """
        model = require_decoder(architecture, vocab_size, "translation")
        if getattr(architecture, "languages", ()) and self._facts.direction is None:
            raise InputError(
                f"the model has embeddings for the languages {', '.join(architecture.languages)}, but the shards do "
                "not say theirs: make them with job.source_language and job.target_language, or set model.languages=[]."
            )
        return model

    def make_batch(
        self,
        rows: PairsOfRows,
        row_keys: UInt64Array,
        used: NDArray[np.bool_],
        *,
        training: bool,
        partners: Any = None,
    ) -> MicroBatch[PairBatch]:
        """Lay out the pairs of R rows, each side padded to its longest; rows that are not `used` [R] get no weight.

        Every place of the decoder's side that holds a token of a target is a target slot.
        """
        pairs = rows.pairs
        weighted = used[rows.row]
        direction = self._facts.direction
        batch = lay_out_pairs(
            pairs.source_ids,
            pairs.source_lengths,
            pairs.target_ids,
            pairs.target_lengths,
            weighted,
            pad_id=self._facts.special_ids["pad"],
            longest=self._facts.row_length,
            languages=None if direction is None else _languages(direction, len(pairs)),
        )
        tokens = int(pairs.source_lengths[weighted].sum())
        return MicroBatch(batch, counts={"translation": float(batch.weights.sum())}, tokens=tokens)

    def loss(self, model: nn.Module, batch: PairBatch) -> dict[str, Tensor]:
        """Sum of the cross-entropies of the targets' tokens, in fp32; smoothed while the model is in training."""
        # Imported here: it brings torch's compiler along, a second of every process that only makes batches.
        from pretrain.objectives.linear_cross_entropy import linear_cross_entropy, output_layer

        states = pair_states(model, batch)
        smoothing = self.label_smoothing if model.training else 0.0
        loss = linear_cross_entropy(states, *output_layer(model), batch.labels, batch.weights, smoothing)
        return {"translation": loss}


def _languages(direction: tuple[int, int], count: int) -> tuple[Int64Array, Int64Array]:
    return np.full(count, direction[0]), np.full(count, direction[1])
