"""The decoder of `seq2seq.Seq2SeqModel`, one token at a time: keys and values of what came before are kept.

The work of a step is its matrix products; all else is arranged so that little is added to them. Beams are chosen
without moving a key or a value: the K slots of a sentence are one list of keys to all its hypotheses, and a mask says
which of them a hypothesis descends from. Keys and values of the source are there once a sentence. No search is known
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout
from pretrain.models.layers import DecoderLayer, Mlp
from pretrain.models.positions import SinusoidalPositions
from pretrain.models.tokens import Tokens

if TYPE_CHECKING:
    from pretrain.models.seq2seq import Seq2SeqModel

_FIRST_CAPACITY = 16
_ENCODED_AT_ONCE = 32


class _Linear(NamedTuple):
    weight: Tensor
    bias: Tensor | None


class _Norm(NamedTuple):
    weight: Tensor
    bias: Tensor | None


class _Layer(NamedTuple):
    """The tensors of a `DecoderLayer`: looking them up in modules would cost as much as the small operations do."""

    qkv: _Linear
    output: _Linear
    norm: _Norm
    cross_query: _Linear
    cross_output: _Linear
    cross_norm: _Norm
    mlp_input: _Linear
    mlp_output: _Linear
    mlp_norm: _Norm


class CachedDecoder:
    """An `IncrementalDecoder` (`pretrain/decoding/incremental.py`) of a model in evaluation mode; no gradient.

    `source_ids` int64 [N, S], `source_lengths` int64 [N] from 1 to S. It computes in the type of the model's weights.

    Raises InputError for a source with more tokens than the model has positions, and `step` for such a target; and
    where the model has languages, without their ids.
    """

    @torch.no_grad()
    def __init__(
        self,
        model: Seq2SeqModel,
        source_ids: Tensor,
        source_lengths: Tensor,
        source_language: int | None = None,
        target_language: int | None = None,
    ) -> None:
        config = model.config
        embeddings = model.decoder.embeddings
        self._heads, self._head_dim, self._pre = config.num_heads, config.head_dim, config.norm == "pre"
        self._gated, self._eps = config.activation == "geglu", config.layer_norm_eps
        self._vocab_size, self._max_positions = model.vocab_size, config.max_positions
        self._scale = embeddings.scale
        self._token = model.encoder.embeddings.token.weight  # type: ignore[union-attr]
        # In fp32 on a CPU a product with the other order of the same matrix is up to twice as fast for few rows.
        turned = self._token.dtype == torch.float32 and self._token.device.type == "cpu"
        self._vocabulary = self._token.t().contiguous() if turned else self._token.t()
        self._bias = model.head.bias
        self._positions = _position_rows(model, target_language)
        self._norm = _norm(embeddings.norm)
        self._layers = [_layer(cast(DecoderLayer, layer)) for layer in model.decoder.layers]
        self._final_norm = _norm(model.decoder.final_norm) if self._pre else None

        memory = _encode(model, source_ids, source_lengths, source_language)
        self._sentences, self._width = source_ids.shape
        self._source, self._source_mask = self._source_keys(model, memory, source_lengths)
        # [layers, key or value, N, heads, places, slots, head_dim]: all slots of the first t places are one piece.
        self._length = 0
        self._cache = self._empty(self._sentences, min(_FIRST_CAPACITY, self._max_positions), 1)
        self._mask: Tensor | None = None

    def _source_keys(self, model: Seq2SeqModel, memory: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor | None]:
        """Keys and values of the source, [layers, 2, N, heads, S, head_dim], and 0 or -inf, [N, 1, 1, S]."""
        shape = (self._sentences, self._width, 2, self._heads, self._head_dim)
        layers = []
        for layer in model.decoder.layers:
            linear = cast(DecoderLayer, layer).cross.key_value
            layers.append(F.linear(memory, linear.weight, linear.bias).view(shape).permute(2, 0, 3, 1, 4))
        places = torch.arange(self._width, device=lengths.device)
        beyond = places >= lengths[:, None]
        mask = None
        if bool(beyond.any()):
            mask = torch.zeros(beyond.shape, dtype=memory.dtype, device=memory.device)
            mask = mask.masked_fill_(beyond.to(memory.device), -torch.inf)[:, None, None]
        return torch.stack(layers), mask

    def _empty(self, sentences: int, places: int, slots: int) -> Tensor:
        """Zeros and not just any memory: what a mask hides is still multiplied, and must not be NaN."""
        shape = (len(self._layers), 2, sentences, self._heads, places, slots, self._head_dim)
        return torch.zeros(shape, dtype=self._token.dtype, device=self._token.device)

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Tensor:
        """int64 [N, K] -> fp32 logits [N, K, vocab_size]. Raises InputError beyond the model's last position."""
        place = self._length
        if place >= self._max_positions:
            raise InputError(
                f"the decoder was given more than its {self._max_positions} positions (model.max_positions); lower "
                "the maximum length"
            )
        if place == self._cache.shape[4]:
            self._grow()
        sentences, width = tokens.shape
        hidden = F.embedding(tokens.reshape(-1), self._token)
        if self._scale is not None:
            hidden = hidden * self._scale
        hidden = self._normed(hidden + self._positions[place], self._norm)
        self._length = place + 1
        mask = None if self._mask is None else self._mask[:, :, : place + 1].reshape(sentences, 1, width, -1)
        for number, layer in enumerate(self._layers):
            hidden = self._layer_step(number, layer, hidden, (sentences, width), mask)
        if self._final_norm is not None:
            hidden = self._normed(hidden, self._final_norm)
        logits = torch.addmm(self._bias, hidden, self._vocabulary).float()
        return logits[:, : self._vocab_size].view(sentences, width, self._vocab_size)

    def _layer_step(
        self, number: int, layer: _Layer, hidden: Tensor, shape: tuple[int, int], mask: Tensor | None
    ) -> Tensor:
        """[N * K, hidden] -> [N * K, hidden]; keys and values of this place are kept."""
        split = (*shape, 3, self._heads, self._head_dim)
        qkv = F.linear(self._normed(hidden, layer.norm) if self._pre else hidden, *layer.qkv).view(split)
        cache = self._cache[number]
        cache[:, :, :, self._length - 1, : shape[1]] = qkv[:, :, 1:].permute(2, 0, 3, 1, 4)
        past = cache[:, :, :, : self._length].flatten(3, 4)
        hidden = self._add(hidden, _attend(qkv[:, :, 0], past, mask), layer.output, layer.norm)

        asking = F.linear(self._normed(hidden, layer.cross_norm) if self._pre else hidden, *layer.cross_query)
        asking = asking.view(*shape, self._heads, self._head_dim)
        heads = _attend(asking, self._source[number], self._source_mask)
        hidden = self._add(hidden, heads, layer.cross_output, layer.cross_norm)

        inner = F.linear(self._normed(hidden, layer.mlp_norm) if self._pre else hidden, *layer.mlp_input)
        if self._gated:
            first, gate = inner.chunk(2, dim=-1)
            inner = F.gelu(first) * gate
        else:
            inner = F.gelu(inner)
        return self._add(hidden, inner, layer.mlp_output, layer.mlp_norm)

    def _add(self, hidden: Tensor, inner: Tensor, linear: _Linear, norm: _Norm) -> Tensor:
        hidden = F.linear(inner, *linear).add_(hidden)
        return hidden if self._pre else self._normed(hidden, norm)

    def _normed(self, hidden: Tensor, norm: _Norm) -> Tensor:
        return torch.layer_norm(hidden, hidden.shape[-1:], norm.weight, norm.bias, self._eps)

    @torch.no_grad()
    def select(self, sentences: Tensor, hypotheses: Tensor) -> None:
        """Keep sentences int64 [N'] and their hypotheses int64 [N', K']; see the protocol."""
        if len(sentences) != self._sentences or not torch.equal(
            sentences, torch.arange(len(sentences), device=sentences.device)
        ):
            self._keep(sentences)
        width, slots = hypotheses.shape[1], self._cache.shape[5]
        if width > slots:
            self._widen(width)
        if self._mask is None:
            if width == 1:
                return  # one hypothesis, which has one slot: there is nothing to tell apart
            self._mask = self._diagonal(slots, width)
        elif self._mask.shape[1] != width:
            self._mask = torch.cat([self._chosen(hypotheses), self._diagonal(width, width)[:, :, self._length :]], 2)
            return
        self._mask[:, :, : self._length] = self._chosen(hypotheses)

    def _chosen(self, hypotheses: Tensor) -> Tensor:
        """The rows of the mask, of the places up to now, that the new hypotheses inherit."""
        assert self._mask is not None
        known = self._mask[:, :, : self._length]
        index = hypotheses[:, :, None, None].expand(-1, -1, self._length, known.shape[3])
        return known.gather(1, index)

    def _diagonal(self, before: int, width: int) -> Tensor:
        """0 where hypothesis k meets slot k and -inf elsewhere, [N, max(before, width), capacity, slots].

        It is what a mask says of places that are still to come, and of those of hypotheses that were never chosen.
        """
        capacity, slots = self._cache.shape[4:6]
        eye = torch.eye(max(before, width), slots, dtype=torch.bool, device=self._cache.device)
        mask = torch.zeros(eye.shape, dtype=self._cache.dtype, device=eye.device).masked_fill_(~eye, -torch.inf)
        return mask[None, :, None].repeat(self._sentences, 1, capacity, 1)

    def _keep(self, sentences: Tensor) -> None:
        old, self._sentences = self._cache, len(sentences)
        places, slots = old.shape[4:6]
        self._cache = self._empty(len(sentences), places, slots)
        self._cache[:, :, :, :, : self._length] = old[:, :, :, :, : self._length].index_select(2, sentences)
        self._source = self._source.index_select(2, sentences)
        if self._source_mask is not None:
            self._source_mask = self._source_mask.index_select(0, sentences)
        if self._mask is not None:
            self._mask = self._mask.index_select(0, sentences)

    def _widen(self, slots: int) -> None:
        """Room for more hypotheses. What is there stays in the slots where it is."""
        old = self._cache
        self._cache = self._empty(self._sentences, old.shape[4], slots)
        self._cache[..., : old.shape[5], :] = old
        if self._mask is not None:
            more = slots - old.shape[5]
            self._mask = F.pad(self._mask, (0, more), value=-torch.inf)

    def _grow(self) -> None:
        old = self._cache
        places = old.shape[4]
        self._cache = self._empty(self._sentences, min(2 * places, self._max_positions), old.shape[5])
        self._cache[:, :, :, :, :places] = old
        if self._mask is not None:
            width = self._mask.shape[1]
            self._mask = torch.cat([self._mask, self._diagonal(width, width)[:, :, places:]], 2)


