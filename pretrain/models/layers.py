"""The blocks of a model: embeddings, self- and cross-attention, MLP, and the layers that join them.

All work on flat tokens [T, hidden]; `attention.py` keeps sequences apart. Nothing here knows a loss or a vocabulary
beyond its size.
"""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout, attention
from pretrain.models.config import EncoderConfig, Seq2SeqConfig, TransformerConfig
from pretrain.models.dropout import dropout
from pretrain.models.positions import RotaryAngles, SinusoidalPositions, rotate


def layer_norm(config: TransformerConfig) -> nn.LayerNorm:
    """A LayerNorm of the model's width."""
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=config.biases)


class Embeddings(nn.Module):
    """Token (+ learned position, + token type) embeddings, LayerNorm, dropout.

    The token table has `padded_vocab_size` rows; the tail beyond the vocabulary is never looked up.
    """

    def __init__(self, config: EncoderConfig, padded_vocab_size: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.token = nn.Embedding(padded_vocab_size, size)
        self.position = nn.Embedding(config.max_positions, size) if config.positions == "learned" else None
        self.token_type = nn.Embedding(config.token_types, size) if config.token_types else None
        self.norm = layer_norm(config)
        self.dropout = config.dropout

    def forward(self, input_ids: Tensor, position_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """int64 [T] each -> [T, hidden]. Without `token_type_ids` every token is of type 0."""
        hidden = self.token(input_ids)
        if self.position is not None:
            hidden = hidden + self.position(position_ids)
        if self.token_type is not None:
            if token_type_ids is None:
                hidden = hidden + self.token_type.weight[0]
            else:
                hidden = hidden + self.token_type(token_type_ids)
        return dropout(self.norm(hidden), self.dropout, self.training)


class Seq2SeqEmbeddings(nn.Module):
    """One side's embeddings: token vectors (+ position, + language), LayerNorm, dropout.

    Only the encoder's has the token table, of `padded_vocab_size` rows, so that the weight exists once; whoever calls
    looks tokens up there.
    """

    def __init__(self, config: Seq2SeqConfig, padded_vocab_size: int | None = None) -> None:
        super().__init__()
        size = config.hidden_size
        self.token = nn.Embedding(padded_vocab_size, size) if padded_vocab_size is not None else None
        learned = config.positions == "learned"
        self.position: nn.Module = (
            nn.Embedding(config.max_positions, size) if learned else SinusoidalPositions(size, config.max_positions)
        )
        self.language = nn.Embedding(len(config.languages), size) if config.languages else None
        self.norm = layer_norm(config)
        self.dropout = config.dropout
        self.scale = size**0.5 if config.scale_embeddings else None

    def forward(self, tokens: Tensor, position_ids: Tensor, language_ids: Tensor | None) -> Tensor:
        """[N, hidden], int64 [N] each -> [N, hidden]. Ids of languages are not used where the model has none.

        Raises InputError without ids of languages where the model has some.
        """
        hidden = tokens if self.scale is None else tokens * self.scale
        hidden = hidden + self.position(position_ids).to(hidden.dtype)
        hidden = add_language(hidden, self.language, language_ids)
        return dropout(self.norm(hidden), self.dropout, self.training)


def add_language(hidden: Tensor, table: nn.Embedding | None, language_ids: Tensor | None) -> Tensor:
    """[N, size] with the vectors of the languages int64 [N] added, or as it is without a `table`.

    Raises InputError without ids where there is a table.
    """
    if table is None:
        return hidden
    if language_ids is None:
        raise InputError(
            "the model has language embeddings (model.languages), but the batch says no token's language; set "
            "model.languages=[] or use data and an objective with languages"
        )
    return hidden + cast(Tensor, table(language_ids))


class SelfAttention(nn.Module):
    """Queries, keys and values by one fused projection, attention within sequences; `output` projects the result.

    `causal` and `window` say what a token sees (`attention.attention`).
    """

    def __init__(self, config: TransformerConfig, causal: bool = False, window: int | None = None) -> None:
        super().__init__()
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=config.biases)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=config.biases)
        self.num_heads, self.head_dim = config.num_heads, config.head_dim
        self.kernel, self.dropout = config.attention_kernel, config.attention_dropout
        self.causal, self.window = causal, window

    def forward(self, hidden: Tensor, layout: AttentionLayout, rotary: RotaryAngles | None) -> Tensor:
        """[T, hidden] -> the heads' results [T, hidden], before `output`."""
        qkv = self.qkv(hidden).view(-1, 3, self.num_heads, self.head_dim)
        if rotary is None:
            q, k, v = qkv.unbind(1)
        else:
            # split, not slices: the gradient is then put together in one copy, without zero-filled buffers.
            qk, v = qkv.split((2, 1), dim=1)
            cos, sin = (angle.to(qkv.dtype) for angle in rotary)  # they are of this type already, but for odd casts
            q, k = rotate(qk, cos, sin).unbind(1)
            v = v.squeeze(1)
        dropout_p = self.dropout if self.training else 0.0
        return attention(q, k, v, layout, self.kernel, dropout_p, self.causal, self.window).flatten(1)


