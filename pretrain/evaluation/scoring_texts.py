"""Texts as a model sees them, with the part that is scored: characters become tokens, and context is cut to fit.

Knows no model and no task. Must not import torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tokenizers import Tokenizer

from conf.errors import InputError
from pipeline.tokenizer import special_ids

SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class Passage:
    """A text, the characters [start, end) of it that are `scored`, and those that may never be cut (`kept`)."""

    text: str
    scored: tuple[int, int]
    kept: tuple[int, int]

    @classmethod
    def whole(cls, text: str) -> "Passage":
        """A text that is scored from its first to its last token."""
        return cls(text, (0, len(text)), (0, len(text)))

    @property
    def num_characters(self) -> int:
        """Characters that are scored; for a part of a text without the white space at its ends."""
        start, end = self.scored
        return len(self.text) if (start, end) == (0, len(self.text)) else len(self.text[start:end].strip())


@dataclass(frozen=True)
class TokenizedText:
    """A text as the model sees it: ids with [CLS] and [SEP], and for each position the word it belongs to.

    `words` is None where a position is special; positions of one word share a number. Positions [first, last) of
    `scored` are those of the scored part, of `kept` those that may not be cut.
    """

    text: str
    ids: tuple[int, ...]
    words: tuple[int | None, ...]
    scored: tuple[int, int]
    kept: tuple[int, int]

    @property
    def num_tokens(self) -> int:
        """Tokens that are scored; [CLS] and [SEP] never are."""
        return self.scored[1] - self.scored[0]

    @property
    def before(self) -> int:
        """Tokens between [CLS] and what may not be cut."""
        return self.kept[0] - 1

    @property
    def after(self) -> int:
        """Tokens between what may not be cut and [SEP]."""
        return len(self.ids) - 1 - self.kept[1]

    def without(self, first: int, last: int) -> "TokenizedText":
        """The text without its `first` first and its `last` last tokens; [CLS] and [SEP] stay.

        Raises:
            ValueError: that would cut what must be kept.
        """
        if first > self.before or last > self.after:
            raise ValueError(f"{self.before} and {self.after} tokens may be cut, not {first} and {last}")
        end = len(self.ids) - 1 - last
        return replace(
            self,
            ids=(self.ids[0], *self.ids[1 + first : end], self.ids[-1]),
            words=(None, *self.words[1 + first : end], None),
            scored=(self.scored[0] - first, self.scored[1] - first),
            kept=(self.kept[0] - first, self.kept[1] - first),
        )


def tokenize_passages(tokenizer: Tokenizer, passages: Sequence[Passage]) -> list[TokenizedText]:
    """Passages as [CLS] tokens [SEP], of whatever length.

    A token belongs to the part of the text in which its first character that is no white space lies.

    Raises:
        InputError: a passage without any token to score.
    """
    special = special_ids(tokenizer)
    begin, end = special["cls"], special["sep"]
    tokenized = []
    encodings = tokenizer.encode_batch([passage.text for passage in passages], add_special_tokens=False)
    for passage, encoding in zip(passages, encodings, strict=True):
        ids = encoding.ids
        everything = (0, len(passage.text))
        if passage.scored == everything:
            scored = kept = (1, len(ids) + 1)
        else:
            starts = _first_characters(passage.text, encoding.offsets)
            scored, kept = (_positions(starts, *span) for span in (passage.scored, passage.kept))
        if scored[0] == scored[1]:
            part = passage.text[slice(*passage.scored)]
            what = f"the text {shown(passage.text)}" if passage.scored == everything else f"the part {shown(part)}"
            of = "" if passage.scored == everything else f" of {shown(passage.text)}"
            raise InputError(f"{what}{of} has no token, so it has no score: remove it")
        tokenized.append(
            TokenizedText(passage.text, (begin, *ids, end), (None, *encoding.word_ids, None), scored, kept)
        )
    return tokenized


def tokenize(tokenizer: Tokenizer, texts: Sequence[str], max_positions: int) -> list[TokenizedText]:
    """Texts that are scored whole, as [CLS] tokens [SEP].

    Raises:
        InputError: a text without any token, or longer than the model's positions (it is never cut: a score of a part
            would pass for a score of the whole).
    """
    tokenized = tokenize_passages(tokenizer, [Passage.whole(text) for text in texts])
    for text in tokenized:
        if len(text.ids) > max_positions:
            raise too_long(text, max_positions)
    return tokenized


def too_long(text: TokenizedText, max_positions: int) -> InputError:
    """The error for a text that does not fit into the model."""
    return InputError(
        f"a text to score must have at most {max_positions} tokens with [CLS] and [SEP] (the model's positions), but "
        f"{shown(text.text)} has {len(text.ids)}: shorten it, or use a model with more positions"
    )


def fit_together(options: Sequence[TokenizedText], max_positions: int) -> tuple[list[TokenizedText], int] | None:
    """The options of one item with as much context as the model can hold, and how many tokens of it were cut.

    All options lose the same tokens, so that they are compared in one context: those farthest from the answer before
    it first, then, if that is not enough, those farthest behind it. None: even without any context one does not fit.
    """
    excess = max(len(option.ids) for option in options) - max_positions
    if excess <= 0:
        return list(options), 0
    first = min(excess, *(option.before for option in options))
    last = min(excess - first, *(option.after for option in options))
    if first + last < excess:
        return None
    return [option.without(first, last) for option in options], excess


def shown(text: str) -> str:
    """A text in quotation marks, its beginning if it is long."""
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "...")


def _first_characters(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Where each token's first character lies that is no white space (byte-level tokens may begin with a space)."""
    starts = []
    for start, end in offsets:
        piece = text[start:end]
        blank = len(piece) - len(piece.lstrip())
        starts.append(start + (blank if blank < len(piece) else 0))
    return starts


def _positions(starts: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """The positions [first, last), [CLS] counted, of the tokens that begin in the characters [start, end)."""
    first = sum(at < start for at in starts)
    return first + 1, first + sum(start <= at < end for at in starts) + 1
