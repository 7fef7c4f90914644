"""The masked-LM job against what a user would otherwise run over the same file, on the same cores.

Ours does more in its time: it reads, cleans, removes exact duplicates, tokenizes, packs and writes checked shards. The
peers only read and tokenize (datasets.map writes its cache file too).

Keys: `raw_ratio_docs`, ours over the faster of `encode_batch` and `encode_batch_fast` of tokenizers in one process with
a thread per core; `datasets_ratio_docs`, ours over `datasets.map` with a process per core.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from tokenizers import Tokenizer

from benchmarks.harness import alternate, arguments, report
from conf.command import compose
from conf.errors import InputError
from pipeline.python_docs import PythonDocsCorpus
from pipeline.records import Document
from pipeline.tokenizer import train_wordpiece

BATCH = 1000
QUICK_BYTES = 24_000_000


def _write_corpus(path: Path, limit: int | None) -> int:
    """Write the documents of the installed packages as jsonl, at most `limit` bytes of text; return their bytes."""
    corpus = PythonDocsCorpus()
    total = 0
    with path.open("w", encoding="utf-8") as handle:
        for number, part in enumerate(corpus.plan().ranges):
            for record in corpus.read(part):
                if isinstance(record, Document):
                    handle.write(json.dumps({"id": f"{number}", "text": record.text}, ensure_ascii=False) + "\n")
                    total += len(record.text.encode())
            if limit is not None and total >= limit:
                break
    return total


def _texts(path: Path, text_key: str) -> list[str]:
    with path.open(encoding="utf-8") as handle:
        return [json.loads(line)[text_key] for line in handle]


def _raw(path: Path, tokenizer: Tokenizer, fast: bool) -> None:
    """Read the file and encode it in batches of documents; the ids are made into arrays, as any use would need."""
    encode = tokenizer.encode_batch_fast if fast else tokenizer.encode_batch
    batch: list[str] = []

    def flush() -> None:
        for encoding in encode(batch, add_special_tokens=False):
            np.asarray(encoding.ids, dtype=np.uint16)
        batch.clear()

    with path.open(encoding="utf-8") as handle:
        for line in handle:
            batch.append(json.loads(line)["text"])
            if len(batch) == BATCH:
                flush()
        if batch:
            flush()


def _datasets_map(path: Path, tokenizer: Tokenizer, cores: int) -> None:
    import datasets

    datasets.disable_progress_bars()

    def encode(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        encoded = tokenizer.encode_batch_fast(rows["text"], add_special_tokens=False)
        return {"input_ids": [np.asarray(one.ids, dtype=np.uint16) for one in encoded]}

    with tempfile.TemporaryDirectory() as cache:
        data = datasets.load_dataset("json", data_files=str(path), cache_dir=cache, split="train")
        data.map(encode, batched=True, batch_size=BATCH, num_proc=cores, remove_columns=data.column_names)


def _job(path: Path, tokenizer: Path, cores: int) -> None:
    """The job as `python -m pipeline job=masked_lm` builds it, with its default cleaning, from planning to manifest."""
    with tempfile.TemporaryDirectory() as output:
        overrides = [
            "job=masked_lm",
            f"corpus.paths=['{path}']",
            f"corpus.range_bytes={max(1 << 20, path.stat().st_size // (4 * cores))}",
            f"runner.workers={cores}",
            f"output={output}",
        ]
        config = compose("pipeline", overrides)
        job, corpus, runner = (hydra.utils.instantiate(config[name]) for name in ("job", "corpus", "runner"))
        job.run(corpus, Path(output), str(tokenizer), runner)


def main() -> None:
    """Run the benchmark from the command line."""

    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--file", type=Path, help="a plain jsonl file with a field 'text' (default: the docs)")
        parser.add_argument("--runs", type=int, default=3)

    options = arguments(__doc__.splitlines()[0], extra)
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = options.file or folder / "documents.jsonl"
        if options.file is None:
            _write_corpus(path, QUICK_BYTES if options.quick else None)
        if not path.is_file():
            raise InputError(f"--file must name a jsonl file, but '{path}' is not one")
        texts = _texts(path, "text")
        size = sum(len(text.encode()) for text in texts) / 1e6
        documents = len(texts)
        tokenizer = train_wordpiece(texts[:: max(1, documents // 4000)], vocab_size=8192)
        del texts
        tokenizer.save(str(folder / "tokenizer.json"))

        def rate(function: Any, *inputs: Any) -> float:
            begin = time.perf_counter()
            function(*inputs)
            return size / (time.perf_counter() - begin)

        found = alternate(
            {
                "palimpsest job=masked_lm": lambda: rate(_job, path, folder, cores),
                "tokenizers encode_batch": lambda: rate(_raw, path, tokenizer, False),
                "tokenizers encode_batch_fast": lambda: rate(_raw, path, tokenizer, True),
                "datasets.map": lambda: rate(_datasets_map, path, tokenizer, cores),
            },
            runs=1 if options.quick else options.runs,
            notes={
                "palimpsest job=masked_lm": f"{cores} processes; reads, cleans, dedups, packs, writes shards",
                "tokenizers encode_batch": f"{cores} threads; reads and tokenizes only",
                "tokenizers encode_batch_fast": f"{cores} threads; reads and tokenizes only",
                "datasets.map": f"{cores} processes; batched, encode_batch_fast, NumPy; writes its cache",
            },
        )
    ours = found["palimpsest job=masked_lm"].best
    raw = max(found["tokenizers encode_batch"].best, found["tokenizers encode_batch_fast"].best)
    report(
        f"Tokenize {documents:,} documents, {size:.1f} MB of text, WordPiece 8,192",
        "MB/s",
        list(found.values()),
        {"raw_ratio_docs": ours / raw, "datasets_ratio_docs": ours / found["datasets.map"].best},
        options.json,
    )


if __name__ == "__main__":
    main()