class CrossAttention(nn.Module):
    """Queries from the decoder's tokens, keys and values from the encoder's states; `output` projects the result."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.query = nn.Linear(config.hidden_size, config.hidden_size, bias=config.biases)
        self.key_value = nn.Linear(config.hidden_size, 2 * config.hidden_size, bias=config.biases)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=config.biases)
        self.num_heads, self.head_dim = config.num_heads, config.head_dim
        self.kernel, self.dropout = config.attention_kernel, config.attention_dropout

    def forward(
        self,
        hidden: Tensor,
        layout: AttentionLayout,
        memory: Tensor,
        memory_layout: AttentionLayout,
        hidden_keys: Tensor | None,
    ) -> Tensor:
        """[D, hidden] and the encoder's states [T, hidden] -> the heads' results [D, hidden], before `output`.

        `hidden_keys` bool [T]: True for an encoder token that is not seen.
        """
        q = self.query(hidden).view(-1, self.num_heads, self.head_dim)
        k, v = self.key_value(memory).view(-1, 2, self.num_heads, self.head_dim).unbind(1)
        dropout_p = self.dropout if self.training else 0.0
        heads = attention(q, k, v, layout, self.kernel, dropout_p, key_layout=memory_layout, hidden_keys=hidden_keys)
        return heads.flatten(1)


class Mlp(nn.Module):
    """output(gelu(input(x))), or with geglu output(gelu(a) * b) where a, b are the halves of input(x)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.gated = config.activation == "geglu"
        width = config.intermediate_size
        self.input = nn.Linear(config.hidden_size, width * (2 if self.gated else 1), bias=config.biases)
        self.output = nn.Linear(width, config.hidden_size, bias=config.biases)
        # Published places: ModernBERT drops inside the gated MLP, BERT after its output.
        self.inner_dropout = config.dropout if self.gated else 0.0
        self.outer_dropout = 0.0 if self.gated else config.dropout

    def forward(self, hidden: Tensor) -> Tensor:
        """[N, hidden] -> [N, hidden]."""
        if self.gated:
            first, gate = self.input(hidden).chunk(2, dim=-1)
            inner = dropout(F.gelu(first) * gate, self.inner_dropout, self.training)
        else:
            inner = F.gelu(self.input(hidden))
        return dropout(self.output(inner), self.outer_dropout, self.training)


