"""The way into decoding: any number of source sentences -> hypotheses, in the order they were given.

Sorts by length and cuts into batches by a budget of tokens; the search itself is one of the options. Must not import
the trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from conf.errors import InputError
from pretrain.decoding.batch import SearchBatch
from pretrain.decoding.constraints import Bounds, Hypothesis
from pretrain.decoding.incremental import DecodesIncrementally
from pretrain.decoding.vocabulary import Vocabulary

BATCH_TOKENS = 4096


class SearchOptions(Protocol):
    """A node of the group `decoding`: how outputs are bounded, and how they are found."""

    @property
    def width(self) -> int:
        """Hypotheses of a sentence at a time."""

    def bounds(
        self, source_lengths: Tensor, max_positions: int, vocabulary: Vocabulary, device: torch.device
    ) -> Bounds:
        """The bounds of one batch (`constraints.Constraints`)."""

    def decode(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence of a batch, best first."""


def search(
    model: torch.nn.Module,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    ids: Sequence[Hashable],
    vocabulary: Vocabulary,
    *,
    source_language: int | None = None,
    target_language: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    after_batch: Callable[[int], None] = lambda sentences: None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first, in the order of `sources`.

    Args:
        model: an encoder-decoder in evaluation mode; it computes where and in the type that its weights are.
        sources: token ids with their special tokens ([CLS] x [SEP]).
        options: the search.
        ids: of each source, what random draws of it are keyed by (with the seed of the options).
        vocabulary: of the model's tokenizer.
        source_language: the model's id of it, where the model has languages; likewise `target_language`.
        batch_tokens: at most so many of sentences x hypotheses x longest source are in a batch (one sentence may be
            more).
        after_batch: told the number of sentences done since it was last called; what it raises ends the search.

    Raises:
        InputError: a source without tokens or with more than the model has positions (by its id), or what the options
            refuse.
    """
    assert isinstance(model, DecodesIncrementally)
    if len(ids) != len(sources):
        raise ValueError(f"there must be an id for each source, but there are {len(ids)} for {len(sources)}")
    device, positions = next(model.parameters()).device, int(model.config.max_positions)  # type: ignore[union-attr,arg-type]
    for name, source in zip(ids, sources, strict=True):
        if not 1 <= len(source) <= positions:
            raise InputError(
                f"a source must have from 1 to {positions} tokens (the model's positions), but {name} has {len(source)}"
            )
    lengths = np.array([len(source) for source in sources], dtype=np.int64)
    results: list[list[Hypothesis]] = [[] for _ in sources]
    with torch.inference_mode():
        for rows in _batches(lengths, batch_tokens, options.width):
            width = int(lengths[rows].max())
            padded = np.full((len(rows), width), vocabulary.sep_id, dtype=np.int64)
            padded[np.arange(width) < lengths[rows, None]] = np.concatenate(
                [np.asarray(sources[row], dtype=np.int64) for row in rows]
            )
            decoder = model.incremental_decoder(
                torch.from_numpy(padded).to(device),
                torch.from_numpy(lengths[rows]).to(device),
                source_language=source_language,
                target_language=target_language,
            )
            plain = [sum(token not in (vocabulary.cls_id, vocabulary.sep_id) for token in sources[row]) for row in rows]
            bounds = options.bounds(torch.tensor(plain), positions, vocabulary, device)
            batch = SearchBatch(decoder, bounds, [ids[row] for row in rows], vocabulary)
            for row, found in zip(rows, options.decode(batch), strict=True):
                results[row] = found
            after_batch(len(rows))
    return results


def _batches(lengths: np.ndarray, batch_tokens: int, width: int) -> Iterator[list[int]]:
    """Rows of like lengths, longest first: what does not fit into memory fails at once, and not at the end."""
    order = np.argsort(-lengths, kind="stable").tolist()
    start = 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        count = max(1, batch_tokens // (longest * width))
        yield order[start : start + count]
        start += count
