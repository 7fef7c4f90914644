"""The encoder: token ids of packed sequences -> hidden states. No head, no loss, no data set is known here."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout
from pretrain.models.config import EncoderConfig
from pretrain.models.initialization import initialize
from pretrain.models.layers import Embeddings, EncoderLayer, RotaryAngles, RotaryPositions

__all__ = ["Encoder", "EncoderConfig", "padded_vocab_size"]

VOCABULARY_MULTIPLE = 64


def padded_vocab_size(vocab_size: int) -> int:
    """`vocab_size` rounded up to a multiple of 64, which matrix kernels like; the tail is trimmed at export."""
    return -(-vocab_size // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


class Encoder(nn.Module):
    """Embeddings, layers, and in the pre-norm form a last LayerNorm.

    Weights are initialised as published (`initialization.py`) from torch's global generator: seed it before.
    Raises InputError if `vocab_size` is below 1.
    """

    def __init__(self, config: EncoderConfig, vocab_size: int) -> None:
        super().__init__()
        if vocab_size < 1:
            raise InputError(f"vocab_size must be at least 1, but is {vocab_size}")
        self.config, self.vocab_size = config, vocab_size
        self.embeddings = Embeddings(config, padded_vocab_size(vocab_size))
        self.rotary = RotaryPositions(config) if config.positions == "rope" else None
        self.layers = nn.ModuleList(EncoderLayer(config, index) for index in range(config.num_layers))
        self.final_norm = (
            nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=config.biases)
            if config.norm == "pre"
            else nn.Identity()
        )
        initialize(self, config)
        with torch.no_grad():
            self.embeddings.token.weight[vocab_size:] = 0.0

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        layout: AttentionLayout,
        token_type_ids: Tensor | None = None,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        """int64 [T] each -> hidden states [T, hidden], or [C, hidden] at int64 `output_positions` [C].

        Where only some tokens are wanted (masked ones, first ones), the last layer does nearly all of its work for
        these alone; the result is the same. Raises InputError if a sequence may be longer than max_positions.
        """
        if layout.max_seqlen > self.config.max_positions:
            raise InputError(
                f"a batch has sequences of up to {layout.max_seqlen} tokens, but model.max_positions is "
                f"{self.config.max_positions}; shorten the rows or use a model with more positions"
            )
        hidden = self.embeddings(input_ids, position_ids, token_type_ids)
        rotary = RotaryAngles(self.rotary, position_ids) if self.rotary is not None else None
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, layout, rotary, output_positions if index == last else None)
        return self.final_norm(hidden)

    def num_parameters(self) -> int:
        """Trained numbers, without the rows that pad the vocabulary: comparable with published counts."""
        padding = (self.embeddings.token.num_embeddings - self.vocab_size) * self.config.hidden_size
        return sum(parameter.numel() for parameter in self.parameters()) - padding
