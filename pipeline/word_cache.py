"""Texts -> token ids: the library's own way, and an exact shortcut several times cheaper.

For WordPiece behind BERT's normaliser and pre-tokenizer, the ids of a text are the ids of its chunks between white
space, one after another, and those of a chunk are the ids of its parts between punctuation: the pre-tokenizer splits
there anyway, and nothing in the normaliser looks across. A corpus repeats its chunks, so `WordCache` tokenizes each
once and looks the others up. It is used only for tokenizers of that
build, and only after `encoder` has seen equal ids on probes and on a sample of the very texts. Imports neither Beam
nor torch.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from pipeline.sentences import sentence_starts
from pipeline.token_flags import SENTENCE_END, SENTENCE_START, WORD_START, check_columns

logger = logging.getLogger(__name__)

Int64 = NDArray[np.int64]
MAX_ENTRIES = 1_000_000  # about 200 MB
# ASCII punctuation marks, each by itself, and what lies between them.
PART = re.compile(r"[!-/:-@\[-`{-~]|[^!-/:-@\[-`{-~]+")
SAMPLE_CHARACTERS = 200_000
# Where most characters are new (Chinese, base64), looking chunks up costs more than it saves.
NEW_SHARE = 0.5
# ASCII white space to Arrow, control characters to be removed to BERT's normaliser: no chunk border.
NOT_A_BORDER = ("\x0b", "\x0c")
WHITE_SPACE_MARKS = "▁Ġ \t\n\r"  # SentencePiece's, byte-level BPE's, and white space itself
PROBES = (
    "Plain words, punctuation: it's (well-known) -- [MASK] [CLS]## ##ing",
    "a\x0bb c\x0cd e\x1cf\x1dg\x1eh\x1fi j\x85k l\u2028m n\u00a0o p\u3000q\u200br\ufeffs t\u00adu\x00v\ufffdw",
    "Ångström e\u0301 \u0301e İstanbul ΌΣΟΣ ς ﬁ ½ ẞ naïve \u1100\u1161\u11a8 각 가",
    "中文 混合 text中文 日本語テキスト ไทย हिन्दी 🙂🙂 👩‍👩‍👧",
    "\t\r\n  leading and trailing  \r\n",
    "x" * 150 + " " + "y" * 99 + "\n" + "z" * 101,
    "",
    " \n ",
)


class TextEncoder(Protocol):
    """Turns texts into ids."""

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int64]:
        """The ids of D texts without special tokens, one after another [T], and where each begins [D + 1].

        An encoder that was made for columns of the shards marks the ids for them (see `pipeline.token_flags`).
        """
        ...


class PlainEncoder:
    """The library's own encoding of whole texts."""

    def __init__(self, tokenizer: Tokenizer, columns: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._columns = check_columns(columns)
        # Without a pre-tokenizer the library takes all of a text for one word.
        self._has_words = tokenizer.pre_tokenizer is not None

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int64]:
        """See TextEncoder."""
        # The fast way keeps neither the words nor the places of tokens.
        method = self._tokenizer.encode_batch if self._columns else self._tokenizer.encode_batch_fast
        encodings = method(list(texts), add_special_tokens=False)
        lengths = np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings))
        ids = np.fromiter(
            chain.from_iterable(encoding.ids for encoding in encodings), dtype=np.int64, count=int(lengths.sum())
        )
        offsets = _offsets(lengths)
        if self._columns:
            for text, encoding, begin, end in zip(texts, encodings, offsets[:-1], offsets[1:], strict=True):
                if begin < end:
                    self._mark(ids[begin:end], text, encoding)
        return ids, offsets

    def _mark(self, ids: Int64, text: str, encoding: Encoding) -> None:
        """Mark the ids of a text that has at least one, in place."""
        if "word_start" in self._columns:
            if self._has_words:
                words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)
                starts = _changes(words)
            else:
                starts = _marked_words(encoding.tokens)
            starts[0] = True
            ids[starts] |= WORD_START
        if "sentence_lengths" in self._columns:
            ends = np.array([end for _, end in encoding.offsets], dtype=np.int64)
            # The last character decides: the first one of a token may be the white space before it.
            sentence = np.searchsorted(sentence_starts(text), np.maximum(ends - 1, 0), side="right")
            starts = _changes(np.maximum.accumulate(sentence))
            ids[starts] |= SENTENCE_START
            ids[np.append(starts[1:], True)] |= SENTENCE_END


def _changes(values: Int64) -> NDArray[np.bool_]:
    """Where a value differs from the one before it [N]; true at the first."""
    return np.append(True, values[1:] != values[:-1])


