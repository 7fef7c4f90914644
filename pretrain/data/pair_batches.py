"""Pairs of sentences -> batches of about equally many tokens, out of pairs of about equal lengths: the rows of a run.

A shard directory of pairs is read by the batch: its "row" b is a fixed set of pairs, whatever the run, the epoch and
the number of ranks. So the order of rows, mixtures, the skip list and a resumed run are the same as those of packed
rows. Must not import torch or an objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conf.errors import InputError
from pipeline.manifest import Manifest, Split
from pipeline.pair_shards import PairRows, Pairs
from pretrain.data.counter import derive_key, hash_coordinates

LENGTH_MULTIPLE = 8  # lengths are padded to it: few shapes, and what kernels read in groups
# Pairs are sorted by length within so many that follow each other in the shards: their places take two bytes.
PAIRS_PER_BLOCK = 1 << 16

Int64Array = NDArray[np.int64]


@dataclass(frozen=True)
class PairReading:
    """How an objective reads pairs: in batches of at most `batch_tokens` tokens a side (see `cut_into_batches`), into
    `target_language`: shards of the other direction are swapped. None: as the shards have it."""

    batch_tokens: int
    target_language: str | None = None


@dataclass(frozen=True)
class PairsOfRows:
    """The pairs of R rows of a run. `row` int64 [number of pairs] says which of the R each is of."""

    pairs: Pairs
    row: Int64Array


def padded(lengths: Int64Array) -> Int64Array:
    """Round lengths up to LENGTH_MULTIPLE."""
    return -(-lengths // LENGTH_MULTIPLE) * LENGTH_MULTIPLE


def cut_into_batches(
    source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer], max_tokens: int, words: NDArray[np.uint64]
) -> tuple[Int64Array, Int64Array]:
    """Sort N pairs by length and cut them into batches; returns (order [N], bounds [batches + 1]).

    Batch b is the pairs order[bounds[b] : bounds[b + 1]]. In a batch of n pairs, n * the longest source and n * the
    longest target (both `padded`) are at most `max_tokens`; a pair that is longer by itself is a batch
    of its own. Pairs of the same padded lengths are in the order of their random `words` [N].

    Sources: token budgets by length are those of Vaswani et al. (2017), section 5.1; a batch is never cut anew.
    """
    source, target = padded(source_lengths.astype(np.int64)), padded(target_lengths.astype(np.int64))
    order = np.lexsort((words, source, target))
    if not len(order):
        return order.astype(np.int64), np.zeros(1, dtype=np.int64)
    source, target = source[order], target[order]
    width = np.maximum(source, target)
    # Runs of one shape are cut in one go; what is left of a run is filled up with the next.
    starts = np.flatnonzero(np.r_[True, (np.diff(source) != 0) | (np.diff(target) != 0)])
    bounds, longest = [0], 0
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        place = start
        while place < end:
            in_batch = place - bounds[-1]
            widest = max(longest, int(width[start])) if in_batch else int(width[start])
            room = max_tokens // widest - in_batch
            if room < 1 and in_batch:
                bounds.append(place)
                continue
            place += min(max(room, 1), end - place)
            longest = widest
    return order.astype(np.int64), np.array([*bounds, len(order)], dtype=np.int64)


class PairBatches:
    """One split of a shard directory of pairs, by the batch: what a mixture reads (as `pipeline.shards.ShardRows`).

    `max_tokens` is that of `cut_into_batches`; `swapped` gives sources as targets and targets as sources. Opening costs
    a look at all lengths, about a second for ten million pairs, and two bytes a pair. Raises InputError for a budget
    below the longest side that the shards allow.
    """

    def __init__(
        self, directory: Path, manifest: Manifest, split: Split, max_tokens: int, swapped: bool = False
    ) -> None:
        if max_tokens < padded(np.array(manifest.row_length)):
            longest = int(padded(np.array(manifest.row_length)))
            raise InputError(
                f"objective.batch_tokens must hold the longest sentence that the shards in '{directory}' allow "
                f"(job.max_length), {longest} tokens with padding, but is {max_tokens}."
            )
        self._pairs = PairRows(directory, manifest, split)
        self.manifest, self.max_tokens, self.swapped = manifest, max_tokens, swapped
        self._directory, self._split = directory, split
        sources, targets = self._pairs.lengths()[:: -1 if swapped else 1]
        key = derive_key("pair batches", manifest.content_hash)
        self._order: list[NDArray[np.uint16]] = []
        self._bounds: list[Int64Array] = []
        for start in range(0, len(sources), PAIRS_PER_BLOCK):
            block = slice(start, start + PAIRS_PER_BLOCK)
            words = hash_coordinates(key, np.arange(start, start + len(sources[block])))
            order, bounds = cut_into_batches(sources[block], targets[block], max_tokens, words)
            self._order.append(order.astype(np.uint16))
            self._bounds.append(bounds)
        self._ends = np.cumsum([len(bounds) - 1 for bounds in self._bounds], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __reduce__(self) -> tuple[type[PairBatches], tuple[Any, ...]]:
        """Pickle what is read, not what is open."""
        return PairBatches, (self._directory, self.manifest, self._split, self.max_tokens, self.swapped)

    @property
    def content_hash(self) -> str:
        """The hash over all that shapes the batches: the shards, the budget of tokens, and which side is which."""
        name = f"{self.manifest.content_hash}, batches of {self.max_tokens} tokens"
        return f"{name}, sides swapped" if self.swapped else name

    @property
    def direction(self) -> tuple[str, str]:
        """The languages of the sources and of the targets."""
        source, target = self.manifest.languages["source"], self.manifest.languages["target"]
        return (target, source) if self.swapped else (source, target)

    @property
    def num_pairs(self) -> int:
        """Pairs of the split."""
        return len(self._pairs)

    def pairs_of(self, row: int) -> Int64Array:
        """Return the numbers of the pairs of one row. Raises IndexError outside 0 .. len(self) - 1."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a split of {len(self)} rows")
        block = int(np.searchsorted(self._ends, row, side="right"))
        bounds = self._bounds[block]
        batch = row - (int(self._ends[block]) - (len(bounds) - 1))
        places = self._order[block][bounds[batch] : bounds[batch + 1]]
        return places.astype(np.int64) + block * PAIRS_PER_BLOCK

    def pairs(self, numbers: ArrayLike) -> Pairs:
        """Return pairs by their own numbers."""
        found = self._pairs.pairs(numbers)
        if not self.swapped:
            return found
        return replace(
            found,
            source_ids=found.target_ids,
            source_lengths=found.target_lengths,
            target_ids=found.source_ids,
            target_lengths=found.source_lengths,
        )

    def rows(self, indices: ArrayLike, columns: Sequence[str] = ()) -> PairsOfRows:
        """Return the pairs of the rows at `indices` [R]. Raises InputError for `columns`, of which pairs have none."""
        if columns:
            raise InputError(
                f"the objective needs the column '{columns[0]}', but '{self._directory}' holds pairs of sentences: "
                "give shards of `python -m pipeline job=masked_lm`."
            )
        chosen = [self.pairs_of(row) for row in np.asarray(indices, dtype=np.int64).reshape(-1).tolist()]
        counts = [len(numbers) for numbers in chosen]
        numbers = np.concatenate([np.empty(0, np.int64), *chosen])
        return PairsOfRows(self.pairs(numbers), np.repeat(np.arange(len(chosen)), counts))


def joined(parts: Sequence[PairsOfRows], places: Sequence[Int64Array]) -> PairsOfRows:
    """Return the pairs of several sources as one; `places[i]` are the rows that those of part i are among all."""
    pairs = [part.pairs for part in parts]

    def together(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(one, name) for one in pairs])

    return PairsOfRows(
        Pairs(
            source_ids=together("source_ids"),
            source_lengths=together("source_lengths"),
            target_ids=together("target_ids"),
            target_lengths=together("target_lengths"),
            origin=together("origin"),
            score=together("score"),
        ),
        np.concatenate([place[part.row] for part, place in zip(parts, places, strict=True)]),
    )
