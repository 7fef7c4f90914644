import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.data.counter import derive_key
from pretrain.data.order import (
    BLOCK,
    apportion,
    block_of_mixture,
    micro_batch_slice,
    permute,
    rows_of_samples,
    samples_of_mixture,
)


def rows_at(seed, first_sample, count, num_rows):
    """Rows and visits of the samples from `first_sample` on."""
    return rows_of_samples(np.arange(first_sample, first_sample + count), num_rows, "row order", seed)


@given(size=st.integers(1, 3000), key=st.integers(0, 2**63))
@settings(max_examples=100, deadline=None)
def test_a_permutation_is_a_bijection_for_any_size_and_key(size, key):
    permuted = permute(np.arange(size), size, derive_key(key))
    assert np.array_equal(np.sort(permuted), np.arange(size))


@given(
    num_rows=st.integers(1, 500),
    batch=st.integers(1, 200),
    first=st.integers(0, 5000),
    split=st.integers(0, 200),
    seed=st.integers(0, 100),
)
@settings(max_examples=100, deadline=None)
def test_the_order_does_not_depend_on_where_one_starts_to_read(num_rows, batch, first, split, seed):
    split = min(split, batch)
    rows, visits = rows_at(seed, first, batch, num_rows)
    head = rows_at(seed, first, split, num_rows)
    tail = rows_at(seed, first + split, batch - split, num_rows)
    assert np.array_equal(rows, np.concatenate([head[0], tail[0]]))
    assert np.array_equal(visits, np.concatenate([head[1], tail[1]]))


def test_every_row_is_seen_once_an_epoch_and_each_epoch_has_its_own_order():
    rows, visits = rows_at(seed=7, first_sample=0, count=3000, num_rows=1000)
    epochs = rows.reshape(3, 1000)
    assert all(np.array_equal(np.sort(epoch), np.arange(1000)) for epoch in epochs)
    assert np.array_equal(visits, np.repeat([0, 1, 2], 1000))
    assert (epochs[0] == epochs[1]).mean() < 0.02
    assert (rows_at(8, 0, 1000, 1000)[0] == epochs[0]).mean() < 0.02


def test_the_order_of_a_seed_is_for_good():
    """A checkpoint names its place in the order by a number of samples: another order would repeat and miss rows."""
    rows, visits = rows_at(seed=3, first_sample=995, count=10, num_rows=1000)
    assert rows.tolist() == [264, 173, 612, 671, 46, 858, 957, 528, 626, 762]
    assert visits.tolist() == [0] * 5 + [1] * 5


def test_a_permutation_leaves_no_visible_order():
    rows = rows_at(seed=3, first_sample=0, count=20_000, num_rows=20_000)[0]
    assert abs(np.corrcoef(rows[:-1], rows[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(rows, np.arange(20_000))[0, 1]) < 0.03


def test_a_batch_far_into_a_huge_run_costs_no_more_than_the_first():
    num_rows = 10**9 + 7
    samples = 10**9 // 4096 * 4096 + np.arange(4096)  # the batch reaches over the end of the first epoch
    start = time.perf_counter()
    rows, visits = rows_at(seed=1, first_sample=samples[0], count=4096, num_rows=num_rows)
    assert time.perf_counter() - start < 1.0
    assert np.array_equal(visits, samples >= num_rows)
    assert len(np.unique(rows)) == 4096 and rows.min() >= 0 and rows.max() < num_rows


@given(world=st.integers(1, 4), micro=st.integers(1, 5), accumulation=st.integers(1, 4))
def test_slices_of_ranks_and_micro_steps_cover_the_batch_once(world, micro, accumulation):
    batch = np.arange(world * micro * accumulation)
    slices = [micro_batch_slice(j, r, world, micro) for j in range(accumulation) for r in range(world)]
    assert np.array_equal(np.concatenate([batch[part] for part in slices]), batch)


@pytest.mark.parametrize(
    ("weights", "places", "shares"),
    [
        # Exact shares 3.5, 2.1, 1.4: whole parts 3, 2, 1, and the place left goes to the remainder .5.
        ([5, 3, 2], 7, [4, 2, 1]),
        ([1, 1, 1], 4, [2, 1, 1]),  # of equal remainders the first wins
        ([0.7, 0.3], 10, [7, 3]),  # 0.7 + 0.3 is not 1 in binary
        ([1e-9, 1], 100, [0, 100]),
        ([2.5], 9, [9]),
    ],
)
def test_places_are_shared_by_largest_remainder(weights, places, shares):
    assert apportion(weights, places) == shares


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8), st.integers(0, 10_000))
def test_shares_add_up_and_lie_within_one_of_the_exact_ones(weights, places):
    shares = apportion(weights, places)
    assert sum(shares) == places
    assert all(abs(s - places * w / sum(weights)) < 1 + 1e-6 for s, w in zip(shares, weights, strict=True))


@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=5), st.integers(0, 10**9), st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_every_block_holds_the_shares_and_numbers_each_sources_places_in_their_order(weights, number, seed):
    shares = tuple(apportion(weights, BLOCK))
    block = block_of_mixture(seed, "key", shares, number)
    assert np.bincount(block.source, minlength=len(shares)).tolist() == list(shares)
    for source, share in enumerate(shares):
        assert np.array_equal(block.rank[block.source == source], np.arange(share))


def test_blocks_differ_by_number_seed_and_key_and_are_mixed_throughout():
    shares = (BLOCK // 2, BLOCK // 2)
    first = block_of_mixture(0, "a", shares, 0).source
    for other in (
        block_of_mixture(0, "a", shares, 1),
        block_of_mixture(1, "a", shares, 0),
        block_of_mixture(0, "b", shares, 0),
    ):
        assert 0.48 < (first == other.source).mean() < 0.52
    # Of 512 places in a row, 256 +- 5 standard deviations of the hypergeometric distribution are the first source's.
    assert np.abs(first.reshape(-1, 512).sum(axis=1) - 256).max() < 5 * 11.3


@given(first=st.integers(0, 3 * BLOCK), count=st.integers(0, 2 * BLOCK), cut=st.integers(0, 2 * BLOCK))
@settings(max_examples=15, deadline=None)
def test_a_mixtures_samples_do_not_depend_on_where_one_starts_and_leave_no_gap(first, count, cut):
    shares = tuple(apportion([0.5, 0.3, 0.2], BLOCK))
    cut = min(cut, count)
    source, sample = samples_of_mixture(5, "key", shares, first, count)
    parts = [samples_of_mixture(5, "key", shares, *part) for part in ((first, cut), (first + cut, count - cut))]
    assert np.array_equal(source, np.concatenate([part[0] for part in parts]))
    assert np.array_equal(sample, np.concatenate([part[1] for part in parts]))
    for number in range(3):
        mine = sample[source == number]
        assert np.array_equal(mine, mine[:1].repeat(len(mine)) + np.arange(len(mine)))
    if first == 0 and count:
        assert all(sample[source == number][:1].sum() == 0 for number in range(3))
