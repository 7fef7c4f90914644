"""What is put on an encoder for each kind of task, its loss, and what its logits say of an item.

Classification and regression read one state a sequence; a multiple choice gives every option a score, and the options
of an item compete; a text with two marked spans is classified from both.
"""

import copy
import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conf.errors import InputError
from pretrain.evaluation.finetuning.batches import TaskBatch
from pretrain.evaluation.finetuning.recipe import Pooling
from pretrain.evaluation.tasks.definition import Kind
from pretrain.models.attention import AttentionLayout
from pretrain.models.dropout import dropout as drop
from pretrain.models.encoder import Encoder
from pretrain.models.heads import SequenceClassifier
from pretrain.models.initialization import truncated_normal_


class TextModel(SequenceClassifier):
    """One vector of logits a sequence, from its first token or from the mean of its tokens.

    The mean (Reimers and Gurevych 2019) is for models that were trained by masking alone: that asks nothing of the
    first token's state, so that a small model's first token says little until fine-tuning is long.
    """

    def __init__(self, encoder: Encoder, num_labels: int, dropout: float, pooling: Pooling) -> None:
        super().__init__(encoder, num_labels, dropout)
        self.pooling = pooling

    def logits(self, batch: TaskBatch) -> Tensor:
        """[S, num_labels], in the order of the batch's sequences."""
        types = _types(self.encoder, batch)
        if self.pooling == "first":
            states = self.encoder(
                batch.input_ids, batch.position_ids, batch.layout, types, output_positions=batch.starts
            )
        else:
            hidden = self.encoder(batch.input_ids, batch.position_ids, batch.layout, types)
            means = sequence_means(hidden, batch.layout)
            states = means[batch.layout.sequence_ids(len(hidden))[batch.starts]]
        return self.classify(states)


class SpanModel(nn.Module):
    """Logits of a text with two marked spans: [first token; mean of span a; mean of span b] -> dropout -> linear.

    Spans are represented by the states of their own tokens, as in edge probing (Tenney et al. 2019), with the mean for
    its attention, beside the first token, which BERT's classifiers read. The encoder is copied.
    """

    def __init__(self, encoder: Encoder, num_labels: int, dropout: float) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        self.encoder.pooler = None
        self.num_labels, self.dropout = num_labels, dropout
        size = encoder.config.hidden_size
        self.classifier = nn.Linear(3 * size, num_labels)
        truncated_normal_(self.classifier.weight, encoder.config.initializer_range)
        nn.init.zeros_(self.classifier.bias)

    def logits(self, batch: TaskBatch) -> Tensor:
        """[B, num_labels]."""
        assert batch.spans is not None  # the items are of this kind
        bounds = batch.spans.view(-1, 2)
        lengths = bounds[:, 1] - bounds[:, 0]
        owner = torch.repeat_interleave(torch.arange(len(bounds), device=lengths.device), lengths)
        within = torch.arange(len(owner), device=lengths.device) - (lengths.cumsum(0) - lengths)[owner]
        wanted = torch.cat([batch.starts, bounds[:, 0][owner] + within])
        hidden = self.encoder(
            batch.input_ids,
            batch.position_ids,
            batch.layout,
            _types(self.encoder, batch),
            output_positions=wanted,
        )
        first, inside = hidden.split([len(batch.starts), len(owner)])
        sums = hidden.new_zeros(len(bounds), hidden.shape[1]).index_add(0, owner, inside)
        means = (sums / lengths[:, None].to(sums.dtype)).view(len(first), -1)
        states = torch.cat([first, means], dim=1)
        return cast(Tensor, self.classifier(drop(states, self.dropout, self.training)))


TaskModel = TextModel | SpanModel


def make_model(kind: Kind, encoder: Encoder, num_labels: int, dropout: float, pooling: Pooling) -> TaskModel:
    """The model for a kind of task; new weights come from torch's global generator.

    `num_labels` is used where there are labels: a regression and each option of a choice have one score.

    Raises:
        InputError: minimal pairs, which have no head, or fewer than 2 labels to choose from.
    """
    if kind == "minimal_pair":
        raise InputError("minimal pairs are scored without training: take a task of texts, choices or spans")
    if kind in ("regression", "choice"):
        return TextModel(encoder, 1, dropout, pooling)
    if num_labels < 2:
        raise InputError(f"a task must have at least 2 labels, but has {num_labels}")
    if kind == "span":
        return SpanModel(encoder, num_labels, dropout)
    return TextModel(encoder, num_labels, dropout, pooling)


def loss_of(kind: Kind, logits: Tensor, batch: TaskBatch) -> Tensor:
    """Mean over the items of the batch: cross-entropy, for a regression the squared error."""
    if kind == "regression":
        return F.mse_loss(logits.float().squeeze(-1), batch.labels.float())
    return F.cross_entropy(item_logits(kind, logits, batch).float(), batch.labels.long())


def item_logits(kind: Kind, logits: Tensor, batch: TaskBatch) -> Tensor:
    """[B, labels], for a choice [B, most options] with -inf where an item has fewer options."""
    if kind != "choice":
        return logits
    places = torch.arange(int(batch.counts.max()), device=logits.device)[None, :] < batch.counts[:, None]
    empty = torch.full(places.shape, -math.inf, dtype=logits.dtype, device=logits.device)
    return empty.masked_scatter(places, logits.squeeze(-1))


def outputs_of(kind: Kind, logits: Tensor, batch: TaskBatch) -> Tensor:
    """float64 probabilities [B, labels] (of missing options 0), for a regression the scores [B, 1]."""
    if kind == "regression":
        return logits.double()
    return torch.softmax(item_logits(kind, logits, batch).double(), dim=-1)


def sequence_means(hidden: Tensor, layout: AttentionLayout) -> Tensor:
    """Mean of [T, hidden] over each sequence of the layout -> [sequences, hidden]; an empty sequence gives zeros."""
    lengths = (layout.cu_seqlens[1:] - layout.cu_seqlens[:-1]).to(hidden.dtype)
    sums = hidden.new_zeros(len(lengths), hidden.shape[1])
    sums = sums.index_add(0, layout.sequence_ids(len(hidden)), hidden)
    return sums / lengths.clamp(min=1.0)[:, None]


def _types(encoder: Encoder, batch: TaskBatch) -> Tensor | None:
    """Token types; None for a model without a second type."""
    return batch.token_type_ids if encoder.config.token_types >= 2 else None
