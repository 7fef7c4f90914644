"""Masked language modelling beside a sentence-level loss: next-sentence prediction or sentence order.

Must not import deepspeed.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from conf.errors import InputError
from pipeline.shards import Rows
from pretrain.data.batching import Batch, from_rows
from pretrain.data.counter import UInt64Array
from pretrain.models.encoder import EncoderConfig
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.objectives import DataFacts, MicroBatch
from pretrain.objectives.masked_lm import MaskedLM, RandomFrom, Unit, require_bidirectional
from pretrain.objectives.sentence_pairs import SentenceTask, make_pairs


class MaskedLMWithSentences(MaskedLM):
    """`MaskedLM` on pairs of text parts, and a loss on each pair's [CLS], named as `sentence_task`.

    `next_sentence` is BERT's, `sentence_order` ALBERT's (see `sentence_pairs` for how pairs are made and labelled).
    The two losses have the same weight, as published. The other options are those of `MaskedLM`.
    """

    def __init__(
        self,
        facts: DataFacts,
        *,
        sentence_task: SentenceTask,
        mask_probability: float = 0.15,
        evaluation_mask_probability: float = 0.15,
        mask_share: float = 0.8,
        random_share: float = 0.1,
        unit: Unit = "token",
        random_from: RandomFrom = "ordinary",
        exclude: Sequence[int] = (),
    ) -> None:
        super().__init__(
            facts,
            mask_probability=mask_probability,
            evaluation_mask_probability=evaluation_mask_probability,
            mask_share=mask_share,
            random_share=random_share,
            unit=unit,
            random_from=random_from,
            exclude=exclude,
        )
        if sentence_task not in ("next_sentence", "sentence_order"):
            raise InputError(
                f"objective.sentence_task must be next_sentence or sentence_order, but is '{sentence_task}'."
            )
        self.sentence_task = sentence_task
        self.loss_names = ("masked_lm", sentence_task)
        self.columns = (*self.columns, "sentence_lengths")
        self.needs_partners = sentence_task == "next_sentence"

    def build_model(self, architecture: EncoderConfig, vocab_size: int) -> nn.Module:
        """Return an encoder with both heads. Raises InputError for one without token types or a pooler."""
        require_bidirectional(architecture)
        if architecture.token_types < 2 or not architecture.pooler:
            raise InputError(
                f"objective.sentence_task={self.sentence_task} needs model.token_types=2 and model.pooler=true, but "
                f"they are {architecture.token_types} and {str(architecture.pooler).lower()}."
            )
        return MaskedLanguageModel(architecture, vocab_size, sentence_head=True)

    def make_batch(
        self,
        rows: Rows,
        row_keys: UInt64Array,
        used: NDArray[np.bool_],
        *,
        training: bool,
        partners: Rows | None = None,
    ) -> MicroBatch[Batch]:
        """Make pairs of R rows and mask them; rows that are not `used` [R] get no weight."""
        pairs = make_pairs(rows, row_keys, used, self.sentence_task, self._facts.special_ids, partners)
        inputs, targets = self.mask(pairs.rows, row_keys, used, training=training)
        input_ids, position_ids, layout = from_rows(inputs, pairs.rows.segments)
        batch = Batch(
            input_ids=input_ids,
            position_ids=position_ids,
            layout=layout,
            target_positions=torch.from_numpy(targets.positions),
            labels=torch.from_numpy(targets.labels),
            weights=torch.from_numpy(targets.weights),
            token_type_ids=torch.from_numpy(pairs.token_type_ids.reshape(-1)),
            sentence_positions=torch.from_numpy(pairs.positions),
            sentence_labels=torch.from_numpy(pairs.labels),
            sentence_weights=torch.from_numpy(pairs.weights),
        )
        counts = {"masked_lm": float(targets.weights.sum()), self.sentence_task: float(pairs.weights.sum())}
        return MicroBatch(batch, counts, tokens=int((pairs.rows.segments > 0)[used].sum()))

    def loss(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """The summed losses of the target slots and of the pairs, in fp32; each 0 where no slot has a weight."""
        # Imported here: it brings torch's compiler along, a second of every process that only makes batches.
        from pretrain.objectives.linear_cross_entropy import linear_cross_entropy, output_layer

        assert batch.sentence_positions is not None
        assert batch.sentence_labels is not None and batch.sentence_weights is not None
        states, logits = cast(MaskedLanguageModel, model).forward_with_sentences(
            batch.input_ids,
            batch.position_ids,
            batch.layout,
            batch.target_positions,
            batch.token_type_ids,
            batch.sentence_positions,
        )
        per_pair = F.cross_entropy(logits.float(), batch.sentence_labels, reduction="none")
        return {
            "masked_lm": linear_cross_entropy(states, *output_layer(model), batch.labels, batch.weights),
            self.sentence_task: (per_pair * batch.sentence_weights).sum(),
        }
