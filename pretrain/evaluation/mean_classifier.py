"""A classifier on the mean of a sequence's hidden states, beside the first-token one of `pretrain/models/heads.py`."""

import torch
import torch.nn.functional as F
from torch import Tensor

from pretrain.models.attention import AttentionLayout
from pretrain.models.heads import SequenceClassifier


class MeanClassifier(SequenceClassifier):
    """As its parent, but reads all tokens' mean (Reimers and Gurevych 2019) and not the first token.

    Masked-LM training alone never asks anything of the first token's state, so that a small model's first token says
    little until fine-tuning is long; the mean carries from the start what pretraining has put into the tokens.
    """

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        layout: AttentionLayout,
        starts: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """int64 [T] each, and int64 `starts` [S], the first tokens -> logits [S, num_labels]."""
        hidden = self.encoder(input_ids, position_ids, layout, token_type_ids)
        pooled = self.dense(sequence_means(hidden, layout)[layout.sequence_ids(len(hidden))[starts]])
        pooled = self.norm(F.gelu(pooled)) if self.modern else torch.tanh(pooled)
        return self.classifier(F.dropout(pooled, self.dropout, self.training))


def sequence_means(hidden: Tensor, layout: AttentionLayout) -> Tensor:
    """Mean of [T, hidden] over each sequence of the layout -> [sequences, hidden]; an empty sequence gives zeros."""
    lengths = (layout.cu_seqlens[1:] - layout.cu_seqlens[:-1]).to(hidden.dtype)
    sums = hidden.new_zeros(len(lengths), hidden.shape[1])
    sums = sums.index_add(0, layout.sequence_ids(len(hidden)), hidden)
    return sums / lengths.clamp(min=1.0)[:, None]
