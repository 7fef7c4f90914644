"""The causal objective: the next token of the same sequence, and nothing else, is to be predicted."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from conf.errors import InputError
from pipeline.shards import Rows
from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from pretrain.objectives import DataFacts
from pretrain.objectives.causal_lm import CausalLM

FACTS = DataFacts(20, {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}, 8)
MODEL = EncoderConfig(hidden_size=16, num_layers=2, num_heads=2, intermediate_size=16, causal=True)
ROWS = Rows(
    np.array([[2, 7, 8, 3, 2, 9, 3, 0], [2, 10, 11, 12, 13, 14, 15, 3]], dtype=np.uint16),
    np.array([[1, 1, 1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 1, 1, 1, 1]], dtype=np.int32),
)
KEYS = np.zeros(2, dtype=np.uint64)


def batch_of(used=(True, True), training=True):
    return CausalLM(FACTS).make_batch(ROWS, KEYS, np.array(used), training=training)


def test_targets_are_the_next_tokens_within_each_sequence():
    made = batch_of()
    batch, weighted = made.batch, made.batch.weights > 0
    pairs = zip(
        batch.input_ids[batch.target_positions[weighted]].tolist(), batch.labels[weighted].tolist(), strict=True
    )
    expected = [(2, 7), (7, 8), (8, 3), (2, 9), (9, 3), (2, 10)]
    assert list(pairs) == expected + [(n, n + 1) for n in range(10, 15)] + [(15, 3)]
    assert made.counts == {"causal_lm": 12.0} and made.tokens == 15
    assert len(batch.target_positions) == len(batch.input_ids) == 16
    assert torch.equal(batch.input_ids, torch.from_numpy(ROWS.input_ids.astype(np.int64)).reshape(-1))


def test_rows_that_are_not_used_have_no_weight_and_evaluation_is_the_same():
    made = batch_of((False, True))
    assert made.counts == {"causal_lm": 7.0} and made.tokens == 8 and not made.batch.weights[:8].any()
    assert torch.equal(batch_of(training=False).batch.labels, batch_of().batch.labels)


def test_the_loss_is_the_sum_over_next_tokens_by_torchs_own_loss():
    torch.manual_seed(0)
    objective = CausalLM(FACTS)
    model, batch = objective.build_model(MODEL, 20), batch_of().batch
    logits = model(batch.input_ids, batch.position_ids, batch.layout, batch.target_positions)
    expected = (F.cross_entropy(logits, batch.labels, reduction="none") * batch.weights).sum()
    losses = objective.loss(model, batch)
    assert list(losses) == ["causal_lm"] and losses["causal_lm"].item() == pytest.approx(expected.item(), rel=1e-6)


def test_no_prediction_depends_on_what_follows():
    torch.manual_seed(0)
    model, batch = CausalLM(FACTS).build_model(MODEL, 20), batch_of().batch
    before = model(batch.input_ids, batch.position_ids, batch.layout, batch.target_positions)
    changed = batch.input_ids.clone()
    changed[12:] = 19
    after = model(changed, batch.position_ids, batch.layout, batch.target_positions)
    assert torch.allclose(after[:12], before[:12], atol=1e-6) and not torch.allclose(after[12:], before[12:], atol=1e-3)


def test_a_model_that_sees_its_targets_is_refused():
    with pytest.raises(InputError, match=r"model\.causal=true"):
        CausalLM(FACTS).build_model(dataclasses.replace(MODEL, causal=False), 20)


def test_an_encoder_decoder_is_refused():
    with pytest.raises(InputError, match="objective=causal_lm needs an encoder, but the model is an encoder-decoder"):
        CausalLM(FACTS).build_model(Seq2SeqConfig(8, 1, 1, 1, 8), 20)
