"""What is translated, read from shards: one side of pairs, or every piece of packed rows. Must not import torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from conf.errors import InputError
from pipeline.manifest import MANIFEST, Manifest, Split, read_manifest
from pipeline.pair_shards import PairReader, PairRows
from pipeline.shards import ShardReader, ShardRows
from pipeline.tokenizer import load_tokenizer
from pretrain.translation.inputs import Chunk, Sentence

Side = Literal["source", "target"]

# Rows have no size in bytes that would say how long they take: one of pairs counts as so many of `chunk_bytes`, and a
# packed one as so many a token.
PAIR_BYTES = 100
TOKEN_BYTES = 4
REPLACEMENT = "\ufffd"  # what decoding puts in the place of bytes that are no whole character


def is_shard_directory(path: str) -> bool:
    """Whether a path is a folder with a manifest, which is what shards are."""
    return (Path(path) / MANIFEST).is_file()


def open_shards(
    directory: str, side: Side, split: Split, chunk_bytes: int, language: str | None, tokenizer_hash: str
) -> ShardInput:
    """The sentences of a shard directory, whichever kind it is of.

    `side` is that of pairs; `language` is the source language of the translation as far as it is given,
    `tokenizer_hash` that of the model's tokenizer. Raises InputError as `PairInput` and `RowInput` do.
    """
    if read_manifest(directory).kind == ShardRows.kind:
        return RowInput(directory, side, split, chunk_bytes, tokenizer_hash)
    return PairInput(directory, side, split, chunk_bytes, language, tokenizer_hash)


class ShardInput(ABC):
    """Rows of one split of a shard directory in chunks of `rows_per_chunk`; see `inputs.Input`.

    A chunk opens the shards for itself: pages of a file that stays mapped count as this process's memory, which would
    so grow with the input.
    """

    def __init__(self, directory: str, manifest: Manifest, split: Split, rows_per_chunk: int) -> None:
        self._directory, self._manifest, self._split = directory, manifest, split
        if self.total == 0:
            other = "train" if split == "validation" else "validation"
            raise InputError(f"'{directory}' has no rows in split={split}: set split={other}, or name other shards")
        self._rows_per_chunk = max(1, rows_per_chunk)
        self._tokenizer = load_tokenizer(directory)

    @property
    def total(self) -> int:
        """Rows of the split."""
        return self._manifest.rows(self._split)

    def fingerprints(self) -> dict[str, str]:
        """Of the directory."""
        return {self._directory: self._manifest.content_hash}

    def chunks(self) -> Iterator[Chunk]:
        """All chunks in order."""
        for number, start in enumerate(range(0, self.total, self._rows_per_chunk)):
            yield Chunk(f"00000-{number:07d}", 0, start, min(start + self._rows_per_chunk, self.total))

    def position(self, chunk: Chunk, share: float) -> float:
        """Rows before a share of a chunk."""
        return chunk.start + share * (chunk.end - chunk.start)

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the sentences and their chunks depend on."""

    @abstractmethod
    def sentences(self, chunk: Chunk) -> list[Sentence]:
        """The sentences of a chunk, in order."""


