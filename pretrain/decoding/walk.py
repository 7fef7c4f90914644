"""Outputs that grow token by token and never branch: what greedy search and sampling have in common.

Knows a model by `incremental.py` only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pretrain.decoding.batch import SearchBatch, leaving
from pretrain.decoding.best import largest
from pretrain.decoding.constraints import Constraints, Hypothesis


class Choose(Protocol):
    """How the next token is chosen."""

    def __call__(self, log_probabilities: Tensor, length: int, ids: Sequence[Hashable]) -> Tensor:
        """fp32 [N, K, V] of the token after `length`, -inf where it may not be; ids [N] -> int64 [N, K]."""


@dataclass(frozen=True, kw_only=True)
class Greedy(Constraints):
    """The most likely token at every place: beam search with one beam, which stops at its first end, and faster.

    Attributes:
        length_penalty: alpha in score = log probability / length^alpha; it changes the score only.
    """

    length_penalty: float = 1.0

    @property
    def width(self) -> int:
        """Hypotheses of a sentence at a time."""
        return 1

    def decode(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """One hypothesis for each sentence of the batch."""
        return walk(batch, _likeliest, 1, self.length_penalty)


def _likeliest(log_probabilities: Tensor, length: int, ids: Sequence[Hashable]) -> Tensor:
    return largest(log_probabilities[:, 0], 1)[1]


def walk(batch: SearchBatch, choose: Choose, width: int, length_penalty: float) -> list[list[Hypothesis]]:
    """`width` outputs of each of the N sentences, each a token longer at every step until it ends.

    The score is by the model's own probabilities, whatever `choose` makes of them.
    """
    logits, bounds, ids = batch.begin(), batch.bounds, list(batch.ids)
    device = logits.device
    rows = torch.arange(len(batch), device=device)
    if width > 1:
        batch.decoder.select(rows, torch.zeros(len(batch), width, dtype=torch.long, device=device))
        logits = logits.expand(-1, width, -1)
    tokens = torch.zeros(len(batch), width, 0, dtype=torch.long, device=device)
    lengths = torch.zeros(len(batch), width, dtype=torch.long, device=device)
    totals = torch.zeros(len(batch), width, device=device)
    done, ended = torch.zeros_like(lengths, dtype=torch.bool), torch.zeros_like(lengths, dtype=torch.bool)
    results: list[list[Hypothesis]] = [[] for _ in ids]
    length = 0
    while True:
        log_probabilities = logits.log_softmax(2)  # faster than a sum of their exponentials, which makes copies
        bounds.forbid(log_probabilities, length)
        chosen = choose(log_probabilities, length, ids)
        gained = log_probabilities.gather(2, chosen[:, :, None])[:, :, 0]
        length += 1
        totals = torch.where(done, totals, totals + gained)
        lengths = torch.where(done, lengths, length)
        tokens = torch.cat([tokens, chosen[:, :, None]], 2)
        ended = ended | ((chosen == bounds.sep_id) & ~done)
        done = done | ended | (bounds.maximum <= length)[:, None]
        over = done.all(1)
        kept = leaving(over)
        if kept is not None:
            gone = over.nonzero().flatten()
            scores = totals[gone] / lengths[gone] ** length_penalty
            parts = (part.tolist() for part in (rows[gone], tokens[gone], lengths[gone], scores, ended[gone]))
            for row, found in ((row, found) for row, *found in zip(*parts, strict=True)):
                results[row] = [
                    Hypothesis(sequence[: size - 1 if end else size], score, end)
                    for sequence, size, score, end in zip(*found, strict=True)
                ]
            if not len(kept):
                return results
            rows, tokens, lengths, totals = rows[kept], tokens[kept], lengths[kept], totals[kept]
            done, ended, chosen, bounds = done[kept], ended[kept], chosen[kept], bounds.keep(kept)
            ids = [ids[number] for number in kept.tolist()]
            stay = torch.arange(width, device=device).expand(len(kept), width)
            batch.decoder.select(kept, stay)
        logits = batch.decoder.step(chosen)
