"""Pseudo-log-likelihoods of minimal pairs: our scoring against the bare forward passes that its definition needs.

The definition needs a forward pass of each distinct masked sentence, with logits at one position. `bare` are these and
nothing else: tensors made beforehand, batches of one length and of the same size, no softmax, no choice of tokens. Ours
goes from sentences to scores: tokens, queries, forward passes, log-probabilities, sums. Both run in this process, in
turn. Pairs are the first of each of BLiMP's 67 files (--blimp BLiMP.zip), or built from our own grammar.

Keys: `forward_ratio`, seconds of the bare passes over ours (1: scoring adds nothing); `minutes_blimp`, what all 67,000
pairs take at the rate measured, in one process.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from benchmarks.command import run
from benchmarks.harness import alternate, arguments, report
from benchmarks.timing import CLOCKS
from pipeline.tokenizer import special_ids, train_wordpiece
from pretrain.data.batching import from_rows
from pretrain.evaluation.challenge.builder import build
from pretrain.evaluation.challenge.english import ENGLISH
from pretrain.evaluation.scoring import Scoring, score_items
from pretrain.evaluation.scoring_masked import TOKENS_PER_BATCH, build_queries
from pretrain.evaluation.scoring_texts import Passage, tokenize_passages
from pretrain.evaluation.sources.files import TaskFiles
from pretrain.evaluation.tasks.blimp import blimp
from pretrain.evaluation.tasks.definition import PairItem
from pretrain.models.attention import AttentionLayout
from pretrain.models.config import EncoderConfig
from pretrain.models.load import load_masked_language_model
from pretrain.models.masked_lm import MaskedLanguageModel

PARADIGMS, BLIMP_PAIRS = 67, 67_000
# Layers, width, heads, width of the MLP; vocabulary 8,192.
SHAPES = {"demo": (2, 128, 2, 256), "small": (4, 256, 4, 1024), "base": (12, 768, 12, 3072)}
VOCABULARY = 8192
BareBatch = tuple[torch.Tensor, torch.Tensor, AttentionLayout, torch.Tensor]


def blimp_pairs(path: Path, count: int) -> list[PairItem]:
    """The first pairs of every paradigm, `count` in all or a few more.

    Raises InputError for a place without BLiMP.
    """
    per_paradigm = -(-count // PARADIGMS)
    chosen: dict[str, list[PairItem]] = {}
    for item in blimp().read(TaskFiles(path, own=True), "test"):
        assert isinstance(item, PairItem)
        chosen.setdefault(item.phenomenon, []).append(item)
    return [item for items in chosen.values() for item in items[:per_paradigm]]


def own_pairs(count: int) -> list[PairItem]:
    """Pairs of our own English grammar, of all phenomena, `count` in all or up to twice as many."""
    built = build(ENGLISH, max(1, count // len(ENGLISH.phenomena())), seed=1)
    return [
        PairItem(str(number), pair.good, pair.bad, pair.phenomenon, pair.template)
        for number, pair in enumerate(built[:: max(1, len(built) // count)])
    ]


def bare_batches(
    tokenizer: Tokenizer, pairs: Sequence[PairItem], tokens_per_batch: int
) -> tuple[list[BareBatch], int, int]:
    """All that the forward passes read, their number and that of their tokens."""
    mask_id = special_ids(tokenizer)["mask"]
    passages = [Passage.whole(text) for pair in pairs for text in (pair.good, pair.bad)]
    batches: list[BareBatch] = []
    passes = tokens = 0
    for queries in build_queries(list(dict.fromkeys(tokenize_passages(tokenizer, passages))), mask_id, "within_word"):
        size = max(1, tokens_per_batch // queries.length)
        for start in range(0, len(queries), size):
            rows = queries.rows(start, start + size, mask_id)
            targets = np.arange(len(rows)) * queries.length + queries.first[start : start + size]
            batches.append((*from_rows(rows, np.ones_like(rows)), torch.from_numpy(targets)))
        passes += len(queries)
        tokens += len(queries) * queries.length
    return batches, passes, tokens


@torch.inference_mode()
def _bare(model: MaskedLanguageModel, batches: Sequence[BareBatch], pairs: int, clock: Callable[[], float]) -> float:
    start = clock()
    for batch in batches:
        # Each time anew: a layout keeps its masks, which a forward pass has to make.
        flat, positions, layout, targets = batch
        model(flat, positions, AttentionLayout(layout.cu_seqlens, layout.max_seqlen, layout.row_length), targets)
    return pairs / (clock() - start)


def _ours(
    model: MaskedLanguageModel,
    tokenizer: Tokenizer,
    pairs: Sequence[PairItem],
    tokens_per_batch: int,
    clock: Callable[[], float],
) -> float:
    start = clock()
    scores = score_items(model, tokenizer, pairs, Scoring(), tokens_per_batch)
    rate = len(pairs) / (clock() - start)
    assert len(scores) == len(pairs)
    return rate


def main() -> None:
    """Run the benchmark from the command line."""

    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--blimp", type=Path, help="BLiMP.zip or its folder; default: pairs of our own grammar")
        parser.add_argument("--checkpoint", type=Path, help="default: random weights and a tokenizer of the pairs")
        parser.add_argument("--shape", choices=list(SHAPES), default="demo", help="without a checkpoint")
        parser.add_argument("--pairs", type=int, help="default: 2,010, with --quick 402")
        parser.add_argument("--tokens-per-batch", type=int, default=TOKENS_PER_BATCH)
        parser.add_argument("--runs", type=int, default=3)
        parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: CPU time, in one thread")

    options = arguments(__doc__.splitlines()[0], extra)
    threads = 1 if options.clock == "cpu" else len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    count = options.pairs or (402 if options.quick else 2010)
    pairs = blimp_pairs(options.blimp, count) if options.blimp else own_pairs(count)
    if options.checkpoint:
        loaded = load_masked_language_model(options.checkpoint)
        model, tokenizer, what = loaded.model, loaded.tokenizer, loaded.source
    else:
        layers, width, heads, inner = SHAPES[options.shape]
        torch.manual_seed(0)
        tokenizer = train_wordpiece(
            [text for pair in pairs for text in (pair.good, pair.bad)], VOCABULARY, min_frequency=1
        )
        model = MaskedLanguageModel(EncoderConfig(width, layers, heads, inner), VOCABULARY).eval()
        what = f"{layers} layers x {width}, V {VOCABULARY:,}, random weights"
    batches, passes, tokens = bare_batches(tokenizer, pairs, options.tokens_per_batch)
    clock = CLOCKS[options.clock]
    contestants = {
        "palimpsest: from sentences to scores": partial(
            _ours, model, tokenizer, pairs, options.tokens_per_batch, clock
        ),
        "bare forward passes": partial(_bare, model, batches, len(pairs), clock),
    }
    found = alternate(contestants, 2 if options.quick else options.runs)
    ours, bare = found.values()
    report(
        f"Pseudo-log-likelihood (within_word) of {len(pairs):,} {'BLiMP' if options.blimp else 'own'} pairs: "
        f"{passes:,} distinct masked sentences, {tokens:,} tokens; {what}, fp32, {threads} "
        f"thread{'s' if threads > 1 else ''}",
        f"pairs/{'CPU ' if options.clock == 'cpu' else ''}s",
        [ours, bare],
        {"forward_ratio": ours.best / bare.best, "minutes_blimp": BLIMP_PAIRS / ours.best / 60},
        options.json,
    )


if __name__ == "__main__":
    run(main)
