"""What is translated, read from shards of sentence pairs: one side of them, by row. Must not import torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from conf.errors import InputError
from pipeline.manifest import MANIFEST, Split
from pipeline.pair_shards import PairReader
from pipeline.tokenizer import load_tokenizer
from pretrain.translation.inputs import Chunk, Sentence

Side = Literal["source", "target"]

# A row of pairs has no size in bytes that would say how long it takes: it counts as so many of `chunk_bytes`.
ROW_BYTES = 100


def is_shard_directory(path: str) -> bool:
    """Whether a path is a folder with a manifest, which is what shards are."""
    return (Path(path) / MANIFEST).is_file()


class ShardInput:
    """One side of the pairs of a shard directory; ids are `<split>:<row>`.

    `language` is the source language of the translation as far as it is given. Raises InputError for shards of another
    kind or that are not whole, and where the side is in another language than that.
    """

    def __init__(self, directory: str, side: Side, split: Split, chunk_bytes: int, language: str | None) -> None:
        self._reader = PairReader(directory, split)
        self._side: Side = side
        self._split: Split = split
        self._rows = max(1, chunk_bytes // ROW_BYTES)
        self._directory = directory
        self._tokenizer = load_tokenizer(directory)
        manifest = self._reader.manifest
        self.tokenizer_hash = manifest.tokenizer_hash
        found = manifest.languages.get(side)
        if language is not None and found is not None and language != found:
            other = "target" if side == "source" else "source"
            hint = f"; set side={other}" if manifest.languages.get(other) == language else ""
            raise InputError(
                f"the {side} side of '{directory}' is in '{found}', but source_language is '{language}'{hint}"
            )

    @property
    def total(self) -> int:
        """Rows of the split."""
        return len(self._reader)

    def facts(self) -> dict[str, Any]:
        """What the sentences and their chunks depend on."""
        return {
            "content_hash": self._reader.content_hash,
            "side": self._side,
            "split": self._split,
            "chunk_bytes": self._rows * ROW_BYTES,
        }

    def fingerprints(self) -> dict[str, str]:
        """Of the directory."""
        return {self._directory: self._reader.content_hash}

    def chunks(self) -> Iterator[Chunk]:
        """All chunks in order."""
        for number, start in enumerate(range(0, self.total, self._rows)):
            yield Chunk(f"00000-{number:07d}", 0, start, min(start + self._rows, self.total))

    def position(self, chunk: Chunk, share: float) -> float:
        """Rows before a share of a chunk."""
        return chunk.start + share * (chunk.end - chunk.start)

    def sentences(self, chunk: Chunk) -> list[Sentence]:
        """The sentences of a chunk, in order."""
        pairs = self._reader.pairs(range(chunk.start, chunk.end))
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
