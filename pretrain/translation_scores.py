"""BLEU and chrF of a model that is in training, on held-out pairs: which checkpoint translates best.

Hypotheses and references are the text of their tokens, as the tokenizer gives it back; scores that are to be compared
with others' are made by `python -m pretrain.translate` and the original text. Must not import deepspeed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from pipeline.tokenizer import load_tokenizer
from pretrain.data.counter import derive_key
from pretrain.data.mixture import Mixture
from pretrain.data.order import permute
from pretrain.data.pair_batches import PairBatches
from pretrain.decoding.beam import BeamSearch
from pretrain.decoding.search import search
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.distributed import Group
from pretrain.engine import TrainingEngine


@dataclass(frozen=True)
class Sample:
    """Held-out pairs as token ids with their special tokens."""

    sources: list[list[int]]
    targets: list[list[int]]


def draw_sample(mixture: Mixture, count: int) -> Sample:
    """Draw up to `count` held-out pairs over all of every directory, the same in every run."""
    readers = [source.reader for source in mixture.sources if isinstance(source.reader, PairBatches)]
    sizes = [reader.num_pairs for reader in readers]
    drawn = permute(np.arange(min(count, sum(sizes))), sum(sizes), derive_key("scored pairs"))
    sample = Sample([], [])
    before = 0
    for reader, size in zip(readers, sizes, strict=True):
        mine = drawn[(drawn >= before) & (drawn < before + size)] - before
        pairs = reader.pairs(mine)
        for side, ids, lengths in (
            (sample.sources, pairs.source_ids, pairs.source_lengths),
            (sample.targets, pairs.target_ids, pairs.target_lengths),
        ):
            side += [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if len(lengths) else []
        before += size
    return sample


class TranslationScores:
    """Translates a sample of held-out sources and scores it: {"bleu": ..., "chrf": ...}, the same on every rank.

    `direction` are the model's numbers of the language that is read and the one that is written, None for a model
    without. The ranks share the sentences;
    calling it is collective.
    """

    def __init__(
        self,
        mixture: Mixture,
        sentences: int,
        beams: int,
        tokenizer_of: Path,
        direction: tuple[int, int] | None = None,
    ) -> None:
        self._tokenizer: Tokenizer = load_tokenizer(tokenizer_of)
        self._vocabulary = Vocabulary.of(self._tokenizer)
        self._sample = draw_sample(mixture, sentences)
        self._references = self._texts(self._sample.targets)
        self._options = BeamSearch(beams=beams)
        self._direction = direction

    def __call__(self, engine: TrainingEngine, group: Group, go_on: Callable[[], None]) -> dict[str, float]:
        """Translate this rank's share with the weights as they are, and score what all ranks translated.

        `go_on` is called after each batch of sentences.
        """
        numbers = range(group.ranks.rank, len(self._references), group.ranks.world_size)
        source, target = self._direction or (None, None)
        with engine.whole_model() as model:
            found = search(
                model,
                [self._sample.sources[i] for i in numbers],
                self._options,
                list(numbers),
                self._vocabulary,
                source_language=source,
                target_language=target,
                after_batch=lambda done: go_on(),
            )
        mine = list(zip(numbers, self._texts([best[0].tokens for best in found]), strict=True))
        texts = dict(pair for part in group.gather(mine) for pair in part)
        return corpus_scores([texts[i] for i in range(len(texts))], self._references)

    def _texts(self, sequences: list[list[int]]) -> list[str]:
        texts: list[str] = self._tokenizer.decode_batch(sequences, skip_special_tokens=True)
        return texts


def corpus_scores(hypotheses: list[str], references: list[str]) -> dict[str, float]:
    """BLEU and chrF of sacreBLEU with its own defaults, from 0 to 100."""
    from sacrebleu.metrics import BLEU, CHRF  # brings a quarter of a second, of runs that score nothing too

    return {
        "bleu": BLEU().corpus_score(hypotheses, [references]).score,
        "chrf": CHRF().corpus_score(hypotheses, [references]).score,
    }
