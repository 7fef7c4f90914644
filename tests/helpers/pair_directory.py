"""A small directory of pair shards, written through the pipeline's own functions (without Beam)."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.manifest import FORMAT_VERSION
from pipeline.pair_shards import KIND, Pairs, write_pairs
from pipeline.shards import Counts, Manifest, content_hash, id_dtype, write_manifest
from pipeline.tokenizer import (
    load_tokenizer,
    save_tokenizer,
    special_ids,
    tokenizer_file,
    tokenizer_hash,
    train_wordpiece,
)

# Tokens of the source, tokens of the target, origin, score.
Row = tuple[Sequence[int], Sequence[int], int, float]


def pairs_of(rows: Sequence[Row], dtype: str = "uint16") -> Pairs:
    """Pairs from rows whose ids have their special tokens already."""
    flat = [np.array([i for row in rows for i in row[side]], dtype=dtype) for side in (0, 1)]
    sizes = [np.array([len(row[side]) for row in rows], dtype=np.int64) for side in (0, 1)]
    origin = np.array([row[2] for row in rows], dtype=np.uint8)
    return Pairs(flat[0], sizes[0], flat[1], sizes[1], origin, np.array([row[3] for row in rows], dtype=np.float32))


def write_pair_directory(
    directory: Path,
    tokenizer: str | Path,
    shards: dict[str, Sequence[Row]],
    row_length: int = 32,
    languages: tuple[str, str] = ("de", "en"),
) -> Manifest:
    """Write a complete directory with one shard per entry of `shards`; keys are "<range id>.<split>"."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_bytes(tokenizer_file(tokenizer).read_bytes())
    loaded = load_tokenizer(directory)
    size, found = loaded.get_vocab_size(), tokenizer_hash(directory)
    dtype = id_dtype(size)
    infos = [
        write_pairs(
            directory, f"shards/0000/{name}.arrow", name.rpartition(".")[2], row_length, dtype, pairs_of(rows, dtype)
        )
        for name, rows in shards.items()
    ]
    read = sum(info.rows for info in infos)
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        kind=KIND,
        config={},
        tokenizer_hash=found,
        vocab_size=size,
        special_ids=special_ids(loaded),
        dtype=dtype,
        row_length=row_length,
        shards=infos,
        counts=Counts(read=read, kept=read),
        sources=[],
        content_hash=content_hash(KIND, row_length, dtype, found, size, infos),
        fill=sum(info.tokens for info in infos) / max(1, 2 * read * row_length),
        code_version="test",
        languages=dict(zip(("source", "target"), languages, strict=True)),
    )
    write_manifest(directory, manifest)
    return manifest


NOUNS = {"bal": "vek", "dor": "wim", "fim": "xon", "gan": "yur", "hul": "zet", "jet": "alk", "kor": "bru", "lam": "cif"}


def toy_sentences(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Sentences of a toy language and their translations: each word has one, and the order is turned around."""
    generator = np.random.default_rng(seed)
    words = list(NOUNS)
    found = []
    for _ in range(count):
        source = [words[int(i)] for i in generator.integers(len(words), size=int(generator.integers(2, 12)))]
        found.append((" ".join(source), " ".join(NOUNS[word] for word in reversed(source))))
    return found


def write_toy_pairs(directory: Path, count: int, seed: int = 0, languages: tuple[str, str] = ("de", "en")) -> Path:
    """Write `toy_sentences` as pairs, the last tenth held out; the tokenizer is the same for every seed."""
    tokenizer = train_wordpiece([f"{a} {b}" for a, b in toy_sentences(200)], 60)
    directory.mkdir(parents=True, exist_ok=True)
    save_tokenizer(tokenizer, directory)
    specials = special_ids(tokenizer)

    def side(text: str) -> list[int]:
        return [specials["cls"], *tokenizer.encode(text, add_special_tokens=False).ids, specials["sep"]]

    rows = [(side(a), side(b), 0, math.nan) for a, b in toy_sentences(count, seed)]
    border = count - count // 10
    shards = {"00000-aaaaaaaa.train": rows[:border], "00000-aaaaaaaa.validation": rows[border:]}
    write_pair_directory(directory, directory, shards, languages=languages)
    return directory
