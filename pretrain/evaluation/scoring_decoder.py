"""Likelihoods of texts, or of parts of them, under an encoder-decoder. Knows no task and no file.

The encoder reads the text without the scored part, the decoder predicts the part from left to right: the sum of
log p(token | the part's tokens before it, the text without the part). That is what MASS trains (Song et al. 2019): the
decoder's input at position t - 1 is the token there and predicts the token at t, and tokens outside the part are not
among its inputs. Of a text that is scored whole the encoder sees only that it is so long, and the decoder is a language
model. [CLS] and [SEP] are never predicted, as no fragment holds them.

Each distinct source is encoded once for all the parts that read it: the options of an item, or all whole texts of one
length. Equal inputs of the decoder (parts that differ in their last token) are decoded once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pretrain.evaluation.scoring_logits import chosen_log_probabilities
from pretrain.evaluation.scoring_texts import TokenizedText
from pretrain.models.attention import AttentionLayout
from pretrain.models.evaluation_mode import evaluation_mode
from pretrain.models.language_model import EncoderDecoderModel
from pretrain.models.tokens import Tokens

Source = Literal["masked", "removed"]
DecoderInput = Literal["previous", "mask"]
SOURCES: tuple[Source, ...] = ("masked", "removed")
DECODER_INPUTS: tuple[DecoderInput, ...] = ("previous", "mask")
TOKENS_PER_BATCH = 4096
SOURCE_TOKENS = 1 << 16  # of encoded sources in memory at once
SOURCE_BUCKET = 8  # sources that differ by less in length may be read in one batch

Ids = tuple[int, ...]
Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class DecoderScoring:
    """How an encoder-decoder is asked.

    `source`: in the encoder's input a [MASK] stands for each token of the part (`masked`, as in MASS; the decoder so
    learns how long the part is), or nothing stands for it (`removed`; a text that is scored whole then leaves an empty
    source, [CLS] [SEP]). `decoder_input`: what predicts the part's first token is the token before it (`previous`) or
    [MASK] (`mask`); `cross_attention_to_masks` false hides the encoder's [MASK] positions from the decoder: both as the
    model was trained (`objective=mass`). `language` is that of all texts, for a model with language embeddings.
    """

    source: Source = "masked"
    decoder_input: DecoderInput = "previous"
    cross_attention_to_masks: bool = True
    language: str | None = None


@dataclass
class _Plan:
    """What goes through the model: distinct sources, and distinct pairs of a source and a decoder's input.

    `inputs` maps (source number, decoder's input, position of its first token) to its number; `asked` says for each
    text which input predicts it.
    """

    sources: dict[Ids, int] = field(default_factory=dict)
    inputs: dict[tuple[int, Ids, int], int] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)


def decoder_view(text: TokenizedText, mask_id: int, options: DecoderScoring) -> tuple[Ids, Ids, int]:
    """The encoder's input, the decoder's input, and the position of the latter's first token."""
    first, last = text.scored
    hole = (mask_id,) * (last - first) if options.source == "masked" else ()
    before = mask_id if options.decoder_input == "mask" else text.ids[first - 1]
    return (*text.ids[:first], *hole, *text.ids[last:]), (before, *text.ids[first : last - 1]), first - 1


@torch.inference_mode()
def decoder_sums(
    model: EncoderDecoderModel,
    texts: Sequence[TokenizedText],
    mask_id: int,
    options: DecoderScoring,
    tokens_per_batch: int = TOKENS_PER_BATCH,
) -> NDArray[np.float64]:
    """The log-likelihood of each text's scored part, in nats.

    Args:
        model: put into evaluation mode meanwhile; its weights must be fp32.
        texts: of at most the model's positions.
        mask_id: of [MASK].
        options: see `DecoderScoring`.
        tokens_per_batch: about how many tokens of either side go through the model at a time.

    Raises:
        InputError: a language that the model does not know, or none for a model that needs one.
    """
    language = model.config.language_id(options.language, "language")
    plan = _Plan()
    for text in texts:
        source, given, position = decoder_view(text, mask_id, options)
        number = plan.sources.setdefault(source, len(plan.sources))
        plan.asked.append(plan.inputs.setdefault((number, given, position), len(plan.inputs)))
    sums = np.zeros(len(texts), dtype=np.float64)
    askers = _grouped(plan.asked, len(plan.inputs))
    readers = _grouped([source for source, _, _ in plan.inputs], len(plan.sources))
    inputs = list(plan.inputs)
    with evaluation_mode(model):
        for encoded in _encode(model, list(plan.sources), mask_id, language, tokens_per_batch):
            members = [number for source in encoded.numbers for number in readers[source]]
            for batch in _batches(members, inputs, encoded.lengths, tokens_per_batch):
                states, starts = _decode(model, [inputs[number] for number in batch], encoded, options, language)
                mine = [(row, text) for row, number in enumerate(batch) for text in askers[number]]
                sizes = np.array([texts[text].num_tokens for _, text in mine])
                begins = np.cumsum(sizes) - sizes
                rows = np.repeat(starts[[row for row, _ in mine]] - begins, sizes) + np.arange(sizes.sum())
                labels = np.concatenate([texts[text].ids[slice(*texts[text].scored)] for _, text in mine])
                order = np.argsort(rows, kind="stable")  # two texts may ask one input
                values = np.empty(len(rows))
                values[order] = chosen_log_probabilities(model, states, rows[order], labels[order])
                sums[[text for _, text in mine]] = np.add.reduceat(values, begins)
    return sums


@dataclass(frozen=True)
class _Encoded:
    """Sources as the decoder reads them: the states of source i begin at `starts[i]`, of `lengths[i]` tokens.

    `hidden` bool, like the states, is true where a source has [MASK].
    """

    numbers: list[int]
    starts: dict[int, int]
    lengths: dict[int, int]
    memory: Any
    hidden: Tensor


def _encode(
    model: EncoderDecoderModel, sources: Sequence[Ids], mask_id: int, language: int | None, tokens_per_batch: int
) -> Iterator[_Encoded]:
    """All sources once, short ones first, so many at a time as `SOURCE_TOKENS` allow."""
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
    at = 0
    while at < len(order):
        numbers: list[int] = []
        starts: dict[int, int] = {}
        parts, held = [], 0
        while at < len(order) and (held == 0 or held + len(sources[order[at]]) <= SOURCE_TOKENS):
            length = len(sources[order[at]])
            most = max(1, min(tokens_per_batch, SOURCE_TOKENS - held) // length)
            batch = [number for number in order[at : at + most] if len(sources[number]) == length]
            ids = np.array([sources[number] for number in batch], dtype=np.int64)
            positions = np.tile(np.arange(length), (len(batch), 1))
            tokens = _tokens(ids, positions, np.full(len(batch), length), language, device)
            parts.append((model.encode(tokens), tokens.input_ids == mask_id))
            for row, number in enumerate(batch):
                starts[number] = held + row * length
            numbers += batch
            held += ids.size
            at += len(batch)
        lengths = {number: len(sources[number]) for number in numbers}
        memory = _joined([memory for memory, _ in parts])
        yield _Encoded(numbers, starts, lengths, memory, torch.cat([hidden for _, hidden in parts]))


def _decode(
    model: EncoderDecoderModel,
    inputs: Sequence[tuple[int, Ids, int]],
    encoded: _Encoded,
    options: DecoderScoring,
    language: int | None,
) -> tuple[Tensor, Int64Array]:
    """The decoder's states at all tokens of its inputs [C, size], and where each input's begin among them."""
    device = encoded.hidden.device
    lengths = np.array([len(given) for _, given, _ in inputs])
    sources = np.array([encoded.lengths[source] for source, _, _ in inputs])
    width, source_width = int(lengths.max()), int(sources.max())
    inside = np.arange(width) < lengths[:, None]
    ids = np.zeros((len(inputs), width), dtype=np.int64)
    ids[inside] = np.concatenate([given for _, given, _ in inputs])
    firsts = np.array([position for _, _, position in inputs])
    # What pads a row stands behind all real tokens of a causal decoder, so any position that exists will do.
    positions = np.where(inside, firsts[:, None] + np.arange(width), 0)
    places = np.array([encoded.starts[source] for source, _, _ in inputs])[:, None] + np.arange(source_width)
    read = torch.from_numpy(np.where(np.arange(source_width) < sources[:, None], places, 0).reshape(-1)).to(device)
    states = model.decode(
        _tokens(ids, positions, np.full(len(inputs), width), language, device),
        _selected(encoded.memory, read),
        _layout(sources, source_width).to(device),
        hidden_keys=None if options.cross_attention_to_masks else encoded.hidden.index_select(0, read),
        output_positions=torch.from_numpy(np.flatnonzero(inside)).to(device),
    )
    return states, np.cumsum(lengths) - lengths


def _batches(
    numbers: Sequence[int], inputs: Sequence[tuple[int, Ids, int]], sources: dict[int, int], tokens_per_batch: int
) -> Iterator[list[int]]:
    """Inputs of like lengths together. A batch that is half full ends where the length changes: no padding then."""

    def shape(number: int) -> tuple[int, int, int]:
        source, given, _ = inputs[number]
        return -(-sources[source] // SOURCE_BUCKET), len(given), sources[source]

    batch: list[int] = []
    widths = (0, 0)
    for number in sorted(numbers, key=shape):
        mine = (shape(number)[1], shape(number)[2])
        wider = (max(widths[0], mine[0]), max(widths[1], mine[1]))
        full = (len(batch) + 1) * max(wider) > tokens_per_batch
        half = len(batch) * max(widths) * 2 > tokens_per_batch
        if batch and (full or (half and mine != widths)):
            yield batch
            batch, wider = [], mine
        batch.append(number)
        widths = wider
    if batch:
        yield batch


def _tokens(
    ids: Int64Array, positions: Int64Array, lengths: Int64Array, language: int | None, device: torch.device
) -> Tokens:
    """Rows [R, L] with their positions, of which `lengths` [R] tokens are real."""
    position_ids = torch.from_numpy(positions.reshape(-1)).to(device)
    languages = None if language is None else torch.full_like(position_ids, language)
    layout = _layout(lengths, ids.shape[1]).to(device)
    return Tokens(torch.from_numpy(ids.reshape(-1)).to(device), position_ids, layout, languages)


def _layout(lengths: Int64Array, width: int) -> AttentionLayout:
    """Two sequences a row: its tokens, and what pads it."""
    starts = np.arange(len(lengths)) * width
    bounds = np.append(np.stack((starts, starts + lengths), axis=1).reshape(-1), len(lengths) * width)
    return AttentionLayout(torch.from_numpy(bounds.astype(np.int32)), max_seqlen=width, row_length=width)


def _grouped(keys: Sequence[int], count: int) -> list[list[int]]:
    """For each of `count` keys the places where it stands."""
    groups: list[list[int]] = [[] for _ in range(count)]
    for place, key in enumerate(keys):
        groups[key].append(place)
    return groups


def _selected(memory: Any, index: Tensor) -> Any:
    """Tokens of what `encode` gave: a tensor, or a tuple of tensors with a row a token."""
    if isinstance(memory, Tensor):
        return memory.index_select(0, index)
    return type(memory)(*(part.index_select(0, index) for part in memory))


def _joined(memories: Sequence[Any]) -> Any:
    if isinstance(memories[0], Tensor):
        return torch.cat(list(memories))
    return type(memories[0])(*(torch.cat(parts) for parts in zip(*memories, strict=True)))
