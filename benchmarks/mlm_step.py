"""Our masked-LM training step against transformers' BertForMaskedLM, under its Trainer and in a plain padded loop.

Same shape, precision, optimiser, threads and texts: paragraphs of the installed packages' documentation, or of --file,
cut at 128 tokens. Ours reads them packed from shards through `python -m pretrain`. The peers get them padded to the
longest of each batch, in random order and with like lengths together (out of 50 batches); the plain loop gets its
batches made beforehand. `--breakdown` instead switches parts of our step off, one at a time (`mlm_breakdown.py`).

Keys, for SHAPE `small` (4 layers x 256) and `base` (12 x 768), at V = 30,522 (`tiny`, 2 x 128, is for tests):
`transformers_ratio_SHAPE` and `plain_ratio_SHAPE`, ours over the peer's better order; `plain_random_ratio_SHAPE`, over
the plain loop in random order; with --breakdown `PART_factor_SHAPE`, ours over ours with PART switched off.
"""

import argparse
import os
import tempfile
from functools import partial
from pathlib import Path

import torch

from benchmarks import mlm_breakdown, mlm_data
from benchmarks.command import run
from benchmarks.harness import Measurement, alternate, arguments, report
from benchmarks.mlm_data import VOCABULARY
from benchmarks.mlm_peers import Contest
from benchmarks.timing import CLOCKS
from benchmarks.transformers_trainer import Shape
from pretrain.precision import resolve_precision

SHAPES = {
    "tiny": Shape("bert_tiny", 2, 128, 2, VOCABULARY),
    "small": Shape("bert_mini", 4, 256, 4, VOCABULARY),
    "base": Shape("bert_base", 12, 768, 12, VOCABULARY),
}


def _contest(contest: Contest, runs: int) -> tuple[list[Measurement], dict[str, float]]:
    """Measure one shape, all contestants in turn; the rows of the table and the ratios."""
    key = contest.key
    ours = f"{key}: palimpsest"
    trainer = {f"{key}: transformers Trainer, {how}": by_length for how, by_length in _ORDERS.items()}
    plain = {f"{key}: plain torch loop, {how}": by_length for how, by_length in _ORDERS.items()}
    own = partial(contest.ours, ours)
    if contest.clock == "cpu":
        own = partial(mlm_breakdown.ours_here, contest, ours)
    found = alternate(
        {
            ours: own,
            **{label: partial(contest.trainer, label, by_length) for label, by_length in trainer.items()},
            **{label: partial(contest.plain, label, by_length) for label, by_length in plain.items()},
        },
        runs,
    )
    rows = [
        Measurement(one.name, one.rates, f"{100 * contest.fills[one.name]:.1f} % of the places are real tokens")
        for one in found.values()
    ]
    best = {label: one.best for label, one in found.items()}
    ratios = {
        f"transformers_ratio_{key}": best[ours] / max(best[label] for label in trainer),
        f"plain_ratio_{key}": best[ours] / max(best[label] for label in plain),
        f"plain_random_ratio_{key}": best[ours] / best[next(iter(plain))],
    }
    return rows, ratios


_ORDERS = {"random order": False, "like lengths together": True}


def main() -> None:
    """Run the benchmark from the command line."""

    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--file", type=Path, nargs="+", default=[], help="jsonl(.gz) with a field 'text' (default: installed docs)"
        )
        parser.add_argument("--pieces", choices=["paragraphs", "documents"], default="paragraphs")
        parser.add_argument("--row-length", type=int, choices=[128, 256, 512], default=128)
        parser.add_argument(
            "--precision", choices=["auto", "bf16", "fp32"], default="auto", help="auto: bf16 where this CPU has it"
        )
        parser.add_argument("--runs", type=int, default=3)
        parser.add_argument("--steps", type=int, help="timed steps of each run (default: 10 of small, 4 of base)")
        parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["small", "base"])
        parser.add_argument(
            "--clock",
            choices=list(CLOCKS),
            default="wall",
            help="cpu: per second of CPU time, in one thread, ours in this process; for a machine that others use",
        )
        parser.add_argument(
            "--breakdown",
            action="store_true",
            help="instead of the peers, our step with one part at a time switched off",
        )

    options = arguments(__doc__.splitlines()[0], extra)
    options.precision = resolve_precision(options.precision, "cpu")
    threads = 1 if options.clock == "cpu" else len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    runs = 1 if options.quick else options.runs
    rows = {"tiny": 8, "small": 32, "base": 4 if options.quick else 8}
    steps = {"tiny": 2, "small": 4, "base": 2} if options.quick else {"tiny": 10, "small": 10, "base": 4}
    ratios: dict[str, float] = {}
    table: list[Measurement] = []
    with tempfile.TemporaryDirectory() as name:
        limit = 2_000_000 if options.quick else 16_000_000
        shards = mlm_data.prepare(Path(name), options.file, options.pieces, limit, options.row_length)
        for key in options.shapes:
            contest = Contest(
                key=key,
                shape=SHAPES[key],
                shards=shards,
                rows=max(1, rows[key] * 128 // options.row_length),
                steps=options.steps or steps[key],
                precision=options.precision,
                threads=threads,
                row_length=options.row_length,
                clock=options.clock,
            )
            measure = mlm_breakdown.measure if options.breakdown else _contest
            measured, found = measure(contest, runs)
            table += measured
            ratios |= found
    texts = ", ".join(path.name for path in options.file) or "documentation of the installed packages"
    report(
        f"Masked-LM step on {options.pieces} of {texts}: rows of {options.row_length}, V {VOCABULARY:,}, "
        f"{options.precision}, {threads} thread{'s' if threads > 1 else ''}",
        f"tokens/{'CPU ' if options.clock == 'cpu' else ''}s",
        table,
        ratios,
        options.json,
    )


if __name__ == "__main__":
    run(main)
