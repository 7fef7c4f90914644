"""The convolutional decoder a token at a time: each layer keeps the last k - 1 inputs of its convolution, and nothing
else (its attention asks with the newest token only).

The same function as `ConvSeq2SeqModel.decode`, for N sentences with K hypotheses each. Knows no search.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout
from pretrain.models.conv_layers import SQRT_HALF, ConvDecoderLayer, WeightNormLinear
from pretrain.models.conv_seq2seq import ConvSeq2SeqModel, Memory
from pretrain.models.evaluation_mode import evaluation_mode
from pretrain.models.layers import working_dtype
from pretrain.models.tokens import Tokens


class FoldedLinear:
    """A weight-normalised layer whose matrix is computed once, in the type that products are made in."""

    def __init__(self, layer: WeightNormLinear) -> None:
        dtype = working_dtype(layer.bias, layer.bias.device)
        self._weight, self._bias = layer.weight().to(dtype), layer.bias.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]."""
        return F.linear(x.to(self._weight.dtype), self._weight, self._bias)


class _FoldedLayer:
    """One decoder layer on the newest token of each hypothesis."""

    def __init__(self, layer: ConvDecoderLayer) -> None:
        self._convolution = FoldedLinear(layer.convolution.linear)
        self._residual = None if layer.residual is None else FoldedLinear(layer.residual)
        self._query, self._output = FoldedLinear(layer.attention.query), FoldedLinear(layer.attention.output)
        inputs = layer.convolution.linear.direction.shape[1] // (layer.convolution.before + 1)
        self.inputs, self.buffered = inputs, inputs * layer.convolution.before

    def __call__(self, hidden: Tensor, buffer: Tensor, embedded: Tensor, source: _Source) -> tuple[Tensor, Tensor]:
        """[N, K, inputs], the earlier inputs [N, K, (k - 1) * inputs] -> [N, K, width], the buffer of the next step."""
        window = torch.cat((buffer, hidden), dim=-1)
        states = F.glu(self._convolution(window), dim=-1)
        read = source.read((self._query(states) + embedded) * SQRT_HALF)
        states = (self._output(read) + states) * SQRT_HALF
        kept = hidden if self._residual is None else self._residual(hidden)
        return (states + kept).to(hidden.dtype) * SQRT_HALF, window[..., self.inputs :]


class _Source:
    """Keys and values of N sentences, padded: once a sentence, however many hypotheses read them."""

    def __init__(self, keys: Tensor, values: Tensor, lengths: Tensor) -> None:
        dtype = working_dtype(values, values.device)
        self._keys, self._values, self._lengths = keys.to(dtype), values.to(dtype), lengths
        outside = torch.arange(keys.shape[1], device=keys.device) >= lengths[:, None]
        self._outside = outside[:, None, :]
        self._root_lengths = lengths.to(torch.float32).sqrt()[:, None, None]

    def read(self, queries: Tensor) -> Tensor:
        """[N, K, embedding] -> the weighted means of values times sqrt(m), [N, K, embedding]."""
        scores = torch.matmul(queries.to(self._keys.dtype), self._keys.transpose(1, 2))
        scores = scores.masked_fill(self._outside, -torch.inf)
        return torch.matmul(scores.softmax(-1).to(self._values.dtype), self._values) * self._root_lengths

    def __len__(self) -> int:
        return len(self._lengths)

    def select(self, sentences: Tensor) -> _Source:
        """Those of some sentences."""
        return _Source(self._keys[sentences], self._values[sentences], self._lengths[sentences])


