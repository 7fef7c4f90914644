"""Beam search over a batch of sentences, with a length penalty and named rules for stopping early.

It chooses, scores and stops as transformers' `generate` does, so that an exported model gives the same text there.
Knows a model by `incremental.py` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from conf.errors import InputError
from pretrain.decoding.batch import SearchBatch, leaving
from pretrain.decoding.best import largest
from pretrain.decoding.constraints import Constraints, Hypothesis

EarlyStopping = Literal["full", "current_length", "maximum_length"]


@dataclass(frozen=True, kw_only=True)
class BeamSearch(Constraints):
    """The `beams` best partial outputs are kept at every length; the `n_best` best finished ones are the result.

    Of the 2 * beams best continuations the first `beams` count as finished if they end with [SEP] (or at the maximum
    length), and the first `beams` that do not end go on.

    Attributes:
        beams: partial outputs kept, and finished ones as well.
        n_best: how many finished ones are given back, best first; fewer where fewer were finished.
        length_penalty: alpha in score = log probability / length^alpha: 0 compares sums, 1 means per token, and a
            larger one favours longer outputs.
        early_stopping: when a sentence of which `beams` outputs are finished is given up. `full`: at once (true in
            transformers). `current_length`: when the best partial one, scored as if it ended here, is not better
            than the worst finished one (false there). `maximum_length`: when not even at the maximum length and
            without losing any more probability it would be ("never" there); for length_penalty >= 0 nothing that
            could still win is given up.
    """

    beams: int = 5
    n_best: int = 1
    length_penalty: float = 1.0
    early_stopping: EarlyStopping = "current_length"

    def __post_init__(self) -> None:
        """Raise InputError for a value out of its range."""
        super().__post_init__()
        if self.beams < 1:
            raise InputError(f"decoding.beams must be at least 1, but is {self.beams}")
        if not 1 <= self.n_best <= self.beams:
            raise InputError(f"decoding.n_best must be from 1 to decoding.beams={self.beams}, but is {self.n_best}")
        if self.early_stopping not in ("full", "current_length", "maximum_length"):
            raise InputError(
                "decoding.early_stopping must be full, current_length or maximum_length, but is "
                f"{self.early_stopping!r}"
            )

    @property
    def width(self) -> int:
        """Hypotheses of a sentence at a time."""
        return self.beams

    def decode(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """The `n_best` best hypotheses of each sentence of the batch, best first; never none."""
        return _Search(self, batch).run()


class _Search:
    """The state of one batch: `running` partial and `finished` outputs of those sentences that are still in it."""

    def __init__(self, options: BeamSearch, batch: SearchBatch) -> None:
        self.options, self.batch, self.bounds = options, batch, batch.bounds
        sentences, device = len(batch), batch.bounds.maximum.device
        self.rows = torch.arange(sentences, device=device)  # where each sentence's result belongs
        self.running = torch.zeros(sentences, 1, 0, dtype=torch.long, device=device)
        self.scores = torch.zeros(sentences, 1, device=device)
        shape = (sentences, options.beams)
        self.finished = torch.zeros(*shape, 0, dtype=torch.long, device=device)
        self.finished_scores = torch.full(shape, -torch.inf, device=device)
        self.finished_lengths = torch.zeros(shape, dtype=torch.long, device=device)
        self.finished_ended = torch.zeros(shape, dtype=torch.bool, device=device)
        self.results: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def run(self) -> list[list[Hypothesis]]:
        logits = self.batch.begin()
        over = torch.zeros(len(self.batch), dtype=torch.bool, device=logits.device)
        length = 0
        while True:
            parents, tokens, over = self._extend(logits, length, over)
            length += 1
            kept = leaving(over)
            if kept is not None:
                self._collect(over.nonzero().flatten())
                if not len(kept):
                    return self.results
                self._keep(kept)
                parents, tokens, over = parents[kept], tokens[kept], over[kept]
            else:
                kept = torch.arange(len(tokens), device=tokens.device)
            self.batch.decoder.select(kept, parents)
            logits = self.batch.decoder.step(tokens)

    def _extend(self, logits: Tensor, length: int, over: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Choose the next token -> parents and tokens of the running hypotheses, [N, K], and which sentences are over.

        `logits` [N, K', V] are those of the token after `length`.
        """
        options, sep_id = self.options, self.bounds.sep_id
        log_probabilities = logits.log_softmax(2)
        self.bounds.forbid(log_probabilities, length)
        values, parents, tokens = best_continuations(log_probabilities, self.scores, 2 * options.beams)
        cut = (self.bounds.maximum <= length + 1)[:, None]
        ends = (tokens == sep_id) | cut
        length += 1
        done = ends[:, : options.beams] & (values[:, : options.beams] > -torch.inf) & ~over[:, None]
        if bool(done.any()):
            self._finish(done, values, parents, tokens, length)
        going = min(options.beams, values.shape[1])
        self.scores, chosen = values.masked_fill(ends, -torch.inf).topk(going, dim=1)
        parents, tokens = parents.gather(1, chosen), tokens.gather(1, chosen)
        self.running = self._continued(parents, tokens)
        return parents, tokens, over | cut[:, 0] | self._settled(length)

    def _continued(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """The running outputs at `parents` [N, C] with `tokens` [N, C] as their last: [N, C, length]."""
        before = self.running.gather(1, parents[:, :, None].expand(-1, -1, self.running.shape[2]))
        return torch.cat([before, tokens[:, :, None]], 2)

    def _finish(self, done: Tensor, values: Tensor, parents: Tensor, tokens: Tensor, length: int) -> None:
        """Let the first candidates, where bool [N, C] `done`, compete with what is finished already."""
        count = done.shape[1]
        tokens = tokens[:, :count]
        scores = (values[:, :count] / length**self.options.length_penalty).masked_fill(~done, -torch.inf)
        new = self._continued(parents[:, :count], tokens)
        before = F.pad(self.finished, (0, length - self.finished.shape[2]))
        self.finished_scores, best = torch.cat([self.finished_scores, scores], 1).topk(self.options.beams, dim=1)
        self.finished = torch.cat([before, new], 1).gather(1, best[:, :, None].expand(-1, -1, length))
        lengths = torch.cat([self.finished_lengths, torch.full_like(tokens, length)], 1)
        self.finished_lengths = lengths.gather(1, best)
        self.finished_ended = torch.cat([self.finished_ended, tokens == self.bounds.sep_id], 1).gather(1, best)

    def _settled(self, length: int) -> Tensor:
        """bool [N]: whether `beams` outputs are finished and the running ones, `length` long, are given up."""
        worst = self.finished_scores[:, -1]
        if self.options.early_stopping == "full":
            hopeless = worst > -torch.inf
        else:
            alpha = self.options.length_penalty
            at = self.bounds.maximum if self.options.early_stopping == "maximum_length" and alpha > 0 else length
            hopeless = self.scores[:, 0] / at**alpha <= worst
        return hopeless

    def _collect(self, sentences: Tensor) -> None:
        """Put the finished outputs of the sentences at int64 [M] into the results."""
        parts = (self.finished_scores, self.finished_lengths, self.finished_ended, self.finished)
        scores, lengths, ended, tokens = (part[sentences, : self.options.n_best].tolist() for part in parts)
        for number, row in enumerate(self.rows[sentences].tolist()):
            self.results[row] = [
                Hypothesis(ids[: size - 1 if end else size], score, end)
                for score, size, end, ids in zip(
                    scores[number], lengths[number], ended[number], tokens[number], strict=True
                )
                if score > -torch.inf
            ]

    def _keep(self, sentences: Tensor) -> None:
        """Go on with the sentences at int64 [N'] only."""
        self.rows, self.running, self.scores = self.rows[sentences], self.running[sentences], self.scores[sentences]
        self.finished, self.finished_scores = self.finished[sentences], self.finished_scores[sentences]
        self.finished_lengths, self.finished_ended = self.finished_lengths[sentences], self.finished_ended[sentences]
        self.bounds = self.bounds.keep(sentences)


def best_continuations(log_probabilities: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `count` largest of totals [N, K] + log_probabilities [N, K, V], best first; fewer if there are fewer.

    Returns their values fp32, and the hypothesis and the token of each, int64; [N, C] each.
    """
    sentences, width, size = log_probabilities.shape
    values, tokens = largest(log_probabilities.view(sentences * width, size), min(count, size))
    values = values.view(sentences, width, -1) + totals[:, :, None]
    each = values.shape[2]
    best, places = values.flatten(1).topk(min(count, width * each), dim=1)
    return best, places // each, tokens.view(sentences, -1).gather(1, places)
