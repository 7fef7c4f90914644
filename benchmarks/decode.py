"""Our decoding against transformers' `generate` on the exported model: greedy and beam 5, sentences per second.

Same weights, sentences, precision and threads. Ours gets the sentences in the order of the file and sorts by itself.
The peer gets them in that order and sorted by length, in batches of several sizes; its best size counts. Weights are
random, so every sentence is ended at a length that is given: that of its translation (--file), or drawn around its own;
both sides make exactly as many steps as the last sentence of a batch needs.

Keys: `transformers_ratio_greedy_unsorted`, `..._greedy_sorted`, `..._beam_unsorted`, `..._beam_sorted`, ours over the
peer's.
"""

from __future__ import annotations

import argparse
import gzip
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, models
from transformers import AutoModelForSeq2SeqLM, LogitsProcessor, LogitsProcessorList
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from benchmarks.command import run
from benchmarks.harness import Measurement, alternate, arguments, report
from benchmarks.timing import CLOCKS
from conf.errors import InputError
from pretrain.decoding.batch import SearchBatch
from pretrain.decoding.beam import BeamSearch
from pretrain.decoding.constraints import Hypothesis
from pretrain.decoding.search import BATCH_TOKENS, search
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.decoding.walk import Greedy
from pretrain.models.config import Seq2SeqConfig
from pretrain.models.huggingface import export_folder
from pretrain.models.seq2seq import Seq2SeqModel

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, SEP, CLS = 0, 3, 2
VOCABULARY = Vocabulary({"pad": PAD, "unk": 1, "cls": CLS, "sep": SEP, "mask": 4})
LONGEST = 120
# Layers of each side, width, heads, vocabulary.
SHAPES = {"tiny": (1, 32, 2, 512), "small": (3, 256, 4, 8192), "base": (6, 512, 8, 32000)}
BEAMS = 5


@dataclass(frozen=True)
class Sentences:
    """Sources as ids with their special tokens, and how many tokens ([SEP] counted) the output of each has."""

    sources: list[list[int]]
    lengths: list[int]
    what: str


def synthetic(count: int, vocab_size: int, seed: int = 0) -> Sentences:
    """Lengths spread as those of news sentences are (log-normal, mean 23), outputs 0.7 to 1.4 times as long."""
    random = np.random.default_rng(seed)
    sizes = np.clip(random.lognormal(3.0, 0.55, count).round(), 3, LONGEST).astype(int)
    outputs = np.clip((sizes * random.lognormal(0.0, 0.15, count)).round(), 2, LONGEST).astype(int)
    sources = [[CLS, *random.integers(5, vocab_size, size).tolist(), SEP] for size in sizes]
    return Sentences(sources, outputs.tolist(), f"{count} sentences of synthetic lengths")


