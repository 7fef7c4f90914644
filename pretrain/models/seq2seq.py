"""The encoder-decoder: token ids of packed pairs -> the decoder's states and logits. No loss is known here.

Source and target are two batches of flat tokens with a layout each; sequence i of the decoder reads sequence i of the
encoder and no other.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout, Kernel, choose_kernel, prepare_cross_mask, prepare_mask
from pretrain.models.config import Seq2SeqConfig
from pretrain.models.encoder import padded_vocab_size
from pretrain.models.encoder_decoder import EncoderDecoder
from pretrain.models.initialization import initialize
from pretrain.models.layers import (
    DecoderLayer,
    EncoderLayer,
    Seq2SeqEmbeddings,
    layer_norm,
    require_positions,
    run_layer,
    working_dtype,
)
from pretrain.models.seq2seq_decoder import CachedDecoder
from pretrain.models.tokens import Tokens


class _Stack(nn.Module):
    """What the two sides have in common: embeddings, layers, and in the pre-norm form a last LayerNorm.

    `activation_checkpointing` (off until it is set) is that of `encoder.Encoder`.
    """

    def __init__(self, config: Seq2SeqConfig, embeddings: Seq2SeqEmbeddings, layers: list[EncoderLayer]) -> None:
        super().__init__()
        self.config = config
        self.activation_checkpointing = False
        self.embeddings = embeddings
        self.layers = nn.ModuleList(layers)
        self.final_norm = layer_norm(config) if config.norm == "pre" else nn.Identity()
        initialize(self, config)

    def _run(self, hidden: Tensor, *inputs: object, output_positions: Tensor | None = None) -> Tensor:
        """Pass `hidden` and what all layers read through the layers; the last one may give wanted positions only."""
        recompute = self.activation_checkpointing and self.training and torch.is_grad_enabled()
        draws = max(self.config.dropout, self.config.attention_dropout) > 0.0
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            wanted = output_positions if index == last else None
            hidden = run_layer(layer, hidden, *inputs, wanted, recompute=recompute, draws=draws)
        normed: Tensor = self.final_norm(hidden)
        return normed


class Seq2SeqEncoder(_Stack):
    """Tokens that all see each other within their sequence; it owns the token embedding of the whole model."""

    def __init__(self, config: Seq2SeqConfig, padded_vocab_size: int) -> None:
        layers = [EncoderLayer(config) for _ in range(config.num_encoder_layers)]
        super().__init__(config, Seq2SeqEmbeddings(config, padded_vocab_size), layers)

    def forward(self, vectors: Tensor, source: Tokens) -> Tensor:
        """Vectors [T, hidden] of the source's tokens -> states [T, hidden]."""
        hidden = self.embeddings(vectors, source.position_ids, source.language_ids)
        return self._run(hidden, source.layout, None)


class Seq2SeqDecoder(_Stack):
    """Tokens that see those before them in their sequence, and all states of the encoder's sequence."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        layers: list[EncoderLayer] = [DecoderLayer(config) for _ in range(config.num_decoder_layers)]
        super().__init__(config, Seq2SeqEmbeddings(config), layers)

    def forward(
        self,
        vectors: Tensor,
        target: Tokens,
        memory: Tensor,
        memory_layout: AttentionLayout,
        hidden_keys: Tensor | None,
        output_positions: Tensor | None,
    ) -> Tensor:
        """Vectors [D, hidden] of the target's tokens, `memory` [T, hidden] -> states [D or C, hidden]."""
        hidden = self.embeddings(vectors, target.position_ids, target.language_ids)
        return self._run(hidden, target.layout, memory, memory_layout, hidden_keys, output_positions=output_positions)


class OutputBias(nn.Module):
    """The bias of the output layer, whose matrix is the token embedding: a number a token of the padded vocabulary."""

    def __init__(self, padded_vocab_size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(padded_vocab_size))


