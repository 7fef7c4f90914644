"""The data of `mlm_step` and `seq2seq_step`: texts of real length, tokenized and packed by the real commands, and
the same pieces singly. Must not import torch.
"""

import functools
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from conf.errors import InputError
from pipeline.python_docs import PythonDocsCorpus
from pipeline.records import Document
from pipeline.shards import ShardReader

VOCABULARY = 30_522

Pieces = Literal["paragraphs", "documents"]


def run_command(*words: str) -> None:
    """Run `python -m` with these words; raise RuntimeError with the end of what it said if it fails."""
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(words)}` failed:\n{done.stderr[-2000:]}")


def prepare(
    folder: Path, files: Sequence[Path], pieces: Pieces, limit: int, row_length: int, vocab_size: int = VOCABULARY
) -> Path:
    """Write about `limit` characters, train a tokenizer on them, pack them; return the shard directory.

    Without `files` the texts are the documentation of the installed packages. Raises InputError for a file that is not
    jsonl (or jsonl.gz) with a field 'text'.
    """
    path = folder / "texts.jsonl"
    texts = _evenly(_of_files(files), limit) if files else _of_installed_packages(limit)
    with path.open("w", encoding="utf-8") as handle:
        for text in texts:
            for piece in _cut(text) if pieces == "paragraphs" else (text,):
                handle.write(json.dumps({"text": piece}) + "\n")
    corpus = f"corpus.paths=['{path}']"
    tokenizer = folder / "tokenizer"
    run_command(
        "pipeline",
        "job=tokenizer",
        corpus,
        f"job.vocab_size={vocab_size}",
        "job.min_frequency=1",
        f"output={tokenizer}",
    )
    run_command(
        "pipeline",
        "job=masked_lm",
        corpus,
        f"tokenizer={tokenizer}",
        f"job.row_length={row_length}",
        f"output={folder / 'shards'}",
    )
    return folder / "shards"


@functools.cache
def sequences(shards: Path, rows: int) -> list[list[int]]:
    """The pieces in `rows` rows drawn at random, each with its own [CLS] and [SEP], as a padded loop takes them."""
    reader = ShardReader(shards, verify=False)
    chosen = np.random.default_rng(0).permutation(len(reader))[:rows]
    found = reader.rows(chosen)
    return [
        ids[segments == piece].tolist()
        for ids, segments in zip(found.input_ids, found.segments, strict=True)
        for piece in range(1, int(segments.max()) + 1)
    ]


def _cut(text: str) -> list[str]:
    """Paragraphs: what blank lines divide; where there is none, lines."""
    return [part for part in text.split("\n\n" if "\n\n" in text else "\n") if part.strip()]


def _of_installed_packages(limit: int) -> Iterator[str]:
    corpus, taken = PythonDocsCorpus(), 0
    for part in corpus.plan().ranges:
        for record in corpus.read(part):
            if isinstance(record, Document):
                taken += len(record.text)
                yield record.text
        if taken >= limit:
            return


def _of_files(files: Sequence[Path]) -> list[str]:
    texts: list[str] = []
    for path in files:
        try:
            with (
                gzip.open(path, "rt", encoding="utf-8")
                if path.suffix == ".gz"
                else path.open(encoding="utf-8") as lines
            ):
                texts += [_text_of(json.loads(line)) for line in lines]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"--file must name jsonl or jsonl.gz files with a field 'text', but '{path}' is not one: {error}"
            ) from error
    return texts


def _text_of(record: Any) -> str:
    text = record["text"]
    if not isinstance(text, str):
        raise TypeError(f"the field 'text' holds {text!r:.40}")
    return text


def _evenly(texts: list[str], limit: int) -> list[str]:
    """Of each text the same share, from its start, so that all together have `limit` characters."""
    total = sum(map(len, texts))
    share = min(1.0, limit / max(total, 1))
    return texts if share == 1.0 else [text[: max(1, int(share * len(text)))] for text in texts]
