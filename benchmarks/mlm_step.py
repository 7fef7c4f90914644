"""Our masked-LM training step against transformers' BertForMaskedLM under its Trainer: real tokens per second.

Same shape, precision, optimiser, threads and token ids: paragraphs of the installed packages' documentation, cut at 128
tokens. Ours reads them packed from shards through `python -m pretrain`; the peer gets them padded to the longest of
each batch, once in random order and once with batches of like lengths, and the better of the two is the one divided by.

Keys: `transformers_ratio_small` (4 layers x 256), `transformers_ratio_base` (12 x 768), both at V = 30,522.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.harness import Measurement, alternate, arguments, report
from benchmarks.transformers_trainer import Shape, measure
from conf.errors import InputError
from pipeline.python_docs import PythonDocsCorpus
from pipeline.records import Document
from pipeline.shards import ShardReader

VOCABULARY = 30_522
ROW_LENGTH = 128
SHAPES = {
    "small": (Shape("bert_mini", 4, 256, 4, VOCABULARY), "bert_mini"),
    "base": (Shape("bert_base", 12, 768, 12, VOCABULARY), "bert_base"),
}


def _run(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(words)}` failed:\n{done.stderr[-2000:]}")


def _write_paragraphs(path: Path, limit: int) -> None:
    corpus, written = PythonDocsCorpus(), 0
    with path.open("w", encoding="utf-8") as handle:
        for part in corpus.plan().ranges:
            for record in corpus.read(part):
                if isinstance(record, Document):
                    for paragraph in record.text.split("\n\n"):
                        if len(paragraph) >= 40:
                            written += handle.write(json.dumps({"text": paragraph}) + "\n")
            if written >= limit:
                return


def _prepare(folder: Path, file: Path | None, limit: int) -> Path:
    """Train the tokenizer and write the shards by the real commands; return the shard directory."""
    if file is None:
        file = folder / "paragraphs.jsonl"
        _write_paragraphs(file, limit)
    elif not file.is_file():
        raise InputError(f"--file must name a jsonl file with a field 'text', but '{file}' is not one")
    corpus = f"corpus.paths=['{file}']"
    size = f"job.vocab_size={VOCABULARY}"
    _run("pipeline", "job=tokenizer", corpus, size, "job.min_frequency=1", f"output={folder / 'tokenizer'}")
    _run(
        "pipeline",
        "job=masked_lm",
        corpus,
        f"tokenizer={folder / 'tokenizer'}",
        f"job.row_length={ROW_LENGTH}",
        f"output={folder / 'shards'}",
    )
    return folder / "shards"


def _sequences(shards: Path, rows: int) -> list[list[int]]:
    """The documents in the first `rows` rows, each with its own [CLS] and [SEP], as the peer takes them."""
    reader = ShardReader(shards)
    found = reader.rows(np.arange(min(rows, len(reader))))
    return [
        ids[segments == piece].tolist()
        for ids, segments in zip(found.input_ids, found.segments, strict=True)
        for piece in range(1, int(segments.max()) + 1)
    ]


def _ours(shards: Path, model: str, rows: int, steps: int, warmup: int, precision: str, threads: int) -> float:
    """Train `warmup + steps` steps by the real command; the median rate of the steps after the warm-up."""
    with tempfile.TemporaryDirectory() as run_dir:
        _run(
            "pretrain",
            f"model={model}",
            "ranks=1",
            f"data={shards}",
            f"run_dir={run_dir}",
            f"deepspeed.precision={precision}",
            f"trainer.threads={threads}",
            f"trainer.max_steps={warmup + steps}",
            f"trainer.global_batch_size={rows}",
            f"trainer.micro_batch_size={rows}",
            "trainer.log_every=1",
            "trainer.validation_every=0",
            "trainer.checkpoint_every=0",
            "schedule.warmup=1",
        )
        lines = [json.loads(line) for line in (Path(run_dir) / "metrics.jsonl").read_text().splitlines()]
    rates = [line["tokens_per_second"] for line in lines if "loss" in line and line["step"] > warmup]
    return statistics.median(rates)


def _contest(
    key: str, shards: Path, rows: int, steps: int, runs: int, precision: str
) -> tuple[list[Measurement], float]:
    """Measure one shape: ours and the peer's two ways in turn; the rows of the table and the ratio."""
    shape, model = SHAPES[key]
    threads = len(os.sched_getaffinity(0))
    fill = ShardReader(shards, verify=False).manifest.fill
    sequences = _sequences(shards, rows * (steps + 4))
    # The same number of tokens a step for both: the peer's batch has more, shorter sequences.
    batch = max(1, round(rows * ROW_LENGTH * fill / np.mean([len(ids) for ids in sequences])))
    real = {f"{key}: palimpsest": fill}

    def peer(label: str, by_length: bool) -> float:
        bf16 = precision == "bf16"
        rate, real[label] = measure(sequences, str(shards / "tokenizer.json"), shape, batch, steps, 1, bf16, by_length)
        return rate

    shuffled, grouped = f"{key}: transformers, random order", f"{key}: transformers, batches by length"
    found = alternate(
        {
            f"{key}: palimpsest": partial(_ours, shards, model, rows, steps, 1, precision, threads),
            shuffled: partial(peer, shuffled, False),
            grouped: partial(peer, grouped, True),
        },
        runs,
    )
    table = [
        Measurement(one.name, one.rates, f"{100 * real[one.name]:.1f} % of the places are real tokens")
        for one in found.values()
    ]
    return table, table[0].best / max(one.best for one in table[1:])


def main() -> None:
    """Run the benchmark from the command line."""

    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--file", type=Path, help="a jsonl file with a field 'text' (default: the installed docs)")
        parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
        parser.add_argument("--runs", type=int, default=3)
        parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))

    options = arguments(__doc__.splitlines()[0], extra)
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    rows = {"small": 32, "base": 4 if options.quick else 8}
    steps = {"small": 4, "base": 2} if options.quick else {"small": 20, "base": 6}
    ratios: dict[str, float] = {}
    table: list[Measurement] = []
    with tempfile.TemporaryDirectory() as name:
        shards = _prepare(Path(name), options.file, 2_000_000 if options.quick else 16_000_000)
        for key in options.shapes:
            runs = 1 if options.quick else options.runs
            measured, ratios[f"transformers_ratio_{key}"] = _contest(
                key, shards, rows[key], steps[key], runs, options.precision
            )
            table += measured
    report(
        f"Masked-LM step, rows of {ROW_LENGTH}, V {VOCABULARY:,}, {options.precision}, {threads} threads",
        "tokens/s",
        table,
        ratios,
        options.json,
    )


if __name__ == "__main__":
    main()