class Seq2SeqModel(EncoderDecoder):
    """Encoder and decoder with one token embedding, which is the output matrix as well (`config.Seq2SeqConfig`).

    Weights are initialised (`initialization.py`) from torch's global generator: seed it before. Raises InputError if
    `vocab_size` is below 1.
    """

    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig, vocab_size: int) -> None:
        super().__init__()
        if vocab_size < 1:
            raise InputError(f"vocab_size must be at least 1, but is {vocab_size}")
        self.config, self.vocab_size = config, vocab_size
        self.encoder = Seq2SeqEncoder(config, padded_vocab_size(vocab_size))
        self.decoder = Seq2SeqDecoder(config)
        self.head = OutputBias(padded_vocab_size(vocab_size))
        with torch.no_grad():
            self._token.weight[vocab_size:] = 0.0

    @property
    def _token(self) -> nn.Embedding:
        assert self.encoder.embeddings.token is not None  # the encoder's side has the table
        return self.encoder.embeddings.token

    def encode(self, source: Tokens) -> Tensor:
        """T tokens -> the encoder's states [T, hidden].

        Raises InputError if a sequence may be longer than max_positions, or without ids of languages that are needed.
        """
        layout, input_ids = source.layout, source.input_ids
        require_positions(layout, self.config.max_positions)
        vectors = self._token(input_ids)
        prepare_mask(layout, len(input_ids), *self._kernel(input_ids.device, hides_keys=False), False, None)
        states: Tensor = self.encoder(vectors, source)
        return states

    def decode(
        self,
        target: Tokens,
        memory: Tensor,
        memory_layout: AttentionLayout,
        *,
        hidden_keys: Tensor | None = None,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        """The decoder's D tokens and the encoder's states [T, hidden] -> states [D, hidden].

        With `output_positions` int64 [C] only these, [C, hidden]. `hidden_keys` bool [T] as in `target_states`. Raises
        InputError as `encode` does.
        """
        layout, input_ids = target.layout, target.input_ids
        require_positions(layout, self.config.max_positions)
        vectors = self._token(input_ids)
        # What the layers share is made before them: a layer that is compiled or computed twice must change nothing.
        length, device = len(input_ids), input_ids.device
        prepare_mask(layout, length, *self._kernel(device, hides_keys=False), True, None)
        kernel, dtype = self._kernel(device, hides_keys=hidden_keys is not None)
        prepare_cross_mask(layout, length, memory_layout, len(memory), hidden_keys, kernel, dtype)
        states: Tensor = self.decoder(vectors, target, memory, memory_layout, hidden_keys, output_positions)
        return states

    def incremental_decoder(
        self,
        source_ids: Tensor,
        source_lengths: Tensor,
        *,
        source_language: int | None = None,
        target_language: int | None = None,
    ) -> CachedDecoder:
        """The decoder as a search drives it (`pretrain/decoding/incremental.py`); the encoder runs here, once.

        int64 [N, S], padded with any ids, and int64 [N] >= 1. Languages are ids, for a model with languages. Raises
        InputError as `CachedDecoder` does.
        """
        return CachedDecoder(self, source_ids, source_lengths, source_language, target_language)

    def output_matrix(self) -> Tensor:
        """The token embedding, [padded vocabulary, hidden]."""
        return self._token.weight

    def logits(self, states: Tensor) -> Tensor:
        """[C, hidden] -> [C, vocab_size]; the rows that pad the vocabulary are cut off."""
        logits = F.linear(states, self.output_matrix(), self.head.bias)
        return logits[:, : self.vocab_size] if logits.shape[1] != self.vocab_size else logits

    def _kernel(self, device: torch.device, hides_keys: bool) -> tuple[Kernel, torch.dtype]:
        """The kernel that attention will use, and the type of queries and keys there."""
        dtype = working_dtype(self._token.weight, device)
        dropout_p = self.config.attention_dropout if self.training else 0.0
        return choose_kernel(self.config.attention_kernel, device, dtype, dropout_p, hides_keys), dtype

    def num_parameters(self) -> int:
        """Trained numbers, without the rows that pad the vocabulary and counting the tied matrix once."""
        padding = (self.head.bias.numel() - self.vocab_size) * (self.config.hidden_size + 1)
        return sum(parameter.numel() for parameter in self.parameters()) - padding
