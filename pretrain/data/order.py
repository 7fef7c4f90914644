"""Which rows make batch i of a run: a pure function of (seed, position), with no state but the samples consumed.

One source: sample s of a run is element s % N of epoch s // N, and an epoch is a keyed permutation of the N rows.
Several sources: samples come in blocks of BLOCK; each block holds the same number of places for each source (the
weights, to 1 / BLOCK), at places that a keyed permutation chooses, and each source hands out its rows in the order it
has by itself. So a resumed run, on any number of ranks, continues the same order at no cost. NumPy only: must not
import torch or read shards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pretrain.data.counter import UInt64Array, derive_key, hash_coordinates, mix

Int64Array = NDArray[np.int64]

BLOCK = 1 << 16
_ROUNDS = 6
_BLOCKS_KEPT = 4  # a step lies in one or two blocks; about 1 MiB each


def permute(indices: Int64Array, size: int, key: UInt64Array) -> Int64Array:
    """Apply the permutation of range(size) chosen by `key` [n] or [1] (one key each index) to `indices` [n].

    A balanced Feistel network on the smallest even number of bits that holds `size`; values that fall outside the
    range are sent through again (cycle walking: Black and Rogaway, 2002), so that any size is a bijection and the
    work is O(n) wherever the indices lie.
    """
    half_bits = max(2, (int(size - 1).bit_length() + 1) // 2)
    half, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    round_keys = [hash_coordinates(key, np.array([number])) for number in range(_ROUNDS)]

    def encrypt(values: UInt64Array, chosen: NDArray[np.bool_] | None) -> UInt64Array:
        left, right = values >> half, values & mask
        for keys in round_keys:
            keys = keys if chosen is None or len(keys) == 1 else keys[chosen]
            left, right = right, left ^ (mix(right + keys) & mask)
        return (left << half) | right

    values = encrypt(indices.astype(np.uint64), None)
    while (outside := values >= np.uint64(size)).any():
        values[outside] = encrypt(values[outside], outside)
    return values.astype(np.int64)


def rows_of_samples(samples: Int64Array, num_rows: int, *key: int | str) -> tuple[Int64Array, Int64Array]:
    """Return (rows, visits), int64 [n] each, of the samples [n] of a source of `num_rows` rows.

    `rows` are row numbers in [0, num_rows); `visits` is how often the row came before, which is the epoch. `key` and
    the epoch choose the permutation. Costs O(n), wherever the samples lie and whatever `num_rows` is.
    """
    visits, places = np.divmod(samples, num_rows)
    epochs, which = np.unique(visits, return_inverse=True)
    keys = np.array([derive_key(*key, int(epoch))[0] for epoch in epochs], dtype=np.uint64)
    return permute(places, num_rows, keys[which]), visits


def apportion(weights: Sequence[float], places: int) -> list[int]:
    """Share `places` out in proportion to `weights` (all above 0): whole numbers that add up to `places`.

    The method of the largest remainder (Hamilton's): each is within 1 of its exact share; of equal remainders the
    first wins.
    """
    total = math.fsum(weights)
    exact = [places * weight / total for weight in weights]
    shares = [math.floor(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: shares[i] - exact[i])
    for i in by_remainder[: places - sum(shares)]:
        shares[i] += 1
    return shares


@dataclass(frozen=True)
class Block:
    """One block of a mixture, by place: which source, and how many places before in the block are that source's."""

    source: NDArray[np.int16]
    rank: Int64Array


@lru_cache(maxsize=_BLOCKS_KEPT)
def block_of_mixture(seed: int, key: str, shares: tuple[int, ...], number: int) -> Block:
    """Return block `number` of a mixture of which source i has `shares[i]` places (together BLOCK) in every block.

    Costs O(BLOCK), some 10 ms, whatever `number` is; the last few are kept.
    """
    bounds = np.cumsum(shares)
    drawn = permute(np.arange(BLOCK), BLOCK, derive_key("mixture block", seed, key, number))
    source = np.searchsorted(bounds, drawn, side="right").astype(np.int16)
    by_source = np.argsort(source, kind="stable")
    rank = np.empty(BLOCK, dtype=np.int64)
    rank[by_source] = np.arange(BLOCK) - np.repeat(bounds - shares, shares)
    source.flags.writeable = rank.flags.writeable = False  # shared by all who ask
    return Block(source, rank)


def samples_of_mixture(
    seed: int, key: str, shares: tuple[int, ...], first_sample: int, count: int
) -> tuple[Int64Array, Int64Array]:
    """Return (source, sample), int64 [count] each: whose rows the samples first_sample ... of a mixture are, and which
    sample of that source each is (a source's own samples follow each other without a gap).
    """
    sources, samples = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    at, end = first_sample, first_sample + count
    while at < end:
        number, start = divmod(at, BLOCK)
        part = slice(start, min(BLOCK, start + end - at))
        block = block_of_mixture(seed, key, shares, number)
        source = block.source[part].astype(np.int64)
        sources.append(source)
        samples.append(number * np.array(shares, dtype=np.int64)[source] + block.rank[part])
        at += part.stop - part.start
    return np.concatenate(sources), np.concatenate(samples)


def micro_batch_slice(micro_step: int, rank: int, world_size: int, micro_batch_size: int) -> slice:
    """Return which part of a global batch rank `rank` takes in micro-step `micro_step`."""
    start = (micro_step * world_size + rank) * micro_batch_size
    return slice(start, start + micro_batch_size)
