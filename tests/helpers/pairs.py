"""Sentence pairs and translations that several tests read, made up of words that tell the languages apart."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_GERMAN = "der kleine Hund läuft über die grüne Wiese und bellt laut vor Freude am Morgen nach dem Regen"
_ENGLISH = "the little dog runs across the green meadow and barks loudly with joy this morning after rain"
GERMAN, ENGLISH = _GERMAN.split(), _ENGLISH.split()


def pair_of(number: int) -> tuple[str, str]:
    """One German and one English sentence of 4 to 16 words each; nearly every number gives another pair."""
    generator = np.random.default_rng(number)
    count = int(generator.integers(4, 17))
    chosen = generator.integers(0, len(GERMAN), count).tolist()
    return tuple(f"{' '.join(words[i % len(words)] for i in chosen)} {number}" for words in (GERMAN, ENGLISH))  # type: ignore[return-value]


def write_translations(
    directory: Path,
    chunks: Sequence[Sequence[dict[str, object]]],
    tokenizer_hash: str,
    languages: tuple[str | None, str | None] = ("en", "de"),
    score_with: str | None = None,
) -> None:
    """Write a directory as `pretrain.translate` does; `languages` are those it translated from and into."""
    (directory / "translations").mkdir(parents=True, exist_ok=True)
    listed = []
    for number, lines in enumerate(chunks):
        path = directory / "translations" / f"{number:05d}.jsonl"
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        checksum = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        listed.append({"path": f"translations/{path.name}", "lines": len(lines), "checksum": checksum})
    manifest = {
        "format_version": 1,
        "counts": {"sentences": sum(map(len, chunks))},
        "tokenizer_hash": tokenizer_hash,
        "checkpoint": "checkpoints/1",
        "direction": dict(zip(("source_language", "target_language"), languages, strict=True)),
        "search": {"beam": 5},
        "chunks": listed,
        "content_hash": "sha256:0",
    } | ({} if score_with is None else {"score_with": score_with})
    (directory / "manifest.json").write_text(json.dumps(manifest))