class ConvIncrementalDecoder:
    """N sentences x K hypotheses, one token more at each `step`; all are at the same number of tokens. K starts at 1.

    `source_ids` int64 [N, S], padded right with any id, `source_lengths` int64 [N]. The encoder runs once, here,
    without dropout; weights are taken as they are now. No gradient is kept. Raises InputError for a source without a
    token or one that is longer than the model's positions, and for a language that the model does not know.
    """

    def __init__(
        self,
        model: ConvSeq2SeqModel,
        source_ids: Tensor,
        source_lengths: Tensor,
        *,
        source_language: int | None = None,
        target_language: int | None = None,
    ) -> None:
        self._model, self._length = model, 0
        for side, language in (("source", source_language), ("target", target_language)):
            _check_language(model, side, language)
        self._language = target_language
        with evaluation_mode(model), torch.no_grad():
            keys, values = _encode(model, source_ids, source_lengths, source_language)
            self._source = _Source(keys, values, source_lengths)
            self._input = FoldedLinear(model.decoder.embeddings.projection)
            self._layers = [_FoldedLayer(cast(ConvDecoderLayer, layer)) for layer in model.decoder.layers]
            self._output = FoldedLinear(model.decoder.output)
            dtype = working_dtype(model.head.bias, model.head.bias.device)
            self._matrix = model.output_matrix()[: model.vocab_size].to(dtype)
            self._bias = model.head.bias[: model.vocab_size].to(dtype)
        count = len(source_ids)
        self._buffers = [keys.new_zeros(count, 1, layer.buffered) for layer in self._layers]

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Tensor:
        """int64 [N, K], the next input of each hypothesis -> fp32 logits [N, K, vocab_size].

        Raises InputError if the model has no position for it.
        """
        config = self._model.config
        if self._length >= config.max_positions:
            raise InputError(
                f"a hypothesis has {self._length + 1} tokens, but model.max_positions is {config.max_positions}; "
                "allow shorter ones, or use a model with more positions"
            )
        embeddings = self._model.decoder.embeddings
        embedded = self._model.token_table("decoder")(tokens) + embeddings.position.weight[self._length]
        if embeddings.language is not None:
            embedded = embedded + embeddings.language.weight[self._language]
        hidden = self._input(embedded).to(embedded.dtype)
        for number, layer in enumerate(self._layers):
            hidden, self._buffers[number] = layer(hidden, self._buffers[number], embedded, self._source)
        self._length += 1
        states = self._output(hidden)
        return F.linear(states.to(self._matrix.dtype), self._matrix, self._bias).to(torch.float32)

    def select(self, sentences: Tensor, hypotheses: Tensor) -> None:
        """int64 [N'] and [N', K']: keep these sentences; new hypothesis j of kept sentence i continues its former
        hypothesis `hypotheses[i, j]`."""
        rows = sentences[:, None]
        self._buffers = [buffer[rows, hypotheses] for buffer in self._buffers]
        count = len(self._source)
        if len(sentences) != count or not torch.equal(sentences, torch.arange(count, device=sentences.device)):
            self._source = self._source.select(sentences)


def _encode(model: ConvSeq2SeqModel, ids: Tensor, lengths: Tensor, language: int | None) -> Memory:
    """Keys and values [N, longest, embedding]; what pads a sentence is a sequence of its own."""
    if not len(ids) or int(lengths.min()) < 1:
        raise InputError("every source to decode from needs at least one token, but one has none; leave it out")
    longest = int(lengths.max())
    ids = ids[:, :longest]
    starts = torch.arange(len(ids), device=ids.device) * longest
    bounds = torch.stack((starts, starts + lengths), dim=1).flatten()
    bounds = F.pad(bounds, (0, 1), value=ids.numel()).to(torch.int32)
    layout = AttentionLayout(bounds, max_seqlen=longest, row_length=longest)
    positions = torch.arange(longest, device=ids.device).repeat(len(ids))
    languages = None if language is None else torch.full_like(positions, language)
    memory = model.encode(Tokens(ids.flatten(), positions, layout, languages))
    return Memory(*(part.view(len(ids), longest, -1) for part in memory))


def _check_language(model: ConvSeq2SeqModel, side: str, language: int | None) -> None:
    known = model.config.languages
    if bool(known) != (language is not None) or (language is not None and not 0 <= language < len(known)):
        raise InputError(
            f"{side}_language must be {f'a number below {len(known)}' if known else 'left away'}, as the model has "
            f"{len(known) or 'no'} language embeddings (model.languages), but is {language}"
        )
