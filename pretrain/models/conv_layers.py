"""The blocks of a convolutional encoder-decoder: weight-normalised layers, convolutions over packed tokens, multi-step
attention (Gehring et al. 2017).

All work on flat tokens [T, size]. A convolution never crosses the border of a sequence: what would lie outside reads as
zeros, whatever the neighbours in the row hold. Nothing here knows a loss or a vocabulary.
"""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pretrain.models.attention import AttentionLayout, Kernel, attention
from pretrain.models.dropout import dropout
from pretrain.models.layers import working_dtype

# The sum of two values that vary alike and independently has twice their variance; this undoes it.
SQRT_HALF = math.sqrt(0.5)
_TINY = 1e-30  # far below the norm of any row in use


def normalized(direction: Tensor, gain: Tensor) -> Tensor:
    """The matrix whose row i is gain_i * direction_i / |direction_i| (Salimans and Kingma 2016); 0 where that is 0."""
    # clamp: rows of zeros, which pad a vocabulary, have a gradient of 0 and not NaN.
    norms = torch.linalg.vector_norm(direction, dim=1).clamp_min(_TINY)
    return direction * (gain / norms)[:, None]


class WeightNormLinear(nn.Module):
    """x W^T + b, where `normalized` makes W [outputs, inputs] of `direction` [outputs, inputs] and `gain` [outputs].

    At first W is `direction`, from a normal of this `deviation`, and b is 0. Own parameters rather than
    torch.nn.utils.parametrizations.weight_norm, whose modules cannot be pickled and whose gain is a matrix of one
    column, which weight decay would take for a matrix.
    """

    def __init__(self, inputs: int, outputs: int, deviation: float) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.empty(outputs, inputs))
        self.gain = nn.Parameter(torch.empty(outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        with torch.no_grad():
            self.direction.normal_(0.0, deviation)
            self.gain.copy_(torch.linalg.vector_norm(self.direction, dim=1))

    def weight(self) -> Tensor:
        """W, [outputs, inputs]."""
        return normalized(self.direction, self.gain)

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]."""
        return F.linear(x, self.weight(), self.bias)


def linear(inputs: int, outputs: int, dropped: float = 0.0) -> WeightNormLinear:
    """A linear layer whose outputs vary as its inputs do, of which the share `dropped` is set to 0: N(0, p / inputs)
    with p what is kept (Gehring et al. 2017, section 3.5)."""
    return WeightNormLinear(inputs, outputs, math.sqrt((1.0 - dropped) / inputs))


class Borders:
    """Where a window around a token leaves the token's sequence, for all convolutions over one layout.

    `outside` bool [before + 1 + after, T, 1]: row j is True where the token j - before places further on is of another
    sequence, or none.
    """

    def __init__(self, layout: AttentionLayout, num_tokens: int, before: int, after: int) -> None:
        ids = layout.sequence_ids(num_tokens)
        padded = F.pad(ids, (before, after), value=-1)
        self.before = before
        self.outside = (padded.unfold(0, num_tokens, 1) != ids)[:, :, None]

    def at(self, offset: int) -> Tensor:
        """bool [T, 1]: whether the token `offset` places further on is outside."""
        return self.outside[self.before + offset]


def reach(kernel: int, causal: bool) -> tuple[int, int]:
    """How many tokens before and after its own a convolution reads; of an even number the longer part is after."""
    return (kernel - 1, 0) if causal else ((kernel - 1) // 2, kernel // 2)


def windows(hidden: Tensor, borders: Borders, before: int, after: int) -> Tensor:
    """[T, size] -> [T, (before + 1 + after) * size]: each token's neighbours side by side, zeros outside its sequence.

    Zeros are put in, not multiplied: what is not finite in another sequence stays there.
    """
    if before == after == 0:
        return hidden
    count = len(hidden)
    padded = F.pad(hidden, (0, 0, before, after))
    neighbours = [
        hidden if offset == 0 else padded[before + offset :][:count].masked_fill(borders.at(offset), 0.0)
        for offset in range(-before, after + 1)
    ]
    return torch.cat(neighbours, dim=1)


class GatedConvolution(nn.Module):
    """A convolution to 2 * width outputs A, B and the gated linear unit A * sigmoid(B) (Dauphin et al. 2017).

    One matrix product over the `windows` of all tokens; the weight's columns are [kernel, inputs], oldest token first.
    """

    def __init__(self, inputs: int, width: int, kernel: int, causal: bool, dropped: float) -> None:
        super().__init__()
        self.before, self.after = reach(kernel, causal)
        # The 4 makes up for the gate, which halves the deviation.
        deviation = math.sqrt(4.0 * (1.0 - dropped) / (kernel * inputs))
        self.linear = WeightNormLinear(kernel * inputs, 2 * width, deviation)

    def forward(self, hidden: Tensor, borders: Borders) -> Tensor:
        """[T, inputs] -> [T, width]."""
        # Cast before the windows are copied, which are several times as large.
        hidden = hidden.to(working_dtype(hidden, hidden.device))
        return F.glu(self.linear(windows(hidden, borders, self.before, self.after)), dim=-1)


class ConvEncoderLayer(nn.Module):
    """(glu(convolution(dropout(h))) + h) * sqrt(0.5); h is projected where the width changes."""

    causal = False

    def __init__(self, inputs: int, width: int, kernel: int, dropped: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(inputs, width, kernel, self.causal, dropped)
        self.residual = linear(inputs, width) if inputs != width else None
        self.dropout = dropped

    def forward(self, hidden: Tensor, borders: Borders) -> Tensor:
        """[T, inputs] -> [T, width]."""
        return self.add(hidden, self.convolve(hidden, borders))

    def convolve(self, hidden: Tensor, borders: Borders) -> Tensor:
        """[T, inputs] -> the gated convolution's result [T, width]."""
        return cast(Tensor, self.convolution(dropout(hidden, self.dropout, self.training), borders))

    def add(self, hidden: Tensor, result: Tensor) -> Tensor:
        """The layer's input [T, inputs] and what was computed from it [T, width] -> the layer's output [T, width]."""
        kept = hidden if self.residual is None else self.residual(hidden)
        # In the type that came in: under autocast the residual stream stays fp32.
        return (result + kept).to(hidden.dtype) * SQRT_HALF


class MultiStepAttention(nn.Module):
    """What one decoder layer reads of the source: its own query, one head, and no projection of keys and values.

    The query is (W h + b + g) * sqrt(0.5), with h the layer's convolution and g the embedding of the decoder's own
    input; scores are plain products with the keys. The result, times sqrt(m) where m is the number of source tokens
    it is a mean of, is projected back, and (projection + h) * sqrt(0.5) is what leaves the layer.
    """

    def __init__(self, width: int, embedding_size: int) -> None:
        super().__init__()
        self.query = linear(width, embedding_size)
        self.output = linear(embedding_size, width)

    def queries(self, states: Tensor, embedded: Tensor) -> Tensor:
        """[..., width] and the embeddings [..., embedding] -> the queries [..., embedding]."""
        return (self.query(states) + embedded) * SQRT_HALF

    def join(self, states: Tensor, read: Tensor, root_lengths: Tensor) -> Tensor:
        """The states [..., width], the weighted mean of values [..., embedding] and sqrt(m) -> [..., width]."""
        return (self.output(read * root_lengths) + states) * SQRT_HALF

    def forward(self, states: Tensor, embedded: Tensor, source: AttendedSource) -> Tensor:
        """[D, width], [D, embedding] -> [D, width]."""
        queries = self.queries(states, embedded)
        return self.join(states, source.read(queries), source.root_lengths)


class AttendedSource:
    """The encoder's side as all layers of a decoder attend to it.

    `keys` and `values` [T, embedding] by `key_layout`, queries by `layout`; `hidden_keys` bool [T] takes single keys
    out. `root_lengths` [D, 1] in fp32 is sqrt(m) for each query, with m the number of keys that it sees: its source's
    true length, less the keys that are hidden.
    """

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        layout: AttentionLayout,
        num_queries: int,
        key_layout: AttentionLayout,
        hidden_keys: Tensor | None,
        kernel: Kernel,
    ) -> None:
        self._dtype = working_dtype(values, values.device)
        self._keys, self._values = (x.to(self._dtype)[:, None, :] for x in (keys, values))
        self._layout, self._key_layout, self._hidden_keys = layout, key_layout, hidden_keys
        self._kernel = kernel
        # `attention` divides scores by the root of a head's size, which this architecture does not.
        self._scale = math.sqrt(keys.shape[1])
        counts = seen_keys(key_layout, len(keys), hidden_keys)
        self.root_lengths = counts[layout.sequence_ids(num_queries)].sqrt()[:, None]

    def read(self, queries: Tensor) -> Tensor:
        """softmax(queries keys^T) values within each sequence, [D, embedding] -> [D, embedding]."""
        q = (queries * self._scale).to(self._dtype)[:, None, :]
        found = attention(
            q,
            self._keys,
            self._values,
            self._layout,
            self._kernel,
            key_layout=self._key_layout,
            hidden_keys=self._hidden_keys,
        )
        return found[:, 0]