class EncoderLayer(nn.Module):
    """Attention and MLP, each with a residual; LayerNorm before (pre) or after the sum (post).

    With `normed_input` what comes in is normalised already, so that a pre-norm layer does not do it again (the first
    one of ModernBERT). `causal` and `window` are the attention's.
    """

    def __init__(
        self, config: TransformerConfig, *, causal: bool = False, window: int | None = None, normed_input: bool = False
    ) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.attention = SelfAttention(config, causal, window)
        self.attention_norm = nn.Identity() if self.pre and normed_input else layer_norm(config)
        self.mlp_norm = layer_norm(config)
        self.mlp = Mlp(config)
        self.dropout = config.output_dropout

    def forward(
        self,
        hidden: Tensor,
        layout: AttentionLayout,
        rotary: RotaryAngles | None = None,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        """[T, hidden] -> [T, hidden], or [C, hidden] for the C tokens at `output_positions` only.

        Tokens meet only in attention; what follows it is done for the wanted tokens alone, with the same result.
        """
        heads = self.attention(self.attention_norm(hidden) if self.pre else hidden, layout, rotary)
        hidden = self._add(hidden, heads, self.attention, self.attention_norm, output_positions)
        return self._transform(hidden)

    def _add(
        self,
        hidden: Tensor,
        heads: Tensor,
        attention: SelfAttention | CrossAttention,
        norm: nn.Module,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Project the heads' results and add them to the residual stream; of the `wanted` tokens only."""
        if wanted is not None:
            heads = heads.index_select(0, wanted)
            hidden = hidden.index_select(0, wanted)
        hidden = hidden + dropout(attention.output(heads), self.dropout, self.training)
        return hidden if self.pre else cast(Tensor, norm(hidden))

    def _transform(self, hidden: Tensor) -> Tensor:
        if self.pre:
            return hidden + self.mlp(self.mlp_norm(hidden))
        return self.mlp_norm(hidden + self.mlp(hidden))


class DecoderLayer(EncoderLayer):
    """Causal self-attention, attention to the encoder's states, and MLP."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__(config, causal=True)
        self.cross = CrossAttention(config)
        self.cross_norm = layer_norm(config)

    def forward(  # type: ignore[override]
        self,
        hidden: Tensor,
        layout: AttentionLayout,
        memory: Tensor,
        memory_layout: AttentionLayout,
        hidden_keys: Tensor | None = None,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        """[D, hidden] and the encoder's states [T, hidden] -> [D, hidden], or [C, hidden] at `output_positions`.

        `hidden_keys` bool [T]: True for an encoder token that is not seen.
        """
        heads = self.attention(self.attention_norm(hidden) if self.pre else hidden, layout, None)
        hidden = self._add(hidden, heads, self.attention, self.attention_norm)
        asking = self.cross_norm(hidden) if self.pre else hidden
        heads = self.cross(asking, layout, memory, memory_layout, hidden_keys)
        hidden = self._add(hidden, heads, self.cross, self.cross_norm, output_positions)
        return self._transform(hidden)


def run_layer(layer: nn.Module, *inputs: Any, recompute: bool, draws: bool) -> Tensor:
    """layer(*inputs); with `recompute` only the inputs are kept for backward, which computes the layer again.

    `draws` says whether the layer draws from torch's generator, so that computing it again must start from its state.
    """
    if recompute:
        return cast(Tensor, checkpoint(layer, *inputs, use_reentrant=False, preserve_rng_state=draws))
    return cast(Tensor, layer(*inputs))


def working_dtype(weight: Tensor, device: torch.device) -> torch.dtype:
    """The type in which autocast, or else the weights, give queries and keys."""
    if torch.is_autocast_enabled(device.type):
        return torch.get_autocast_dtype(device.type)
    return weight.dtype


def require_positions(layout: AttentionLayout, max_positions: int) -> None:
    """Raise InputError if a sequence may be longer than `max_positions`."""
    if layout.max_seqlen > max_positions:
        raise InputError(
            f"a batch has sequences of up to {layout.max_seqlen} tokens, but model.max_positions is "
            f"{max_positions}; shorten the rows or use a model with more positions"
        )
