"""The plain loop is a fair peer: its batches are padded as little as the order allows, and it learns."""

import numpy as np
import pytest
import torch

from benchmarks import synthetic
from benchmarks.plain_loop import PaddedBatch, PlainLoop, batches_of_full_rows, batches_of_sequences, bert_config

VOCABULARY = 100


@pytest.fixture(scope="module")
def sequences() -> list[np.ndarray]:
    return synthetic.make("paragraphs", 8_000, 64, VOCABULARY).sequences


def fill(batches: list[PaddedBatch]) -> float:
    return sum(one.tokens for one in batches) / sum(one.input_ids.numel() for one in batches)


def test_batches_are_padded_to_their_longest_sequence_and_no_further(sequences: list[np.ndarray]) -> None:
    for batch in batches_of_sequences(sequences, 8, synthetic.SPECIAL_IDS, VOCABULARY, by_length=False):
        assert batch.attention_mask is not None
        longest = int(batch.attention_mask.sum(1).max())
        assert longest <= batch.input_ids.shape[1] < longest + 8
        padding = batch.attention_mask == 0
        assert (batch.input_ids[padding] == synthetic.SPECIAL_IDS["pad"]).all()
        assert (batch.labels[padding] == -100).all()


def test_like_lengths_together_leave_little_padding(sequences: list[np.ndarray]) -> None:
    make = batches_of_sequences
    random = make(sequences, 8, synthetic.SPECIAL_IDS, VOCABULARY, by_length=False)
    sorted_ = make(sequences, 8, synthetic.SPECIAL_IDS, VOCABULARY, by_length=True)
    assert fill(sorted_) > 0.85 > fill(random)
    assert sum(one.tokens for one in sorted_) == pytest.approx(sum(one.tokens for one in random), rel=0.05)


def test_fifteen_percent_are_targets_and_eighty_percent_of_them_masks(sequences: list[np.ndarray]) -> None:
    batches = batches_of_sequences(sequences, 8, synthetic.SPECIAL_IDS, VOCABULARY, by_length=False)
    labels = torch.cat([one.labels.flatten() for one in batches])
    inputs = torch.cat([one.input_ids.flatten() for one in batches])
    chosen = labels != -100
    ordinary = sum(len(one) - 2 for one in sequences)
    assert chosen.sum() / ordinary == pytest.approx(0.15, abs=0.02)
    assert (inputs[chosen] == synthetic.SPECIAL_IDS["mask"]).float().mean() == pytest.approx(0.8, abs=0.05)
    assert not torch.isin(labels[chosen], torch.tensor(list(synthetic.SPECIAL_IDS.values()))).any()


def test_full_rows_have_no_padding(sequences: list[np.ndarray]) -> None:
    batches = batches_of_full_rows(sequences, 4, 64, synthetic.SPECIAL_IDS, VOCABULARY)
    assert all(one.attention_mask is None and one.input_ids.shape == (4, 64) for one in batches)
    assert fill(batches) == 1.0


def test_the_loop_learns_and_counts_its_tokens(sequences: list[np.ndarray]) -> None:
    batches = batches_of_sequences(sequences, 8, synthetic.SPECIAL_IDS, VOCABULARY, by_length=False)[:1]
    config = bert_config(VOCABULARY, layers=2, hidden=32, heads=2, width=64, dropout=0.0, attention_dropout=0.0)
    loop = PlainLoop(config, batches, torch.device("cpu"), bf16=False)
    assert config._attn_implementation == "sdpa"
    here = batches[0]

    def loss() -> float:
        with torch.no_grad():
            model = loop.model
            return float(model(here.input_ids, attention_mask=here.attention_mask, labels=here.labels).loss)

    before = loss()
    assert [loop.step() for _ in range(20)] == [here.tokens] * 20
    assert loss() < before - 0.01
    assert loop.fill == pytest.approx(fill(batches))


def test_a_loop_without_a_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="too few sequences"):
        config = bert_config(VOCABULARY, layers=1, hidden=32, heads=2, width=64, dropout=0.0, attention_dropout=0.0)
        PlainLoop(config, [], torch.device("cpu"), bf16=False)