def _marked_words(tokens: Sequence[str]) -> NDArray[np.bool_]:
    """Which tokens [N] begin a word, for tokenizers that keep white space, as itself or as a mark, within the tokens.

    A token that is nothing else begins the word after it. (The places that the library reports are no help: after
    a normaliser that adds a character they are one off.)
    """
    starts = np.zeros(len(tokens), dtype=bool)
    goes_on = False
    for number, token in enumerate(tokens):
        rest = token.lstrip(WHITE_SPACE_MARKS)
        starts[number] = len(rest) < len(token) and not goes_on
        goes_on = not rest
    return starts


class SentenceEncoder:
    """Marks the sentences for an encoder that cannot tell the places of its tokens, by encoding each one by itself.

    Exact only for tokenizers that split at white space and nowhere look across.
    """

    def __init__(self, inner: TextEncoder) -> None:
        self._inner = inner

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int64]:
        """See TextEncoder."""
        borders = [sentence_starts(text).tolist() for text in texts]
        sentences = [
            text[begin:end]
            for text, starts in zip(texts, borders, strict=True)
            for begin, end in zip(starts, [*starts[1:], len(text)], strict=True)
        ]
        ids, at = self._inner.encode(sentences)
        filled = at[:-1] < at[1:]
        ids[at[:-1][filled]] |= SENTENCE_START
        ids[at[1:][filled] - 1] |= SENTENCE_END
        return ids, at[_offsets(np.array([len(starts) for starts in borders], dtype=np.int64))]


class _Table:
    """Strings -> ids, each learnt once. The ids of all strings lie in one pool, string s at start[s], length[s]."""

    def __init__(self, encode: Callable[[list[str]], tuple[Int64, Int64]]) -> None:
        self._encode = encode
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.slots: dict[str, int] = {}
        self._pool = np.empty(1 << 16, dtype=np.int64)
        self._pool_used = 0
        self._start = np.empty(1 << 16, dtype=np.int64)
        self._length = np.empty(1 << 16, dtype=np.int64)

    def unknown(self, strings: list[str]) -> list[str]:
        """Those of different strings that have not been learnt."""
        return [string for string in strings if string not in self.slots]

    def learn(self, strings: list[str]) -> None:
        """Encode different strings, none of them known, and remember their ids."""
        ids, offsets = self._encode(strings)
        first = len(self.slots)
        self._pool = _room(self._pool, self._pool_used + len(ids))
        self._start = _room(self._start, first + len(strings))
        self._length = _room(self._length, first + len(strings))
        self._pool[self._pool_used : self._pool_used + len(ids)] = ids
        self._start[first : first + len(strings)] = offsets[:-1] + self._pool_used
        self._length[first : first + len(strings)] = np.diff(offsets)
        self._pool_used += len(ids)
        self.slots.update(zip(strings, range(first, first + len(strings)), strict=True))

    def gather(self, strings: list[str], which: NDArray[np.integer]) -> tuple[Int64, Int64]:
        """The ids of strings[which[0]], strings[which[1]], ... one after another, and where each begins [N + 1]."""
        slot = np.fromiter(map(self.slots.__getitem__, strings), dtype=np.int64, count=len(strings))[which]
        lengths = self._length[slot]
        ends = _offsets(lengths)
        source = np.repeat(self._start[slot] - ends[:-1], lengths)
        source += np.arange(ends[-1])
        return self._pool[source], ends


