"""The blocks of an encoder: embeddings, rotary positions, self-attention, MLP, and the layer that joins them.

All work on flat tokens [T, hidden]; `attention.py` keeps sequences apart. Nothing here knows a loss or a vocabulary
beyond its size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pretrain.models.attention import AttentionLayout, attention
from pretrain.models.config import EncoderConfig
from pretrain.models.dropout import dropout


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
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps, bias=config.biases)
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


# cos and sin of one batch, made once for all layers that share a base.
RotaryAngles = tuple[Tensor, Tensor]


class RotaryPositions(nn.Module):
    """cos and sin of the rotary embedding (Su et al. 2021), in the half-split order that Hugging Face models use.

    Frequency j of head_dim / 2 turns by position * base^(-2j / head_dim). Made in fp32 from the configuration: no
    part of a checkpoint.
    """

    def __init__(self, head_dim: int, max_positions: int, base: float) -> None:
        super().__init__()
        # On the CPU by name, so that a model made on the meta device has its table all the same. Rounded as in
        # transformers: at position 8,000 another order of the same operations moves the angle by 3e-4.
        exponent = torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim
        frequency = 1.0 / torch.pow(base, exponent)
        angles = torch.arange(max_positions, dtype=torch.float32, device="cpu")[:, None] * frequency
        self._cos, self._sin = angles.cos(), angles.sin()

    def forward(self, position_ids: Tensor, dtype: torch.dtype) -> RotaryAngles:
        """int64 [T] -> cos, sin, each [T, 1, 1, head_dim / 2] in `dtype`."""
        if self._cos.device != position_ids.device:
            self._cos, self._sin = self._cos.to(position_ids.device), self._sin.to(position_ids.device)
        cos, sin = self._cos[position_ids], self._sin[position_ids]
        return cos.to(dtype)[:, None, None, :], sin.to(dtype)[:, None, None, :]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the table along with the model, so that compiled code need not do it; its dtype stays."""
        # Plain attributes, not buffers: `model.to(bfloat16)` must not round the table before it is indexed.
        device = fn(torch.empty(0)).device
        if device.type != "meta":
            self._cos, self._sin = self._cos.to(device), self._sin.to(device)
        return super()._apply(fn, recurse)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[j], x[j + head_dim / 2]) by its angle; x is [T, 2, heads, head_dim] (queries and keys)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class SelfAttention(nn.Module):
    """Queries, keys and values by one fused projection, attention within sequences; `output` projects the result.

    The layer's index says whether it sees the whole sequence or a window (`EncoderConfig.window`).
    """

    def __init__(self, config: EncoderConfig, index: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=config.biases)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=config.biases)
        self.num_heads, self.head_dim = config.num_heads, config.head_dim
        self.kernel, self.dropout = config.attention_kernel, config.attention_dropout
        self.causal, self.window = config.causal, config.window(index)

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


class Mlp(nn.Module):
    """output(gelu(input(x))), or with geglu output(gelu(a) * b) where a, b are the halves of input(x)."""

    def __init__(self, config: EncoderConfig) -> None:
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
    """Attention and MLP, each with a residual; LayerNorm before (pre) or after the sum (post)."""

    def __init__(self, config: EncoderConfig, index: int) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.attention = SelfAttention(config, index)
        # The embeddings are normalised already, so ModernBERT's first layer does not do it again.
        first = self.pre and index == 0
        self.attention_norm = (
            nn.Identity() if first else nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=config.biases)
        )
        self.mlp_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=config.biases)
        self.mlp = Mlp(config)
        self.dropout = config.output_dropout

    def forward(
        self,
        hidden: Tensor,
        layout: AttentionLayout,
        rotary: RotaryAngles | None,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        """[T, hidden] -> [T, hidden], or [C, hidden] for the C tokens at `output_positions` only.

        Tokens meet only in attention; what follows it is done for the wanted tokens alone, with the same result.
        """
        heads = self.attention(self.attention_norm(hidden) if self.pre else hidden, layout, rotary)
        if output_positions is not None:
            heads = heads.index_select(0, output_positions)
            hidden = hidden.index_select(0, output_positions)
        update = dropout(self.attention.output(heads), self.dropout, self.training)
        if self.pre:
            hidden = hidden + update
            return hidden + self.mlp(self.mlp_norm(hidden))
        hidden = self.attention_norm(hidden + update)
        return self.mlp_norm(hidden + self.mlp(hidden))