def _attend(queries: Tensor, keys_values: Tensor, mask: Tensor | None) -> Tensor:
    """[N, K, heads, head_dim] and keys and values [2, N, heads, T, head_dim] -> [N * K, heads * head_dim].

    `mask` is added to the scores: it broadcasts with [N, heads, K, T].
    """
    sentences, width, heads, size = queries.shape
    keys, values = keys_values.flatten(1, 2)
    asking = (queries * size**-0.5).transpose(1, 2).reshape(sentences * heads, width, size)
    scores = torch.bmm(asking, keys.transpose(1, 2))
    if mask is not None:
        scores.view(sentences, heads, width, -1).add_(mask)
    found = torch.bmm(scores.softmax(-1), values)
    return found.view(sentences, heads, width, size).transpose(1, 2).reshape(sentences * width, heads * size)


def _encode(model: Seq2SeqModel, ids: Tensor, lengths: Tensor, language: int | None) -> Tensor:
    """int64 [N, S] -> the encoder's states [N * S, hidden], 0 where a row is padded."""
    sentences, width = ids.shape
    lengths = lengths.to("cpu")
    if int(lengths.min()) < 1 or int(lengths.max()) > width:
        raise ValueError(
            f"lengths must be from 1 to {width}, but are from {int(lengths.min())} to {int(lengths.max())}"
        )
    weight = model.head.bias
    memory = torch.zeros(sentences, width, model.config.hidden_size, dtype=weight.dtype, device=weight.device)
    # A CPU is as fast on a few sentences, and a search has those of like lengths side by side: less padding.
    size = _ENCODED_AT_ONCE if weight.device.type == "cpu" else sentences
    for start in range(0, sentences, size):
        group = lengths[start : start + size]
        longest = int(group.max())
        memory[start : start + size, :longest] = _encode_group(
            model, ids[start : start + size, :longest], group, language
        )
    return memory.view(sentences * width, -1)


