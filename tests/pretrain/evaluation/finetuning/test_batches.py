"""Batches: every item once, like lengths together, rows that are shared; nothing of an item depends on its batch."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from pretrain.evaluation.finetuning.batches import bucketed_batches, collate, packed_rows
from pretrain.evaluation.finetuning.encoding import encode

from .items import choices, spans


@given(st.lists(st.integers(1, 50), min_size=1, max_size=300), st.integers(1, 16), st.integers(0, 99))
def test_an_epoch_holds_every_item_once(lengths, batch_size, seed):
    batches = bucketed_batches(lengths, batch_size, np.random.default_rng(seed))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(len(batch) <= batch_size for batch in batches)
    assert batches == bucketed_batches(lengths, batch_size, np.random.default_rng(seed))


def test_buckets_leave_little_padding_and_batches_differ_between_epochs():
    lengths = np.random.default_rng(0).integers(5, 100, 3000).tolist()
    generator = np.random.default_rng(1)
    batches = bucketed_batches(lengths, 16, generator)
    padded = sum(len(batch) * max(lengths[index] for index in batch) for batch in batches)
    assert sum(lengths) / padded > 0.97
    assert batches != bucketed_batches(lengths, 16, generator)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_rows_hold_every_sequence_once_and_none_is_longer_than_the_longest_sequence(lengths):
    rows, width = packed_rows(lengths)
    assert width == max(lengths)
    assert sorted(index for row in rows for index in row) == list(range(len(lengths)))
    assert all(sum(lengths[index] for index in row) <= width for row in rows)
    # First fit: what opens a row had no room in an earlier one, so at most one row is half empty or more.
    assert sum(2 * sum(lengths[index] for index in row) <= width for row in rows) <= 1


def test_short_sequences_fill_what_a_long_one_would_pad():
    lengths = [30, 10, 9, 8, 11, 10]
    rows, width = packed_rows(lengths)
    assert width == 30
    assert [sum(lengths[index] for index in row) for row in rows] == [30, 30, 18]


def test_a_batch_has_each_sequence_where_its_start_says(tokenizer):
    data, _ = encode(choices(7), tokenizer, 64, "refuse")
    batch = collate(data, [4, 1, 6], pad_id=0)
    assert batch.counts.tolist() == [2, 3, 2]
    at = 0
    for item in (4, 1, 6):
        for sequence in range(data.items[item], data.items[item + 1]):
            tokens = slice(data.starts[sequence], data.starts[sequence + 1])
            start, length = int(batch.starts[at]), int(batch.lengths[at])
            assert batch.input_ids[start : start + length].tolist() == data.ids[tokens].tolist()
            assert batch.token_type_ids[start : start + length].tolist() == data.types[tokens].tolist()
            assert batch.position_ids[start : start + length].tolist() == list(range(length))
            at += 1
    assert batch.labels.tolist() == data.labels[[4, 1, 6]].tolist()


def test_spans_point_into_the_flat_tokens(tokenizer):
    data, _ = encode(spans(4), tokenizer, 64, "refuse")
    batch = collate(data, [1, 0], pad_id=0)
    flat = batch.input_ids
    found = [[tokenizer.decode(flat[a:b].tolist()), tokenizer.decode(flat[c:d].tolist())] for a, b, c, d in batch.spans]
    assert found == [["dog", "it"], ["key", "it"]]
    assert batch.spans.dtype == torch.int64
