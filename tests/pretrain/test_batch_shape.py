import pytest

from pretrain.batch_shape import batch_shape
from pretrain.models.encoder import EncoderConfig
from tests.integration import parity_cases

CONFIG = EncoderConfig(hidden_size=32, num_layers=2, num_heads=2, intermediate_size=48)


def test_the_shape_of_a_batch_has_its_sequences_and_its_share_of_targets():
    made = parity_cases.micro_batch(0, range(4))
    shape = batch_shape([made, made], ("masked_lm",))
    assert sum(shape.sequence_lengths) == 2 * made.batch.input_ids.numel()
    assert shape.target_share == pytest.approx(made.counts["masked_lm"] / made.tokens)
    assert shape.sentence_share == 0.0 and shape.flops_per_token(CONFIG, 200) > 0