def from_file(path: Path, columns: Sequence[int], count: int, vocab_size: int, seed: int = 0) -> Sentences:
    """The words in two columns (counted from 0) of a tsv (.gz) file of parallel text as lengths, of source and target.

    Raises InputError for a file that has no such lines.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            table = [line.rstrip("\n").split("\t") for line in lines]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"--file must name a tsv or tsv.gz file, but '{path}' cannot be read as one: {error}"
        ) from error
    pairs = [[row[column] for column in columns] for row in table if len(row) > max(columns)]
    pairs = [pair for pair in pairs if all(text.split() for text in pair)]
    if not pairs:
        raise InputError(
            f"--file must name lines with texts in the columns {columns[0]} and {columns[1]}, but '{path}' has none"
        )
    random = np.random.default_rng(seed)
    chosen = [pairs[index] for index in random.permutation(len(pairs))[:count]]
    # A word is about 1.3 tokens of a vocabulary of this size.
    sizes = [[min(LONGEST, round(1.3 * len(text.split())) + 1) for text in pair] for pair in chosen]
    sources = [[CLS, *random.integers(5, vocab_size, size).tolist(), SEP] for size, _ in sizes]
    return Sentences(sources, [size for _, size in sizes], f"{len(sources)} sentences with the lengths of {path.name}")


def _ended(batch: SearchBatch, lengths: Sequence[int]) -> SearchBatch:
    """The batch with the given length of each output for its bounds: no [SEP] before it, no token after it."""
    maximum = torch.tensor([lengths[int(str(row))] for row in batch.ids])
    return replace(batch, bounds=replace(batch.bounds, minimum=maximum - 1, maximum=maximum))


@dataclass(frozen=True, kw_only=True)
class _GreedyTo(Greedy):
    lengths: Sequence[int]

    def decode(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        return super().decode(_ended(batch, self.lengths))


@dataclass(frozen=True, kw_only=True)
class _BeamTo(BeamSearch):
    lengths: Sequence[int]

    def decode(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        return super().decode(_ended(batch, self.lengths))


class _EndAt(LogitsProcessor):
    """What `Bounds` does in ours: no [SEP] before the given length, nothing but [SEP] there."""

    def __init__(self, lengths: torch.Tensor) -> None:
        self._lengths = lengths

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        ends = input_ids.shape[1] >= self._lengths
        scores[:, SEP] = torch.where(ends, 1000.0, -torch.inf)
        return scores


class Contest:
    """One model on both sides."""

    def __init__(self, shape: str, sentences: Sentences, precision: str, clock: str, folder: Path) -> None:
        layers, width, heads, vocab_size = SHAPES[shape]
        config = Seq2SeqConfig(width, layers, layers, heads, 4 * width, max_positions=LONGEST + 8)
        torch.manual_seed(0)
        self.model = Seq2SeqModel(config, vocab_size).eval()
        names = {name: n for n, name in enumerate([*SPECIALS, *(f"w{n}" for n in range(5, vocab_size))])}
        Tokenizer(models.WordLevel(names, unk_token="[UNK]")).save(str(folder / "tokenizer.json"))
        export_folder(self.model, folder / "tokenizer.json", folder / "model")
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self.theirs = AutoModelForSeq2SeqLM.from_pretrained(
            folder / "model", local_files_only=True, dtype=dtype, attn_implementation="sdpa"
        ).eval()
        self.model.to(dtype)
        self.sentences, self.clock = sentences, CLOCKS[clock]

    def ours(self, beams: int, batch_tokens: int) -> float:
        """Sentences per second of `search`."""
        lengths = self.sentences.lengths
        options = _GreedyTo(lengths=lengths) if beams == 1 else _BeamTo(beams=beams, lengths=lengths)
        start = self.clock()
        found = search(
            self.model, self.sentences.sources, options, range(len(lengths)), VOCABULARY, batch_tokens=batch_tokens
        )
        rate = len(lengths) / (self.clock() - start)
        assert [len(one[0].tokens) + one[0].ended for one in found] == lengths
        return rate

    def peer(self, beams: int, by_length: bool, batch: int) -> float:
        """Sentences per second of `generate`."""
        sources, lengths = self.sentences.sources, self.sentences.lengths
        order = list(range(len(sources)))
        if by_length:
            order.sort(key=lambda row: -len(sources[row]))
        start = self.clock()
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            longest = max(len(sources[row]) for row in rows)
            ids = torch.tensor([[*sources[row], *[PAD] * (longest - len(sources[row]))] for row in rows])
            ends = torch.tensor([lengths[row] for row in rows]).repeat_interleave(beams)
            with torch.inference_mode():
                self.theirs.generate(
                    input_ids=ids,
                    attention_mask=(torch.arange(longest) < torch.tensor([[len(sources[row])] for row in rows])).long(),
                    max_new_tokens=int(ends.max()),
                    num_beams=beams,
                    do_sample=False,
                    logits_processor=LogitsProcessorList([_EndAt(ends)]),
                )
        return len(order) / (self.clock() - start)


def _contest(
    contest: Contest, key: str, beams: int, options: argparse.Namespace
) -> tuple[list[Measurement], dict[str, float]]:
    """Measure one search, all contestants in turn; the rows of the table and the ratios."""
    runs = 1 if options.quick else options.runs
    ours = f"{key}: palimpsest"
    peers = {
        f"{key}: transformers, {order}, batches of {batch}": partial(contest.peer, beams, order == "sorted", batch)
        for order in ("unsorted", "sorted")
        for batch in options.batch
    }
    contestants: dict[str, Callable[[], float]] = {
        ours: partial(contest.ours, beams, options.batch_tokens),
        **peers,
    }
    found = alternate(contestants, runs)
    ratios = {
        f"transformers_ratio_{key}_{order}": found[ours].best
        / max(found[label].best for label in peers if f", {order}," in label)
        for order in ("unsorted", "sorted")
    }
    return list(found.values()), ratios


def main() -> None:
    """Run the benchmark from the command line."""

    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--file", type=Path, help="tsv(.gz) of parallel text whose lengths to take")
        parser.add_argument("--columns", type=int, nargs=2, default=[0, 1], help="of the file: source and target")
        parser.add_argument("--shape", choices=list(SHAPES), default="small")
        parser.add_argument("--precision", choices=["bf16", "fp32"], default="fp32")
        parser.add_argument("--sentences", type=int, help="default: 512, with --quick 128")
        parser.add_argument("--batch", type=int, nargs="+", default=[16, 32, 64], help="sentences of a peer's batch")
        parser.add_argument("--batch-tokens", type=int, default=BATCH_TOKENS, help="in a batch of ours")
        parser.add_argument("--searches", nargs="+", choices=["greedy", "beam"], default=["greedy", "beam"])
        parser.add_argument("--runs", type=int, default=3)
        parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: CPU time, in one thread")

    options = arguments(__doc__.splitlines()[0], extra)
    threads = 1 if options.clock == "cpu" else len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    disable_progress_bar()
    set_verbosity_error()
    vocab_size = SHAPES[options.shape][3]
    count = options.sentences or (128 if options.quick else 512)
    sentences = (
        from_file(options.file, options.columns, count, vocab_size) if options.file else synthetic(count, vocab_size)
    )
    table: list[Measurement] = []
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        contest = Contest(options.shape, sentences, options.precision, options.clock, Path(folder))
        for key in options.searches:
            measured, found = _contest(contest, key, BEAMS if key == "beam" else 1, options)
            table += measured
            ratios |= found
    layers, width, _, _ = SHAPES[options.shape]
    mean = np.mean([len(source) for source in sentences.sources])
    report(
        f"Decoding, greedy and beam {BEAMS}: {sentences.what} (mean {mean:.1f} tokens), {layers} + {layers} layers x "
        f"{width}, V {vocab_size:,}, {options.precision}, {threads} thread{'s' if threads > 1 else ''}",
        f"sentences/{'CPU ' if options.clock == 'cpu' else ''}s",
        table,
        ratios,
        options.json,
    )


if __name__ == "__main__":
    run(main)
