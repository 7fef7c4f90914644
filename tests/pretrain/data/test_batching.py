"""Rows and sequences become flat tokens without losing, mixing or moving any."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.data.batching import Batch, PairBatch, from_rows, pad_sequences
from pretrain.models.tokens import Tokens


def test_rows_become_sequences_and_padding_is_its_own():
    ids = np.array([[5, 6, 7, 8, 9, 0], [1, 2, 3, 4, 5, 6]], dtype=np.uint16)
    segments = np.array([[1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 1, 1]], dtype=np.int32)
    input_ids, position_ids, layout = from_rows(ids, segments)
    assert input_ids.tolist() == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6]
    assert position_ids.tolist() == [0, 1, 0, 1, 2, 0, 0, 1, 2, 3, 4, 5]
    assert layout.cu_seqlens.tolist() == [0, 2, 5, 6, 12]
    assert (layout.row_length, layout.max_seqlen) == (6, 6)
    assert input_ids.dtype == position_ids.dtype == torch.int64
    assert layout.cu_seqlens.dtype == torch.int32


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match="must be the same"):
        from_rows(np.ones((1, 4)), np.ones((1, 3)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=6), min_size=1, max_size=4), st.integers(0, 5))
def test_every_piece_comes_back_with_positions_from_zero(rows, spare):
    length = max(map(sum, rows)) + spare
    segments = np.zeros((len(rows), length), dtype=np.int32)
    for row, pieces in enumerate(rows):
        numbers = np.repeat(np.arange(1, len(pieces) + 1), pieces)
        segments[row, : len(numbers)] = numbers
    ids = np.arange(segments.size).reshape(segments.shape)
    input_ids, position_ids, layout = from_rows(torch.from_numpy(ids), torch.from_numpy(segments))
    assert input_ids.tolist() == list(range(segments.size))
    starts, ends = layout.cu_seqlens[:-1].tolist(), layout.cu_seqlens[1:].tolist()
    expected = [p for pieces in rows for p in (*pieces, length - sum(pieces)) if p]
    assert [end - start for start, end in zip(starts, ends, strict=True)] == expected
    assert position_ids.tolist() == [p for n in expected for p in range(n)]
    assert layout.sequence_ids(segments.size).tolist() == [i for i, n in enumerate(expected) for _ in range(n)]


def test_padded_sequences_stand_one_a_row():
    input_ids, position_ids, layout, starts = pad_sequences([[2, 9, 3], [2, 3]], pad_id=0, multiple=4)
    assert input_ids.tolist() == [2, 9, 3, 0, 2, 3, 0, 0]
    assert position_ids.tolist() == [0, 1, 2, 0, 0, 1, 0, 1]
    assert layout.cu_seqlens.tolist() == [0, 3, 4, 6, 8]
    assert starts.tolist() == [0, 4]
    assert layout.row_length == 4


@pytest.mark.parametrize("sequences", [[], [[1], []]])
def test_nothing_to_pad_is_an_error(sequences):
    with pytest.raises(InputError, match="at least one"):
        pad_sequences(sequences, pad_id=0)


def test_a_batch_moves_as_a_whole():
    input_ids, position_ids, layout, starts = pad_sequences([[2, 9, 3], [2, 3]], pad_id=0)
    moved = Batch(input_ids, position_ids, layout, starts, starts, torch.ones(2)).to("meta")
    tensors = (moved.input_ids, moved.position_ids, moved.layout.cu_seqlens, moved.labels, moved.weights)
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert moved.token_type_ids is None and moved.sentence_weights is None
    whole = Batch(
        input_ids, position_ids, layout, starts, starts, torch.ones(2), input_ids, starts, starts, torch.ones(2)
    )
    assert all(part.device.type == "meta" for part in vars(whole.to("meta")).values() if isinstance(part, torch.Tensor))


def pair_batch(languages=(None, None), hidden_keys=None):
    input_ids, position_ids, layout, starts = pad_sequences([[2, 9, 8, 3], [2, 3]], pad_id=0)
    decoder = pad_sequences([[9, 8], [2]], pad_id=0)[:3]
    source = Tokens(input_ids, position_ids, layout, languages[0])
    return PairBatch(source, Tokens(*decoder, languages[1]), starts, starts, torch.ones(2), hidden_keys)


def test_a_pair_batch_moves_as_a_whole_with_what_it_has_and_without_what_it_has_not():
    moved = pair_batch().to("meta")
    assert moved.source.layout.cu_seqlens.device.type == moved.target.layout.cu_seqlens.device.type == "meta"
    assert moved.source.language_ids is None and moved.target.language_ids is None and moved.hidden_keys is None
    whole = pair_batch((torch.zeros(8), torch.zeros(4)), torch.zeros(8, dtype=torch.bool)).to("meta")
    parts = [*vars(whole).values(), *vars(whole.source).values(), *vars(whole.target).values()]
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    assert len(tensors) == 10 and all(tensor.device.type == "meta" for tensor in tensors)


def test_compiled_code_assumes_nothing_of_the_number_of_sequences_of_either_side():
    batch = pair_batch()
    batch.for_compiled_code()
    for layout in (batch.layout, batch.target.layout):
        assert 0 in layout.cu_seqlens._dynamo_weak_dynamic_indices
    assert not hasattr(batch.source.input_ids, "_dynamo_weak_dynamic_indices")
