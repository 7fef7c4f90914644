"""Our MASS step against transformers' BartForConditionalGeneration in a plain loop: target tokens per second.

Same layers, width, heads, vocabulary, tied embeddings, dropout, precision, AdamW, threads and texts: paragraphs of the
installed packages' documentation, or of --file, cut at 128 tokens. Ours reads them packed from shards through
`python -m pretrain objective=mass`; its decoder has the fragments alone, at their original positions. BART numbers the
decoder's positions from 0, so to learn the same it must be given all places up to the last target. Its batches are made
beforehand and padded to their longest sequence, in random order and with like lengths together; its attention is SDPA,
and eager too. The fastest way counts.

Keys: `transformers_ratio`, ours over BART with all places; `transformers_ratio_compact`, ours over BART with the
fragments alone, as if they stood at the beginning: as much work as ours, another task; `compact_ceiling`, what that
would be if our step were nothing but its matrix products, which BART makes as well.
"""

import argparse
import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from benchmarks import mlm_data
from benchmarks.command import run
from benchmarks.harness import Measurement, alternate, arguments, report
from benchmarks.plain_loop import Attention
from benchmarks.seq2seq_peers import Feeding, Seq2SeqContest, Seq2SeqShape
from benchmarks.timing import CLOCKS
from pretrain.precision import resolve_precision

ROW_LENGTH = 128
SHAPES = {
    "tiny": Seq2SeqShape("mass_tiny", 2048),
    "small": Seq2SeqShape(
        "mass_tiny",
        16_384,
        {
            "hidden_size": 256,
            "num_encoder_layers": 4,
            "num_decoder_layers": 4,
            "num_heads": 4,
            "intermediate_size": 1024,
        },
    ),
    "base": Seq2SeqShape("mass_base", 32_000),
}
# Packed rows a step, and timed steps; the same with --quick.
_SIZES = {"tiny": (8, 10), "small": (32, 10), "base": (16, 3)}
_QUICK = {"tiny": (8, 2), "small": (32, 3), "base": (4, 2)}
_FEEDINGS: dict[Feeding, str] = {"full": "all places", "compact": "fragments alone"}
# In bf16 with dropout on probabilities, its plain attention is the faster one on some CPUs.
_WAYS: dict[str, tuple[bool, Attention]] = {
    "random order": (False, "sdpa"),
    "like lengths together": (True, "sdpa"),
    "like lengths, eager attention": (True, "eager"),
}


def measure(contest: Seq2SeqContest, runs: int) -> tuple[list[Measurement], dict[str, float]]:
    """Measure all contestants in turn; the rows of the table and the ratios."""
    ours = "palimpsest, packed"
    peers = {
        f"BART, {words}, {way}": (feeding, by_length, attention)
        for feeding, words in _FEEDINGS.items()
        for way, (by_length, attention) in _WAYS.items()
    }
    own = contest.ours_here if contest.clock == "cpu" else contest.ours
    found = alternate(
        {ours: partial(own, ours), **{label: partial(contest.peer, label, *how) for label, how in peers.items()}}, runs
    )
    rows = [
        Measurement(
            one.name,
            one.rates,
            f"{contest.encoder_fills[one.name]:.1%} of the encoder's places are real tokens, "
            f"{contest.fills[one.name]:.1%} of the decoder's have a target",
        )
        for one in found.values()
    ]
    best: dict[Feeding, float] = {
        feeding: max(found[label].best for label, (how, *_) in peers.items() if how == feeding) for feeding in _FEEDINGS
    }
    ratios = {
        "transformers_ratio": found[ours].best / best["full"],
        "transformers_ratio_compact": found[ours].best / best["compact"],
    }
    ratios["compact_ceiling"] = ratios["transformers_ratio_compact"] / contest.products_share()
    return rows, ratios


def main() -> None:
    """Run the benchmark from the command line."""

    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--file", type=Path, nargs="+", default=[], help="jsonl(.gz) with a field 'text' (default: installed docs)"
        )
        parser.add_argument("--shape", choices=list(SHAPES), default="small")
        parser.add_argument("--vocab-size", type=int, help="default: 16,384 of small, 32,000 of base")
        parser.add_argument(
            "--precision", choices=["auto", "bf16", "fp32"], default="auto", help="auto: bf16 where this CPU has it"
        )
        parser.add_argument("--runs", type=int, default=3)
        parser.add_argument("--steps", type=int, help="timed steps of each run (default: 10 of small, 3 of base)")
        parser.add_argument(
            "--clock",
            choices=list(CLOCKS),
            default="wall",
            help="cpu: per second of CPU time, in one thread, ours in this process; for a machine that others use",
        )

    options = arguments(__doc__.splitlines()[0], extra)
    options.precision = resolve_precision(options.precision, "cpu")
    threads = 1 if options.clock == "cpu" else len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    shape = SHAPES[options.shape]
    if options.vocab_size is not None:
        shape = replace(shape, vocabulary=options.vocab_size)
    rows, steps = (_QUICK if options.quick else _SIZES)[options.shape]
    with tempfile.TemporaryDirectory() as name:
        limit = 2_000_000 if options.quick else 16_000_000
        contest = Seq2SeqContest(
            key=options.shape,
            shape=shape,
            shards=mlm_data.prepare(Path(name), options.file, "paragraphs", limit, ROW_LENGTH, shape.vocabulary),
            rows=rows,
            steps=options.steps or steps,
            precision=options.precision,
            threads=threads,
            row_length=ROW_LENGTH,
            clock=options.clock,
        )
        table, ratios = measure(contest, 1 if options.quick else options.runs)
        vocab_size = contest.facts.vocab_size
    form = shape.architecture
    texts = ", ".join(path.name for path in options.file) or "documentation of the installed packages"
    report(
        f"MASS step on paragraphs of {texts}: {form.num_encoder_layers} + {form.num_decoder_layers} layers x "
        f"{form.hidden_size}, V {vocab_size:,}, {rows} rows of {ROW_LENGTH} a step, {options.precision}, "
        f"{threads} thread{'s' if threads > 1 else ''}",
        f"targets/{'CPU ' if options.clock == 'cpu' else ''}s",
        table,
        ratios,
        options.json,
    )


if __name__ == "__main__":
    run(main)
