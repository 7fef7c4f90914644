"""Sampling: every token drawn from the model's distribution, as it is or cut to its likeliest part.

A draw is a pure function of (seed, sentence id, sample, place): batches and ranks have no part in it, but by the
rounding of the logits that they were computed with. Knows a model by `incremental.py` only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from conf.errors import InputError
from pretrain.data.counter import derive_key, hash_coordinates, uniform
from pretrain.decoding.batch import SearchBatch
from pretrain.decoding.constraints import Constraints, Hypothesis
from pretrain.decoding.walk import walk


@dataclass(frozen=True, kw_only=True)
class Sampling(Constraints):
    """Ancestral sampling; with `top_k` among the k likeliest tokens, with `top_p` among the fewest that have together
    at least that probability (nucleus; Holtzman et al. 2020).

    Temperature comes first, then top_k, then top_p; what is left is normalised.

    Attributes:
        seed: of all draws.
        samples: outputs of a sentence, each drawn for itself; they are given back by score, best first.
        temperature: the logits are divided by it.
        top_k: null for all tokens.
        top_p: 1 for all tokens.
        length_penalty: alpha in score = log probability / length^alpha. The probability is the model's own, at
            temperature 1 and of all tokens.
    """

    seed: int = 0
    samples: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        """Raise InputError for a value out of its range."""
        super().__post_init__()
        for name in ("samples", "top_k"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"decoding.{name} must be at least 1, but is {value}")
        if self.temperature <= 0:
            raise InputError(
                f"decoding.temperature must be above 0, but is {self.temperature}; decoding=greedy takes the likeliest"
            )
        if not 0 < self.top_p <= 1:
            raise InputError(f"decoding.top_p must be above 0 and at most 1, but is {self.top_p}")

    @property
    def width(self) -> int:
        """Hypotheses of a sentence at a time."""
        return self.samples

    def decode(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """`samples` hypotheses of each sentence of the batch, best first."""
        keys = {name: derive_key(self.seed, "sampling", repr(name)) for name in batch.ids}
        samples = np.arange(self.samples)

        def choose(log_probabilities: Tensor, length: int, ids: Sequence[Hashable]) -> Tensor:
            key = np.concatenate([keys[name] for name in ids])[:, None]
            draws = uniform(hash_coordinates(key, samples, np.array([length])))
            return draw(self._distribution(log_probabilities), torch.from_numpy(draws).to(log_probabilities.device))

        found = walk(batch, choose, self.samples, self.length_penalty)
        return [sorted(hypotheses, key=lambda one: -one.score) for hypotheses in found]

    def _distribution(self, log_probabilities: Tensor) -> Tensor:
        """The model's own, fp32 [N, K, V] -> float64 probabilities to draw from, [N, K, V]."""
        logits = log_probabilities.double() / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[2]:
            least = logits.topk(self.top_k, dim=2).values[:, :, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        probabilities = logits.softmax(2)
        if self.top_p < 1.0:
            falling, order = probabilities.sort(dim=2, descending=True, stable=True)
            before = falling.cumsum(2) - falling
            probabilities = torch.zeros_like(falling).scatter(2, order, falling * (before < self.top_p))
        return probabilities


def draw(probabilities: Tensor, draws: Tensor) -> Tensor:
    """The token at which the cumulated probabilities pass the draw; in the order of the vocabulary, so that it does
    not hang on how near values are sorted.

    float64 [..., V], which need not add up to 1, and float64 [...] in [0, 1) -> int64 [...]. A token of probability 0
    is never drawn.
    """
    cumulated = probabilities.cumsum(-1)
    total = cumulated[..., -1:]
    # Rounded up to the total itself, a draw would lie behind the last token.
    target = torch.minimum(draws[..., None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulated, target, right=True)[..., 0]
