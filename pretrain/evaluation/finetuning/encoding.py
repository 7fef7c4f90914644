"""Items of a task as token ids, one function for each kind of item. Must not import torch.

A text is `[CLS] a [SEP]`, a pair `[CLS] a [SEP] b [SEP]` with token types 0 and 1. Of a multiple choice every option is
a sequence of its own: what stands before the options is the first text, the option with what follows it the second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from conf.errors import InputError
from pipeline.tokenizer import special_ids
from pretrain.evaluation.finetuning.recipe import TooLong
from pretrain.evaluation.tasks.definition import ChoiceItem, Item, SpanItem, TextItem

# Tokens [start, end) in a sequence of the first and of the second span.
Spans = tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class EncodedItems:
    """N items with S sequences and T tokens.

    `ids` int32 [T] and `types` int8 [T], the token types; sequence s is `starts[s]:starts[s + 1]` of them, item i has
    the sequences `items[i]:items[i + 1]`. `labels` float64 [N], NaN where hidden. `spans` int32 [N, 4], only of items
    with spans: tokens [start, end) of the first and of the second within the item's sequence.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int8]
    starts: NDArray[np.int64]
    items: NDArray[np.int64]
    labels: NDArray[np.float64]
    spans: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sequence."""
        return np.diff(self.starts)

    @property
    def item_lengths(self) -> NDArray[np.int64]:
        """Tokens of each item's longest sequence."""
        return np.maximum.reduceat(self.lengths, self.items[:-1])

    def take(self, chosen: Sequence[int]) -> "EncodedItems":
        """Some of the items, in the order given."""
        sequences = [s for i in chosen for s in range(self.items[i], self.items[i + 1])]
        tokens = [np.arange(self.starts[s], self.starts[s + 1]) for s in sequences]
        flat = np.concatenate(tokens) if tokens else np.zeros(0, dtype=np.int64)
        return EncodedItems(
            ids=self.ids[flat],
            types=self.types[flat],
            starts=_borders([len(part) for part in tokens]),
            items=_borders([self.items[i + 1] - self.items[i] for i in chosen]),
            labels=self.labels[list(chosen)],
            spans=None if self.spans is None else self.spans[list(chosen)],
        )


