"""How likely a translation and its source are given each other, by teacher forcing, and one score made of both.

A translation that two models of opposite directions agree on, and that neither finds unlikely, is worth learning from.
Knows models by `pair_states` and `logits` only; no file is known here. Must not import the trainer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.blanks import BLANK, from_spans
from pretrain.data.pair_batches import Int64Array, cut_into_batches
from pretrain.data.pair_layout import lay_out_pairs
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.models.encoder_decoder import EncoderDecoder
from pretrain.objectives.pairs import pair_states

# What is written of each translation, null where there is no score, and what is counted of those.
REVERSE, FORWARD, DUAL = "reverse_score", "forward_score", "dual_score"
UNSCORED = "unscored"

_LOGITS = 1 << 22  # held at once, 16 MiB of fp32


@dataclass(frozen=True)
class Side:
    """A model of one direction, in evaluation mode, and its ids of the language it reads and the one it writes."""

    model: torch.nn.Module
    max_positions: int
    languages: tuple[int | None, int | None] = (None, None)


def dual_score(reverse: float, forward: float) -> float:
    """One score in (0, 1] of the mean log probabilities per token of the two directions; 1 if both are 0.

    exp(-(|H_A - H_B| + (H_A + H_B) / 2)) with the cross-entropies H = -mean log probability: Junczys-Dowmunt 2018,
    "Dual Conditional Cross-Entropy Filtering of Noisy Parallel Corpora" (W18-6478), whose words are our tokens.
    """
    return math.exp(-(abs(reverse - forward) - (reverse + forward) / 2))


def log_probabilities(
    side: Side,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    vocabulary: Vocabulary,
    batch_tokens: int,
    after_batch: Callable[[], None] = lambda: None,
) -> NDArray[np.float64]:
    """Mean natural log probability per token of each target given its source, float64 [N]; the target's [SEP] counts.

    Both are token ids without special tokens, which with [CLS] and [SEP] fit into the model's positions. It computes
    where and in the type that the model's weights are, the probabilities at least in fp32. Batches, which have no part
    in the result but by rounding, are of like lengths: pairs x longest source and x longest target are at most
    `batch_tokens` (one pair may have more). What `after_batch` raises ends the work.
    """
    model = cast(EncoderDecoder, side.model)
    device = next(model.parameters()).device
    cls_id, sep_id = vocabulary.cls_id, vocabulary.sep_id
    whole = [[[cls_id, *ids, sep_id] for ids in one] for one in (sources, targets)]
    source_lengths, target_lengths = (np.array([len(ids) for ids in one], dtype=np.int64) for one in whole)
    order, bounds = cut_into_batches(
        source_lengths, target_lengths, batch_tokens, np.arange(len(sources), dtype=np.uint64)
    )
    found = np.empty(len(sources), dtype=np.float64)
    with torch.inference_mode():
        # The longest first: what does not fit into memory fails at once, and not at the end.
        for start, end in reversed(list(pairwise(bounds.tolist()))):
            rows = order[start:end]
            batch = lay_out_pairs(
                np.concatenate([whole[0][row] for row in rows]),
                source_lengths[rows],
                np.concatenate([whole[1][row] for row in rows]),
                target_lengths[rows],
                np.ones(len(rows), dtype=bool),
                pad_id=vocabulary.special["pad"],
                longest=side.max_positions,
                languages=_filled(side.languages, len(rows)),
            ).to(device)
            states = pair_states(model, batch)
            most = max(1, _LOGITS // model.vocab_size)
            tokens = []
            for part, labels in zip(states.split(most), batch.labels.split(most), strict=True):
                logits = model.logits(part)
                logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
                tokens.append(logits.gather(1, labels[:, None])[:, 0] - logits.logsumexp(1))
            predicted = target_lengths[rows] - 1
            sums = np.add.reduceat(torch.cat(tokens).double().cpu().numpy(), np.cumsum(predicted) - predicted)
            found[rows] = sums / predicted
            after_batch()
    return found


def _filled(languages: tuple[int | None, int | None], count: int) -> tuple[Int64Array, Int64Array] | None:
    source, target = languages
    return None if source is None or target is None else (np.full(count, source), np.full(count, target))


@dataclass(frozen=True)
class DualScorer:
    """Two models of opposite directions that share a tokenizer.

    `reverse` is the one that translated (in back-translation the reverse model), `forward` that of the other direction.
    """

    reverse: Side
    forward: Side
    tokenizer: Tokenizer
    vocabulary: Vocabulary
    batch_tokens: int

    def add_scores(
        self,
        lines: Sequence[dict[str, Any]],
        sources: Sequence[Sequence[int]],
        counts: Counter[str],
        after_batch: Callable[[], None],
    ) -> None:
        """Add the scores to every translation of `lines`, of whose sources the tokens are `sources`.

        The scores are of the text that is written, so of its tokens as whoever reads it has them, not as a search found
        them, and of the pair as a whole, also where the source was translated in parts. A pair has none, and is
        counted, if a side is empty or has more tokens than either model has positions.
        """
        room = min(self.reverse.max_positions, self.forward.max_positions) - 2
        outputs = [(output, ids) for line, ids in zip(lines, sources, strict=True) for output in line["translations"]]
        encoded = self._tokens([output for output, _ in outputs])
        scored, originals, translations = [], [], []
        for (output, original), translation in zip(outputs, encoded, strict=True):
            output |= dict.fromkeys((REVERSE, FORWARD, DUAL))
            if all(0 < len(ids) <= room for ids in (original, translation)):
                scored.append(output)
                originals.append(original)
                translations.append(translation)
            else:
                counts[UNSCORED] += 1
        reverse, forward = (
            log_probabilities(side, read, written, self.vocabulary, self.batch_tokens, after_batch).tolist()
            for side, read, written in (
                (self.reverse, originals, translations),
                (self.forward, translations, originals),
            )
        )
        for output, one, other in zip(scored, reverse, forward, strict=True):
            both = dual_score(one, other)
            # Of the last as many digits however small it is: exp(-20) is below exp(-19).
            output |= {REVERSE: round(one, 6), FORWARD: round(other, 6), DUAL: float(f"{both:.6g}")}

    def _tokens(self, outputs: Sequence[dict[str, Any]]) -> list[list[int]]:
        """The tokens of each output's text, with the mask's id where noise blanked a word out."""
        parts = [from_spans(output["text"], output.get("blanks", ())).split(BLANK) for output in outputs]
        texts = [text for pieces in parts for text in pieces]
        encoded = iter(self.tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        found = []
        for pieces in parts:
            ids = list(next(encoded).ids)
            for _ in pieces[1:]:
                ids += [self.vocabulary.blank_id, *next(encoded).ids]
            found.append(ids)
        return found
