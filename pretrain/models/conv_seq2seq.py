"""The convolutional encoder-decoder of Gehring et al. (2017): token ids of packed pairs -> states and logits.

Where the paper leaves something open, it is as in the authors' code (fairseq's fconv). No loss is known here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout, Kernel, choose_kernel, prepare_cross_mask
from pretrain.models.conv_config import ConvSeq2SeqConfig
from pretrain.models.conv_layers import (
    SQRT_HALF,
    AttendedSource,
    Borders,
    ConvDecoderLayer,
    ConvEncoderLayer,
    linear,
    normalized,
    reach,
    scale_gradient,
)
from pretrain.models.dropout import dropout
from pretrain.models.encoder import padded_vocab_size
from pretrain.models.encoder_decoder import EncoderDecoder
from pretrain.models.layers import add_language, require_positions, run_layer, working_dtype
from pretrain.models.tokens import Tokens

if TYPE_CHECKING:
    from pretrain.models.conv_incremental import ConvIncrementalDecoder


class Memory(NamedTuple):
    """The encoder's side as a decoder reads it: `keys` z and `values` (z + e) * sqrt(0.5), [T, embedding] each."""

    keys: Tensor
    values: Tensor


class ConvEmbeddings(nn.Module):
    """One side's embeddings: token vectors + positions (+ languages), dropout; `projection` leads to the first layer.

    `token` is None where the encoder's table serves both sides; whoever calls looks tokens up.
    """

    def __init__(self, config: ConvSeq2SeqConfig, width: int, padded_vocab_size: int | None) -> None:
        super().__init__()
        size = config.embedding_size
        self.token = nn.Embedding(padded_vocab_size, size) if padded_vocab_size is not None else None
        self.position = nn.Embedding(config.max_positions, size)
        self.language = nn.Embedding(len(config.languages), size) if config.languages else None
        self.projection = linear(size, width, config.dropout)
        self.dropout = config.dropout
        with torch.no_grad():
            for table in (self.token, self.position, self.language):
                if table is not None:
                    table.weight.normal_(0.0, config.initializer_range)

    def forward(self, tokens: Tensor, position_ids: Tensor, language_ids: Tensor | None) -> Tensor:
        """[N, embedding], int64 [N] each -> [N, embedding]. Ids of languages are not used where the model has none.

        Raises InputError without ids of languages where the model has some.
        """
        hidden = add_language(tokens + self.position(position_ids), self.language, language_ids)
        return dropout(hidden, self.dropout, self.training)


class _Stack(nn.Module):
    """What the two sides have in common: embeddings, layers, and a projection of the last layer's states.

    `activation_checkpointing` (off until it is set) is that of `encoder.Encoder`.
    """

    def __init__(
        self, config: ConvSeq2SeqConfig, layers: list[tuple[int, int]], vocab_rows: int | None, causal: bool
    ) -> None:
        super().__init__()
        self.config = config
        self.activation_checkpointing = False
        self.embeddings = ConvEmbeddings(config, layers[0][0], vocab_rows)
        reaches = [reach(kernel, causal) for _, kernel in layers]
        self._before, self._after = (max(both) for both in zip(*reaches, strict=True))
        built, inputs = [], layers[0][0]
        for width, kernel in layers:
            built.append(
                ConvDecoderLayer(inputs, width, kernel, config.dropout, config.embedding_size)
                if causal
                else ConvEncoderLayer(inputs, width, kernel, config.dropout)
            )
            inputs = width
        self.layers = nn.ModuleList(built)
        self.output = linear(inputs, config.output_size if causal else config.embedding_size)

    def _run(self, embedded: Tensor, layout: AttentionLayout, *inputs: object) -> Tensor:
        """Project the embeddings and pass them, and what all layers read, through the layers."""
        recompute = self.activation_checkpointing and self.training and torch.is_grad_enabled()
        # What the layers share is made before them: a layer that is compiled or computed twice must change nothing.
        borders = Borders(layout, len(embedded), self._before, self._after)
        hidden = self.embeddings.projection(embedded).to(embedded.dtype)
        for layer in self.layers:
            hidden = run_layer(layer, hidden, borders, *inputs, recompute=recompute, draws=self.config.dropout > 0.0)
        return hidden


