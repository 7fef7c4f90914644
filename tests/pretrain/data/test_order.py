import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.data.counter import derive_key
from pretrain.data.order import micro_batch_slice, permute, rows_at, rows_of_batch


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


def test_a_permutation_leaves_no_visible_order():
    rows = rows_at(seed=3, first_sample=0, count=20_000, num_rows=20_000)[0]
    assert abs(np.corrcoef(rows[:-1], rows[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(rows, np.arange(20_000))[0, 1]) < 0.03


def test_a_batch_far_into_a_huge_run_costs_no_more_than_the_first():
    num_rows = 10**9 + 7
    start = time.perf_counter()
    rows, visits = rows_of_batch(seed=1, step=10**9 // 4096, global_batch_size=4096, num_rows=num_rows)
    assert time.perf_counter() - start < 1.0
    samples = 10**9 // 4096 * 4096 + np.arange(4096)  # the batch reaches over the end of the first epoch
    assert np.array_equal(visits, samples >= num_rows)
    assert len(np.unique(rows)) == 4096 and rows.min() >= 0 and rows.max() < num_rows


@given(world=st.integers(1, 4), micro=st.integers(1, 5), accumulation=st.integers(1, 4))
def test_slices_of_ranks_and_micro_steps_cover_the_batch_once(world, micro, accumulation):
    batch = np.arange(world * micro * accumulation)
    slices = [micro_batch_slice(j, r, world, micro) for j in range(accumulation) for r in range(world)]
    assert np.array_equal(np.concatenate([batch[part] for part in slices]), batch)
