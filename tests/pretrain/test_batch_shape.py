from dataclasses import replace

import pytest
import torch

from conf.errors import InputError
from pretrain.batch_shape import batch_shape
from pretrain.data.batching import PairBatch
from pretrain.estimates import seq2seq_forward_flops_per_token
from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from tests.integration import parity_cases
from tests.pretrain.models.pairs import side

CONFIG = EncoderConfig(hidden_size=32, num_layers=2, num_heads=2, intermediate_size=48)


def test_the_shape_of_a_batch_has_its_sequences_and_its_share_of_targets():
    made = parity_cases.micro_batch(0, range(4))
    shape = batch_shape([made, made], ("masked_lm",))
    assert sum(shape.sequence_lengths) == 2 * made.batch.input_ids.numel()
    assert shape.target_share == pytest.approx(made.counts["masked_lm"] / made.tokens)
    assert shape.sentence_share == 0.0 and shape.flops_per_token(CONFIG, 200) > 0


def two_sided():
    made = parity_cases.micro_batch(0, range(4))
    sources, targets = side([[[5] * 7, [5] * 4]], 12), side([[[5] * 3, []]], 6)
    batch = PairBatch(sources.tokens(), targets.tokens(), targets.real, targets.ids[targets.real], torch.ones(3))
    return replace(made, batch=batch, counts={"mass": 3.0}, tokens=11)


def test_the_shape_of_pairs_has_both_sides():
    config = Seq2SeqConfig(32, 2, 2, 2, 48)
    shape = batch_shape([two_sided()] * 2, ("mass",))
    assert shape.sequence_lengths == [7, 4, 1] * 2 and shape.decoder_lengths == [3, 0, 3] * 2
    assert shape.target_share == 3 / 11
    lengths = {"sequence_lengths": shape.sequence_lengths, "decoder_lengths": shape.decoder_lengths}
    expected = seq2seq_forward_flops_per_token(config, 200, **lengths, target_share=3 / 11)
    assert shape.forward_flops_per_token(config, 200) == expected
    assert shape.flops_per_token(config, 200) == 3 * sum(expected.values())


def test_batches_of_another_kind_than_the_model_are_refused():
    pairs, rows = (
        batch_shape([two_sided()], ("mass",)),
        batch_shape([parity_cases.micro_batch(0, range(4))], ("masked_lm",)),
    )
    with pytest.raises(InputError, match="batches with a decoder's side, but the model is an encoder;"):
        pairs.flops_per_token(CONFIG, 200)
    with pytest.raises(InputError, match="batches without a decoder's side, but the model is an encoder-decoder;"):
        rows.flops_per_token(Seq2SeqConfig(32, 2, 2, 2, 48), 200)
