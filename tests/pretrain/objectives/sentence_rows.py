"""Rows with the columns of words and sentences. Must not import pytest: ranks load it alone."""

import numpy as np

from pipeline.shards import Rows


def rows_of_two(seed: int, count: int, length: int, vocab_size: int, special_ids: dict[str, int]) -> Rows:
    """`count` rows of two whole documents of several sentences each."""
    generator = np.random.default_rng(seed)
    ids = generator.integers(5, vocab_size, size=(count, length)).astype(np.uint16)
    segments = np.ones((count, length), dtype=np.int32)
    segments[:, length // 2 :] = 2
    ids[:, [0, length // 2]], ids[:, [length // 2 - 1, -1]] = special_ids["cls"], special_ids["sep"]
    starts = generator.random(ids.shape) < 0.2
    starts[:, [0, 1, length // 2, length // 2 + 1]] = starts[:, [length // 2 - 1, -1]] = True
    return Rows(ids, segments, (generator.random(ids.shape) < 0.7) | (ids < 5), starts)
