"""Which rows make batch i of a run: a pure function of (seed, position), with no state but the samples consumed.

Sample s of a run is element s % N of epoch s // N, and an epoch is a keyed permutation of the N rows. So a resumed
run, on any number of ranks, continues the same order at no cost. NumPy only: must not import torch or read shards.
"""

import numpy as np
from numpy.typing import NDArray

from pretrain.data.counter import UInt64Array, derive_key, hash_coordinates, mix

Int64Array = NDArray[np.int64]

_ROUNDS = 6


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


def rows_at(seed: int, first_sample: int, count: int, num_rows: int) -> tuple[Int64Array, Int64Array]:
    """Return (rows, visits), int64 [count] each, for the samples first_sample ... first_sample + count - 1.

    `rows` are row numbers in [0, num_rows); `visits` is how often the run has seen that row before, which is the
    epoch. Costs O(count), whatever `first_sample` and `num_rows` are.
    """
    samples = np.arange(first_sample, first_sample + count, dtype=np.int64)
    visits, places = np.divmod(samples, num_rows)
    epochs, which = np.unique(visits, return_inverse=True)
    keys = np.array([derive_key("row order", seed, int(epoch))[0] for epoch in epochs], dtype=np.uint64)
    return permute(places, num_rows, keys[which]), visits


def rows_of_batch(seed: int, step: int, global_batch_size: int, num_rows: int) -> tuple[Int64Array, Int64Array]:
    """Return (rows, visits), int64 [global_batch_size] each, of the batch of optimiser step `step` (from 0)."""
    return rows_at(seed, step * global_batch_size, global_batch_size, num_rows)


def micro_batch_slice(micro_step: int, rank: int, world_size: int, micro_batch_size: int) -> slice:
    """Return which part of a global batch rank `rank` takes in micro-step `micro_step`."""
    start = (micro_step * world_size + rank) * micro_batch_size
    return slice(start, start + micro_batch_size)