def seen_keys(layout: AttentionLayout, num_tokens: int, hidden_keys: Tensor | None) -> Tensor:
    """fp32 [S]: how many of each sequence's tokens are not hidden (`hidden_keys` bool [T], True: hidden)."""
    bounds = layout.cu_seqlens.long()
    if hidden_keys is not None:
        seen = F.pad((~hidden_keys).long().cumsum(0), (1, 0))
        bounds = seen[bounds]
    return (bounds[1:] - bounds[:-1]).to(torch.float32)


class ConvDecoderLayer(ConvEncoderLayer):
    """A causal convolution and its gate, attention to the source, and the residual around both."""

    causal = True

    def __init__(self, inputs: int, width: int, kernel: int, dropped: float, embedding_size: int) -> None:
        super().__init__(inputs, width, kernel, dropped)
        self.attention = MultiStepAttention(width, embedding_size)

    def forward(  # type: ignore[override]
        self, hidden: Tensor, borders: Borders, embedded: Tensor, source: AttendedSource
    ) -> Tensor:
        """[D, inputs] and the embeddings of the decoder's input [D, embedding] -> [D, width]."""
        states = self.convolve(hidden, borders)
        return self.add(hidden, self.attention(states, embedded, source))


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.factor, None


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """`x` itself, whose gradient is multiplied by `factor` on the way back."""
    return cast(Tensor, _ScaledGradient.apply(x, factor))