def _encode_group(model: Seq2SeqModel, ids: Tensor, lengths: Tensor, language: int | None) -> Tensor:
    """int64 [N, S], lengths on the CPU -> [N, S, hidden]; what pads a row is a sequence of its own."""
    sentences, width = ids.shape
    starts = torch.arange(sentences) * width
    bounds = torch.stack([starts, starts + lengths], 1).flatten()
    end = torch.tensor([sentences * width])
    layout = AttentionLayout(torch.cat([bounds, end]).to(torch.int32), width, width).to(ids.device)
    positions = torch.arange(width, device=ids.device).repeat(sentences)
    languages = None if language is None else torch.full_like(positions, language)
    return model.encode(Tokens(ids.reshape(-1), positions, layout, languages)).view(sentences, width, -1)


def _position_rows(model: Seq2SeqModel, language: int | None) -> Tensor:
    """[max_positions, hidden]: what is added to a token's vector at each place, a language's vector included."""
    embeddings = model.decoder.embeddings
    if isinstance(embeddings.position, SinusoidalPositions):
        places = torch.arange(model.config.max_positions, device=model.head.bias.device)
        rows = embeddings.position(places).to(model.head.bias.dtype)
    else:
        rows = cast(Tensor, embeddings.position.weight)
    if embeddings.language is None:
        return rows
    if language is None:
        raise InputError(
            "the model has language embeddings (model.languages), but no target language was given; name source and "
            "target language"
        )
    return rows + embeddings.language.weight[language]


def _linear(module: torch.nn.Linear) -> _Linear:
    return _Linear(module.weight, module.bias)


def _norm(module: torch.nn.Module) -> _Norm:
    assert isinstance(module, torch.nn.LayerNorm)
    return _Norm(module.weight, module.bias)


def _layer(layer: DecoderLayer) -> _Layer:
    mlp: Mlp = layer.mlp
    return _Layer(
        _linear(layer.attention.qkv),
        _linear(layer.attention.output),
        _norm(layer.attention_norm),
        _linear(layer.cross.query),
        _linear(layer.cross.output),
        _norm(layer.cross_norm),
        _linear(mlp.input),
        _linear(mlp.output),
        _norm(layer.mlp_norm),
    )
