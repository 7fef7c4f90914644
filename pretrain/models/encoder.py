"""The encoder: token ids of packed sequences -> hidden states. No head, no loss, no data set is known here."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout, choose_kernel, prepare_mask
from pretrain.models.config import EncoderConfig
from pretrain.models.initialization import initialize
from pretrain.models.layers import Embeddings, EncoderLayer, layer_norm, require_positions, run_layer, working_dtype
from pretrain.models.positions import RotaryPositions

__all__ = ["Encoder", "EncoderConfig", "padded_vocab_size"]

VOCABULARY_MULTIPLE = 64


def padded_vocab_size(vocab_size: int) -> int:
    """`vocab_size` rounded up to a multiple of 64, which matrix kernels like; the tail is trimmed at export."""
    return -(-vocab_size // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE


class Encoder(nn.Module):
    """Embeddings, layers, and in the pre-norm form a last LayerNorm; the pooler if the configuration has one.

    With `activation_checkpointing` (off until it is set) training keeps only what goes into each layer and computes
    the layer again for its gradient: the same gradients to the bit, about a third more work, far less memory.

    Weights are initialised as published (`initialization.py`) from torch's global generator: seed it before.
    Raises InputError if `vocab_size` is below 1.
    """

    def __init__(self, config: EncoderConfig, vocab_size: int) -> None:
        super().__init__()
        if vocab_size < 1:
            raise InputError(f"vocab_size must be at least 1, but is {vocab_size}")
        self.config, self.vocab_size = config, vocab_size
        self.activation_checkpointing = False
        self.embeddings = Embeddings(config, padded_vocab_size(vocab_size))
        self.rotary = _rotary(config, config.rope_base) if config.positions == "rope" else None
        local_base = config.local_rope_base or config.rope_base
        self.local_rotary = _rotary(config, local_base) if local_base != config.rope_base else None
        # The embeddings are normalised already, so ModernBERT's first layer does not do it again.
        self.layers = nn.ModuleList(
            EncoderLayer(config, causal=config.causal, window=config.window(index), normed_input=index == 0)
            for index in range(config.num_layers)
        )
        self.final_norm = layer_norm(config) if config.norm == "pre" else nn.Identity()
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size, bias=config.biases) if config.pooler else None
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
        require_positions(layout, self.config.max_positions)
        hidden = self.embeddings(input_ids, position_ids, token_type_ids)
        # What the layers share is made before them: a layer that is compiled or computed twice must change nothing.
        dtype = working_dtype(self.embeddings.token.weight, input_ids.device)
        angles = self.rotary(position_ids, dtype) if self.rotary is not None else None
        local = self.local_rotary(position_ids, dtype) if self.local_rotary is not None else angles
        self._prepare(layout, hidden, dtype)
        last = len(self.layers) - 1
        again = self.activation_checkpointing and self.training and torch.is_grad_enabled()
        for index, layer in enumerate(self.layers):
            rotary = angles if self.config.window(index) is None else local
            wanted = output_positions if index == last else None
            hidden = run_layer(layer, hidden, layout, rotary, wanted, recompute=again, draws=self._draws)
        return self.final_norm(hidden)

    def pool(self, first: Tensor) -> Tensor:
        """Hidden states of sequences' first tokens [S, hidden] -> tanh(dense) [S, hidden] (Devlin et al. 2019).

        Raises InputError if the configuration has no pooler.
        """
        if self.pooler is None:
            raise InputError("this encoder has no pooler; set model.pooler=true")
        return torch.tanh(self.pooler(first))

    def _prepare(self, layout: AttentionLayout, hidden: Tensor, dtype: torch.dtype) -> None:
        config = self.config
        dropout_p = config.attention_dropout if self.training else 0.0
        kernel = choose_kernel(config.attention_kernel, hidden.device, dtype, dropout_p)
        for window in {config.window(index): None for index in range(config.num_layers)}:
            prepare_mask(layout, len(hidden), kernel, dtype, config.causal, window)

    @property
    def _draws(self) -> bool:
        """Whether layers draw from the generator, so that computing them again must start from its state."""
        config = self.config
        return max(config.dropout, config.attention_dropout, config.output_dropout) > 0.0

    def num_parameters(self) -> int:
        """Trained numbers, without the rows that pad the vocabulary: comparable with published counts."""
        padding = (self.embeddings.token.num_embeddings - self.vocab_size) * self.config.hidden_size
        return sum(parameter.numel() for parameter in self.parameters()) - padding


def _rotary(config: EncoderConfig, base: float) -> RotaryPositions:
    return RotaryPositions(config.head_dim, config.max_positions, base)