class WordCache:
    """Encodes texts chunk by chunk, each distinct chunk once, and new chunks part by part, each distinct part once.

    A chunk is what lies between white space, a part what lies between ASCII punctuation, or one such mark. Exact only
    for tokenizers that split at both and nowhere look across; ask `encoder` for one. Memory is bounded: a table that
    would pass `max_entries` starts anew.
    """

    def __init__(self, tokenizer: Tokenizer, max_entries: int = MAX_ENTRIES, *, word_start: bool = False) -> None:
        self.word_start = word_start
        self._plain = PlainEncoder(tokenizer, ("word_start",) if word_start else ())
        self._max_entries = max_entries
        self._parts = _Table(self._plain.encode)
        self._chunks = _Table(self._encode_parts)

    @property
    def entries(self) -> int:
        """How many entries the larger table has."""
        return max(len(self._parts.slots), len(self._chunks.slots))

    def encode(self, texts: Sequence[str]) -> tuple[Int64, Int64]:
        """See TextEncoder. Texts of a few MB together are best: one dictionary is built per call."""
        if any(border in text for text in texts for border in NOT_A_BORDER):
            return self._encode_around(texts)
        return self._encode_clean(texts)

    def _encode_around(self, texts: Sequence[str]) -> tuple[Int64, Int64]:
        """The few texts with a character that Arrow and BERT treat differently take the plain way."""
        odd = np.array([any(border in text for border in NOT_A_BORDER) for text in texts])
        parts: list[Int64] = [np.empty(0, dtype=np.int64)] * len(texts)
        for plain, method in ((False, self._encode_clean), (True, self._plain.encode)):
            where: list[int] = np.flatnonzero(odd == plain).tolist()
            ids, offsets = method([texts[i] for i in where])
            for i, begin, end in zip(where, offsets[:-1], offsets[1:], strict=True):
                parts[i] = ids[begin:end]
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        return np.concatenate(parts), _offsets(lengths)

    def _encode_clean(self, texts: Sequence[str]) -> tuple[Int64, Int64]:
        split = pc.ascii_split_whitespace(pa.array(texts, type=pa.large_string()))
        coded = split.values.dictionary_encode()
        chunks = coded.dictionary.to_pylist()
        new = self._make_room(self._chunks, chunks)
        if new is None or sum(map(len, new)) > NEW_SHARE * sum(map(len, texts)):
            return self._plain.encode(texts)
        self._chunks.learn(new)
        ids, ends = self._chunks.gather(chunks, coded.indices.to_numpy())
        return ids, ends[split.offsets.to_numpy().astype(np.int64)]

    def _encode_parts(self, chunks: list[str]) -> tuple[Int64, Int64]:
        split = [PART.findall(chunk) for chunk in chunks]
        coded = pa.array(list(chain.from_iterable(split)), type=pa.large_string()).dictionary_encode()
        parts = coded.dictionary.to_pylist()
        new = self._make_room(self._parts, parts)
        if new is None:
            return self._plain.encode(chunks)
        self._parts.learn(new)
        ids, ends = self._parts.gather(parts, coded.indices.to_numpy())
        return ids, ends[_offsets(np.fromiter(map(len, split), dtype=np.int64, count=len(split)))]

    def _make_room(self, table: _Table, strings: list[str]) -> list[str] | None:
        """The strings that a table has to learn, emptied first if it must be; None if they are too many for it."""
        if len(strings) > self._max_entries:
            return None
        new = table.unknown(strings)
        if len(table.slots) + len(new) <= self._max_entries:
            return new
        table.clear()
        return strings


def encoder(
    tokenizer: Tokenizer, sample: Sequence[str], cache: WordCache | None = None, columns: Sequence[str] = ()
) -> TextEncoder:
    """The fastest encoder that is exact for this tokenizer on these texts.

    `sample` are texts of the kind to be encoded; their first SAMPLE_CHARACTERS are compared. `cache` is one of this
    tokenizer to go on with. Ids are marked for `columns`. Raises ValueError for a cache with other marks.
    """
    columns = check_columns(columns)
    word_start = "word_start" in columns
    if cache is not None and cache.word_start != word_start:
        raise ValueError("a word cache goes on only with the marks that it was made for")
    if not splits_at_white_space(tokenizer):
        return PlainEncoder(tokenizer, columns)

    def built(cache: WordCache) -> TextEncoder:
        return SentenceEncoder(cache) if "sentence_lengths" in columns else cache

    texts, left = list(PROBES), SAMPLE_CHARACTERS
    for text in sample:
        if left <= 0:
            break
        texts.append(text[:left])
        left -= len(text)
    plain = PlainEncoder(tokenizer, columns).encode(texts)
    # Twice: unseen chunks and remembered ones take different ways. A share of new characters above NEW_SHARE would
    # compare the plain way with itself, so each text goes in again with all of them known.
    trial = built(WordCache(tokenizer, word_start=word_start))
    for _ in range(2):
        cached = trial.encode(texts + texts)
        if not all(np.array_equal(a, b) for a, b in zip(cached, _doubled(*plain), strict=True)):
            logger.warning("the word cache gives other ids than this tokenizer; it is left unused")
            return PlainEncoder(tokenizer, columns)
    return built(cache or WordCache(tokenizer, word_start=word_start))


def splits_at_white_space(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer is of the build for which the word cache is exact by construction."""
    raw = json.loads(tokenizer.to_str())
    model, normalizer, pre_tokenizer = (raw.get(key) or {} for key in ("model", "normalizer", "pre_tokenizer"))
    return (
        model.get("type") == "WordPiece"
        and normalizer.get("type") == "BertNormalizer"
        and normalizer.get("clean_text") is True
        and pre_tokenizer.get("type") == "BertPreTokenizer"
        # Added tokens are matched before anything is split; special ones are not, see load_tokenizer.
        and all(token["special"] for token in raw.get("added_tokens", []))
        and tokenizer.encode_special_tokens
    )


def _doubled(ids: Int64, offsets: Int64) -> tuple[Int64, Int64]:
    return np.concatenate((ids, ids)), np.concatenate((offsets, offsets[1:] + offsets[-1]))


def _offsets(lengths: Int64) -> Int64:
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _room(array: Int64, size: int) -> Int64:
    """The array, or a copy of at least twice its length, so that `size` values fit."""
    if size <= len(array):
        return array
    grown = np.empty(max(size, 2 * len(array)), dtype=np.int64)
    grown[: len(array)] = array
    return grown