class ConvEncoder(_Stack):
    """Each token sees its neighbours; the token table here is that of both sides where they share one."""

    def __init__(self, config: ConvSeq2SeqConfig, padded_vocab_size: int) -> None:
        super().__init__(config, config.encoder_convolutions, padded_vocab_size, causal=False)
        self._gradient_factor = 1.0 / (2.0 * len(config.decoder_convolutions))

    def forward(self, vectors: Tensor, source: Tokens) -> Memory:
        """Vectors [T, embedding] of the source's tokens -> keys and values.

        The gradient that comes back through z is divided by twice the number of layers that attend to it; the one of e
        by itself, in the values, is not (the paper excludes the embeddings).
        """
        embedded = self.embeddings(vectors, source.position_ids, source.language_ids)
        states = self.output(self._run(embedded, source.layout))
        states = scale_gradient(states, self._gradient_factor)
        return Memory(states, (states + embedded) * SQRT_HALF)


class ConvDecoder(_Stack):
    """Each token sees itself and those before it within its kernels, and in every layer the whole source."""

    def __init__(self, config: ConvSeq2SeqConfig, padded_vocab_size: int) -> None:
        own = None if config.share_embeddings else padded_vocab_size
        super().__init__(config, config.decoder_convolutions, own, causal=True)

    def forward(
        self, vectors: Tensor, target: Tokens, source: AttendedSource, output_positions: Tensor | None
    ) -> Tensor:
        """Vectors [D, embedding] of the target's tokens -> states [D or C, output]."""
        embedded = self.embeddings(vectors, target.position_ids, target.language_ids)
        hidden = self._run(embedded, target.layout, embedded, source)
        if output_positions is not None:
            hidden = hidden.index_select(0, output_positions)
        return dropout(self.output(hidden), self.config.dropout, self.training)


class ConvOutputLayer(nn.Module):
    """The output layer: a bias for each token of the padded vocabulary, and its own weight-normalised matrix unless the
    token table is that matrix. `forward` gives the matrix, so that whoever multiplies may do it in pieces."""

    def __init__(self, config: ConvSeq2SeqConfig, vocab_size: int) -> None:
        super().__init__()
        rows = padded_vocab_size(vocab_size)
        self.bias = nn.Parameter(torch.zeros(rows))
        if config.share_embeddings:
            return
        self.direction = nn.Parameter(torch.empty(rows, config.output_size))
        self.gain = nn.Parameter(torch.empty(rows))
        with torch.no_grad():
            self.direction.normal_(0.0, output_deviation(config))
            self.direction[vocab_size:] = 0.0
            self.gain.copy_(torch.linalg.vector_norm(self.direction, dim=1))

    def forward(self) -> Tensor:
        """The matrix [padded vocabulary, output]."""
        return normalized(self.direction, self.gain)


def output_deviation(config: ConvSeq2SeqConfig) -> float:
    """The deviation of the initial output matrix, which reads states with dropout: sqrt((1 - dropout) / size)."""
    return math.sqrt((1.0 - config.dropout) / config.output_size)


