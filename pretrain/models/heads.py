"""What is put on an encoder: the masked-LM head, the sentence head, and a classifier of whole sequences."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout
from pretrain.models.config import EncoderConfig
from pretrain.models.dropout import dropout as drop
from pretrain.models.encoder import Encoder
from pretrain.models.initialization import residual_deviation, truncated_normal_


class MaskedLanguageHead(nn.Module):
    """Hidden state -> dense, GELU, LayerNorm -> logits by the (tied) input embedding plus an output bias.

    The embedding is passed in, so that the tied weight exists once.
    """

    def __init__(self, config: EncoderConfig, padded_vocab_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=config.biases)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=config.biases)
        self.bias = nn.Parameter(torch.zeros(padded_vocab_size))
        truncated_normal_(self.dense.weight, residual_deviation(config, 2 * config.num_layers))
        if self.dense.bias is not None:
            nn.init.zeros_(self.dense.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """[C, hidden] -> [C, hidden], ready to be multiplied by the embedding."""
        return self.norm(F.gelu(self.dense(hidden)))


class SentenceHead(nn.Module):
    """Two logits from a pooled first token: BERT's next-sentence head (Devlin et al. 2019), or sentence order."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2)
        truncated_normal_(self.dense.weight, config.initializer_range)
        nn.init.zeros_(self.dense.bias)

    def forward(self, pooled: Tensor) -> Tensor:
        """[P, hidden] -> [P, 2]."""
        return self.dense(pooled)


class SequenceClassifier(nn.Module):
    """The encoder with a classifier on each sequence's first token, for fine-tuning.

    The encoder is copied: fine-tuning several tasks or seeds from one checkpoint leaves it as it was. The part
    between follows the published models: BERT's pooler (dense, tanh) in the post-norm form, ModernBERT's head (dense,
    GELU, LayerNorm) in the pre-norm one. A pooler that was pretrained is taken over as in BERT; all else of it, and
    the classifier, starts fresh from torch's global generator. One label is a score: regression, or one option of a
    multiple choice. Raises InputError for fewer than 1 label or a dropout outside [0, 1).
    """

    def __init__(self, encoder: Encoder, num_labels: int, dropout: float = 0.1) -> None:
        super().__init__()
        if num_labels < 1:
            raise InputError(f"num_labels must be at least 1, but is {num_labels}")
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"dropout must be in [0, 1), but is {dropout}")
        config = encoder.config
        self.encoder = copy.deepcopy(encoder)
        self.num_labels, self.dropout = num_labels, dropout
        self.modern = config.norm == "pre"
        self.dense = nn.Linear(config.hidden_size, config.hidden_size, bias=config.biases)
        self.norm = (
            nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=config.biases)
            if self.modern
            else nn.Identity()
        )
        self.classifier = nn.Linear(config.hidden_size, num_labels)
        truncated_normal_(self.dense.weight, residual_deviation(config, 2 * config.num_layers))
        # ModernBERT's "final out" deviation is 1 / sqrt(hidden size); BERT's classifier is like its other matrices.
        truncated_normal_(self.classifier.weight, config.hidden_size**-0.5 if self.modern else config.initializer_range)
        for linear in (self.dense, self.classifier):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        pretrained, self.encoder.pooler = self.encoder.pooler, None
        if pretrained is not None and not self.modern:
            self.dense = pretrained

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        layout: AttentionLayout,
        starts: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """int64 [T] each, and int64 `starts` [S], the first tokens -> logits [S, num_labels]."""
        return self.classify(self.encoder(input_ids, position_ids, layout, token_type_ids, output_positions=starts))

    def classify(self, states: Tensor) -> Tensor:
        """What stands for each sequence, [S, hidden] -> logits [S, num_labels]."""
        pooled = self.dense(states)
        pooled = self.norm(F.gelu(pooled)) if self.modern else torch.tanh(pooled)
        return self.classifier(drop(pooled, self.dropout, self.training))