def cut_lengths(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """How many tokens of each text are kept when both must fit into `room`: the longer one gives way first."""
    excess = length_a + length_b - room
    if excess <= 0:
        return length_a, length_b
    from_longer = min(excess, abs(length_a - length_b))
    rest = excess - from_longer
    if length_a >= length_b:
        return length_a - from_longer - rest // 2, length_b - (rest + 1) // 2
    return length_a - rest // 2, length_b - from_longer - (rest + 1) // 2


def window(length: int, first: int, last: int, room: int) -> tuple[int, int]:
    """`room` of `length` tokens, [start, end), that hold the tokens [first, last) as near to the middle as can be."""
    start = first - (room - (last - first)) // 2
    start = max(0, min(start, length - room))
    return start, min(length, start + room)


def encode(items: Sequence[Item], tokenizer: Tokenizer, max_length: int, too_long: TooLong) -> tuple[EncodedItems, int]:
    """Items (of one kind) as token ids, and how many of them were cut; see `Recipe` for what is cut.

    Raises:
        InputError: an item is too long and `too_long` is "refuse"; an option or the spans of an item do not fit into
            `max_length` at all; a text, an option or a span has no token; or minimal pairs, which nothing is trained
            on.
    """
    if not items:
        raise InputError("there is no item to encode")
    encoder = _Encoder(tokenizer, max_length, too_long)
    if isinstance(items[0], TextItem):
        encoder.texts(cast(Sequence[TextItem], items))
    elif isinstance(items[0], ChoiceItem):
        encoder.choices(cast(Sequence[ChoiceItem], items))
    elif isinstance(items[0], SpanItem):
        encoder.spans(cast(Sequence[SpanItem], items))
    else:
        raise InputError("minimal pairs are scored without training: take a task of texts, choices or spans")
    labels = [cast(TextItem, item).label for item in items]
    return encoder.result([np.nan if label is None else float(label) for label in labels]), encoder.cut


class _Encoder:
    """Collects sequences, item by item."""

    def __init__(self, tokenizer: Tokenizer, max_length: int, too_long: TooLong) -> None:
        self.tokenizer, self.max_length, self.too_long = tokenizer, max_length, too_long
        special = special_ids(tokenizer)
        self.first, self.separator = special["cls"], special["sep"]
        self.sequences: list[list[int]] = []
        self.first_lengths: list[int] = []
        self.counts: list[int] = []
        self.marked: list[Spans] = []
        self.cut = 0

    def texts(self, items: Sequence[TextItem]) -> None:
        first = self._tokens([item.text_a for item in items])
        second = self._tokens([item.text_b or "" for item in items])
        for item, a, b in zip(items, first, second, strict=True):
            pair = item.text_b is not None
            if not a or (pair and not b):
                raise InputError(f"item {item.id} has a text without any token ({item.text_a[:60]!r}): remove it")
            room = self.max_length - (3 if pair else 2)
            if len(a) + len(b) > room:
                self._refuse(item.id, len(a) + len(b) + self.max_length - room, item.text_a)
                keep_a, keep_b = cut_lengths(len(a), len(b), room)
                a, b = a[:keep_a], b[:keep_b]
                self.cut += 1
            self._add(a, b if pair else None)
            self.counts.append(1)

    def choices(self, items: Sequence[ChoiceItem]) -> None:
        before = self._tokens([item.prefix.strip() for item in items])
        endings = self._tokens([(option + item.suffix).strip() for item in items for option in item.options])
        at = 0
        for item, context in zip(items, before, strict=True):
            mine = endings[at : at + len(item.options)]
            at += len(mine)
            special = 3 if context else 2
            was_cut = False
            for option, ending in zip(item.options, mine, strict=True):
                if not ending:
                    raise InputError(f"item {item.id} has an option without any token ({option!r}): remove the item")
                room = self.max_length - special - len(ending)
                if room < min(1, len(context)):
                    raise InputError(
                        f"item {item.id} has an option of {len(ending)} tokens ({option[:60]!r}), which does not fit "
                        f"into max_length {self.max_length}, and options are never cut: raise recipe.max_length or "
                        "remove the item"
                    )
                kept = context
                if len(context) > room:
                    self._refuse(item.id, len(context) + len(ending) + special, item.prefix)
                    # The end of the context is what the option goes on from.
                    kept, was_cut = context[len(context) - room :], True
                self._add(kept, ending) if context else self._add(ending, None)
            self.cut += was_cut
            self.counts.append(len(mine))

    def spans(self, items: Sequence[SpanItem]) -> None:
        room = self.max_length - 2
        for item, encoding in zip(items, self._encodings([item.text for item in items]), strict=True):
            bounds = [self._covered(item, span, encoding.offsets) for span in (item.span_a, item.span_b)]
            low, high = min(start for start, _ in bounds), max(end for _, end in bounds)
            ids = list(encoding.ids)
            start, end = 0, len(ids)
            if len(ids) > room:
                if high - low > room:
                    raise InputError(
                        f"the spans of item {item.id} lie {high - low} tokens apart, which does not fit into "
                        f"max_length {self.max_length}: raise recipe.max_length or remove the item"
                    )
                self._refuse(item.id, len(ids) + 2, item.text)
                start, end = window(len(ids), low, high, room)
                self.cut += 1
            self._add(ids[start:end], None)
            (a, b), (c, d) = ((first - start + 1, last - start + 1) for first, last in bounds)
            self.marked.append((a, b, c, d))
            self.counts.append(1)

    def result(self, labels: Sequence[float]) -> EncodedItems:
        lengths = [len(sequence) for sequence in self.sequences]
        types = np.ones(sum(lengths), dtype=np.int8)
        starts = _borders(lengths)
        for start, first in zip(starts, self.first_lengths, strict=False):
            types[start : start + first] = 0
        return EncodedItems(
            ids=np.fromiter((token for sequence in self.sequences for token in sequence), np.int32, sum(lengths)),
            types=types,
            starts=starts,
            items=_borders(self.counts),
            labels=np.asarray(labels, dtype=np.float64),
            spans=np.asarray(self.marked, dtype=np.int32) if self.marked else None,
        )

    def _encodings(self, texts: list[str]) -> list[Any]:
        return list(self.tokenizer.encode_batch(texts, add_special_tokens=False))

    def _tokens(self, texts: list[str]) -> list[list[int]]:
        return [list(encoding.ids) for encoding in self._encodings(texts)]

    def _add(self, a: list[int], b: list[int] | None) -> None:
        sequence = [self.first, *a, self.separator]
        self.first_lengths.append(len(sequence))
        if b is not None:
            sequence += [*b, self.separator]
        self.sequences.append(sequence)

    def _refuse(self, name: str, tokens: int, text: str) -> None:
        if self.too_long == "refuse":
            raise InputError(
                f"item {name} has {tokens} tokens, but max_length is {self.max_length} ({text[:60]!r}): raise "
                "recipe.max_length, or set recipe.too_long=cut to cut and count such items"
            )

    def _covered(self, item: SpanItem, span: tuple[int, int], offsets: list[tuple[int, int]]) -> tuple[int, int]:
        """The tokens that share a character with the span, [first, last + 1)."""
        inside = [index for index, (start, end) in enumerate(offsets) if start < span[1] and end > span[0]]
        if not inside:
            raise InputError(
                f"item {item.id}: the tokenizer makes no token of the span {item.text[span[0] : span[1]]!r}: remove it"
            )
        return inside[0], inside[-1] + 1


def _borders(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))]).astype(np.int64)
