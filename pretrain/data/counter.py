"""Counter-based random numbers: a number is a pure function of a key and of coordinates, never of a call history.

So the same row is masked alike on any rank, in any order, and after any resume. NumPy only: must not import torch.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

UInt64Array = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


def mix(values: UInt64Array) -> UInt64Array:
    """Scramble 64-bit words: a bijection in which every input bit reaches every output bit.

    Source: the output function of SplitMix64 (Steele, Lea and Flood, 2014; variant 13 of Stafford's mixers).
    Any shape.
    """
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLIER_1
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLIER_2
    return values ^ (values >> np.uint64(31))


def derive_key(*parts: int | str) -> UInt64Array:
    """Return a 64-bit key, shape [1], from numbers and names (a seed, a content hash, the purpose)."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return np.frombuffer(digest, dtype=np.uint64).copy()


def hash_coordinates(key: UInt64Array, *coordinates: NDArray[np.integer]) -> UInt64Array:
    """Return one uniform 64-bit word for each element of the broadcast of `key` and `coordinates`.

    Chained by `mix`, so that (1, 2) and (2, 1) are unrelated. Coordinates must not be negative.
    """
    state = key
    for coordinate in coordinates:
        state = mix((state + _GOLDEN) ^ mix(coordinate.astype(np.uint64) + _GOLDEN))
    return state


def uniform(words: UInt64Array) -> NDArray[np.float64]:
    """Map 64-bit words to floats in [0, 1), by their upper 53 bits."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(words: UInt64Array, bound: int | NDArray[np.integer]) -> NDArray[np.int64]:
    """Map 64-bit words to integers in [0, bound), bound < 2**31 (multiply-shift; bias below 2**-32 * bound).

    `bound` may be an array that broadcasts with `words`.
    """
    return (((words >> np.uint64(32)) * np.asarray(bound, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)