class ConvSeq2SeqModel(EncoderDecoder):
    """Encoder and decoder of gated convolutions, with attention in every layer of the decoder (`ConvSeq2SeqConfig`).

    A convolution runs over the tokens as given: where a decoder's leave some out (MASS), its neighbours are the tokens
    that are there, each with the embedding of its own position.

    Weights are initialised as published, from torch's global generator: seed it before. Raises InputError if
    `vocab_size` is below 1.
    """

    config: ConvSeq2SeqConfig

    def __init__(self, config: ConvSeq2SeqConfig, vocab_size: int) -> None:
        super().__init__()
        if vocab_size < 1:
            raise InputError(f"vocab_size must be at least 1, but is {vocab_size}")
        self.config, self.vocab_size = config, vocab_size
        self.encoder = ConvEncoder(config, padded_vocab_size(vocab_size))
        self.decoder = ConvDecoder(config, padded_vocab_size(vocab_size))
        self.head = ConvOutputLayer(config, vocab_size)
        with torch.no_grad():
            for table in {self.token_table("encoder"), self.token_table("decoder")}:
                table.weight[vocab_size:] = 0.0

    def token_table(self, side: Literal["encoder", "decoder"]) -> nn.Embedding:
        """Where one side looks its tokens up: the encoder's table, or the decoder's own."""
        own = (self.decoder if side == "decoder" else self.encoder).embeddings.token
        table = self.encoder.embeddings.token if own is None else own
        assert table is not None  # the encoder's side always has one
        return table

    def encode(self, source: Tokens) -> Memory:
        """T tokens -> the encoder's keys and values.

        Raises InputError if a sequence may be longer than max_positions, or without ids of languages that are needed.
        """
        require_positions(source.layout, self.config.max_positions)
        memory: Memory = self.encoder(self.token_table("encoder")(source.input_ids), source)
        return memory

    def decode(
        self,
        target: Tokens,
        memory: Memory,
        memory_layout: AttentionLayout,
        *,
        hidden_keys: Tensor | None = None,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        """The decoder's D tokens and the encoder's keys and values -> states [D, output].

        With `output_positions` int64 [C] only these, [C, output]. `hidden_keys` bool [T] as in `target_states`. Raises
        InputError as `encode` does.
        """
        layout, input_ids = target.layout, target.input_ids
        require_positions(layout, self.config.max_positions)
        length, keys = len(input_ids), len(memory.keys)
        kernel, dtype = self._kernel(input_ids.device)
        prepare_cross_mask(layout, length, memory_layout, keys, hidden_keys, kernel, dtype)
        source = AttendedSource(*memory, layout, length, memory_layout, hidden_keys, kernel)
        vectors = self.token_table("decoder")(input_ids)
        states: Tensor = self.decoder(vectors, target, source, output_positions)
        return states

    def incremental_decoder(
        self,
        source_ids: Tensor,
        source_lengths: Tensor,
        *,
        source_language: int | None = None,
        target_language: int | None = None,
    ) -> ConvIncrementalDecoder:
        """A decoder of one token more at each step, for a search; its class says what the arguments are."""
        from pretrain.models.conv_incremental import ConvIncrementalDecoder  # it knows this class

        return ConvIncrementalDecoder(
            self, source_ids, source_lengths, source_language=source_language, target_language=target_language
        )

    def _kernel(self, device: torch.device) -> tuple[Kernel, torch.dtype]:
        """The kernel that attention will use, and the type of queries and keys there."""
        dtype = working_dtype(self.head.bias, device)
        # One head as wide as the embedding is more than flash attention takes, as if keys were hidden.
        return choose_kernel(self.config.attention_kernel, device, dtype, hides_keys=True), dtype

    def output_matrix(self) -> Tensor:
        """The matrix [padded vocabulary, output] that `logits` multiplies with; its bias is `head.bias`."""
        if self.config.share_embeddings:
            return self.token_table("encoder").weight
        matrix: Tensor = self.head()
        return matrix

    def logits(self, states: Tensor) -> Tensor:
        """[C, output] -> [C, vocab_size]; the rows that pad the vocabulary are cut off."""
        logits = F.linear(states, self.output_matrix(), self.head.bias)
        return logits[:, : self.vocab_size] if logits.shape[1] != self.vocab_size else logits

    def num_parameters(self) -> int:
        """Trained numbers, without the rows that pad the vocabulary and counting a shared table once."""
        padding = self.head.bias.numel() - self.vocab_size
        per_token = sum(shape[1] if len(shape) == 2 else 1 for shape in vocabulary_shapes(self.config, 1).values())
        return sum(parameter.numel() for parameter in self.parameters()) - padding * per_token


def vocabulary_shapes(config: ConvSeq2SeqConfig, rows: int) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters with one row a token of a (padded) vocabulary of `rows`, by name."""
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.embeddings.token.weight": (rows, config.embedding_size),
        "head.bias": (rows,),
    }
    if not config.share_embeddings:
        shapes["decoder.embeddings.token.weight"] = (rows, config.embedding_size)
        shapes["head.direction"], shapes["head.gain"] = (rows, config.output_size), (rows,)
    return shapes