class PairInput(ShardInput):
    """One side of the pairs of a shard directory; ids are `<split>:<row>`.

    Raises InputError for shards that are not whole, that have another tokenizer than the model, or whose side is in
    another language than the translation's source.
    """

    def __init__(
        self,
        directory: str,
        side: Side,
        split: Split,
        chunk_bytes: int,
        language: str | None,
        tokenizer_hash: str,
    ) -> None:
        manifest = PairReader(directory, split).manifest
        super().__init__(directory, manifest, split, chunk_bytes // PAIR_BYTES)
        self._side: Side = side
        found = manifest.languages.get(side)
        if language is not None and found is not None and language != found:
            other = "target" if side == "source" else "source"
            hint = f"; set side={other}" if manifest.languages.get(other) == language else ""
            raise InputError(
                f"the {side} side of '{directory}' is in '{found}', but source_language is '{language}'{hint}"
            )
        if manifest.tokenizer_hash != tokenizer_hash:
            raise InputError(
                f"the tokenizer of the pairs in '{directory}' is not that of the model: give the text, or shards that "
                "were made with the model's tokenizer"
            )

    def facts(self) -> dict[str, Any]:
        """What the sentences and their chunks depend on."""
        return {
            "content_hash": self._manifest.content_hash,
            "side": self._side,
            "split": self._split,
            "chunk_bytes": self._rows_per_chunk * PAIR_BYTES,
        }

    def sentences(self, chunk: Chunk) -> list[Sentence]:
        """The sentences of a chunk, in order."""
        pairs = PairRows(Path(self._directory), self._manifest, self._split).pairs(range(chunk.start, chunk.end))
        flat, lengths = (
            (pairs.source_ids, pairs.source_lengths)
            if self._side == "source"
            else (pairs.target_ids, pairs.target_lengths)
        )
        rows = [row.tolist() for row in np.split(flat, np.cumsum(lengths)[:-1])]
        texts = self._tokenizer.decode_batch(rows, skip_special_tokens=True)
        return [
            Sentence(f"{self._split}:{chunk.start + number}", text, ids=tuple(row[1:-1]))
            for number, (row, text) in enumerate(zip(rows, texts, strict=True))
        ]


class RowInput(ShardInput):
    """Every piece of the packed rows of a shard directory; ids are `<split>:<row>:<piece>`, both numbered from 0.

    The text is what the shards' tokenizer makes of the ids. A model with the same tokenizer is given the ids
    themselves, another one the text. A piece is not readable if it holds an [UNK], or characters of which a cut left a
    part: what stood there is gone.

    Raises InputError for shards that are not whole, a side (rows have none), and a tokenizer that gives no text back.
    """

    def __init__(self, directory: str, side: Side, split: Split, chunk_bytes: int, tokenizer_hash: str) -> None:
        manifest = ShardReader(directory, split).manifest
        super().__init__(directory, manifest, split, chunk_bytes // (TOKEN_BYTES * manifest.row_length))
        if side != "source":
            raise InputError(f"'{directory}' holds packed rows of one text, which have no side: leave side={side} away")
        if self._tokenizer.decoder is None:
            raise InputError(
                f"the tokenizer of '{directory}' has no decoder, so that its tokens do not become text: give the text"
            )
        self._gives_ids = manifest.tokenizer_hash == tokenizer_hash

    def facts(self) -> dict[str, Any]:
        """What the sentences and their chunks depend on."""
        return {
            "content_hash": self._manifest.content_hash,
            "split": self._split,
            "chunk_bytes": self._rows_per_chunk * TOKEN_BYTES * self._manifest.row_length,
        }

    def sentences(self, chunk: Chunk) -> list[Sentence]:
        """The pieces of a chunk's rows, in order."""
        rows = ShardRows(Path(self._directory), self._manifest, self._split).rows(range(chunk.start, chunk.end))
        names: list[str] = []
        pieces: list[list[int]] = []
        for number, (ids, segments) in enumerate(zip(rows.input_ids, rows.segments, strict=True), start=chunk.start):
            ends = np.cumsum(np.bincount(segments)[1:]).tolist()  # padding, which is segment 0, is at the row's end
            for piece, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
                names.append(f"{self._split}:{number}:{piece}")
                pieces.append(ids[start + 1 : end - 1].tolist())  # without [CLS] and [SEP]
        texts = self._tokenizer.decode_batch(pieces, skip_special_tokens=False)
        unknown = self._manifest.special_ids["unk"]
        return [
            Sentence(
                name,
                text,
                readable=unknown not in piece and REPLACEMENT not in text,
                ids=tuple(piece) if self._gives_ids else None,
            )
            for name, piece, text in zip(names, pieces, texts, strict=True)
        ]
