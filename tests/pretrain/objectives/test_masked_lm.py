"""The masked-LM objective: what a batch holds, what its randomness depends on, and which options it takes."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from conf.errors import InputError
from pipeline.shards import Rows
from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from pretrain.objectives import DataFacts
from pretrain.objectives.masked_lm import MaskedLM

SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
VOCAB, LENGTH = 60, 32
FACTS = DataFacts(VOCAB, SPECIAL, LENGTH)
MODEL = EncoderConfig(hidden_size=16, num_layers=2, num_heads=2, intermediate_size=16)
UNITS = ("token", "word", "span")


def row_keys(count, name="test"):
    return hash_coordinates(derive_key(name), np.arange(count))


def some_rows(count, seed=0):
    """Rows of two pieces, [CLS] tokens [SEP] each, and some padding; two words in three are of one token."""
    generator = np.random.default_rng(seed)
    ids = np.zeros((count, LENGTH), dtype=np.uint16)
    segments = np.zeros((count, LENGTH), dtype=np.int32)
    for row in range(count):
        first, second = generator.integers(3, 14, size=2)
        for piece, (start, end) in enumerate([(0, first), (first, first + second)], start=1):
            ids[row, start:end] = generator.integers(5, VOCAB, size=end - start)
            ids[row, start], ids[row, end - 1] = SPECIAL["cls"], SPECIAL["sep"]
            segments[row, start:end] = piece
    starts = (generator.random(ids.shape) < 0.67) | (ids < 5)
    return Rows(ids, segments, starts & (segments > 0))


def batch_of(objective, rows, keys=None, used=None, training=True):
    count = len(rows.input_ids)
    return objective.make_batch(
        rows,
        row_keys(count) if keys is None else keys,
        np.ones(count, dtype=bool) if used is None else used,
        training=training,
    )


@pytest.mark.parametrize("unit", UNITS)
def test_a_batch_predicts_the_original_tokens_and_leaves_the_rows_as_they_were(unit):
    rows = some_rows(8)
    before = rows.input_ids.copy()
    made = batch_of(MaskedLM(FACTS, unit=unit), rows)
    batch, used = made.batch, made.batch.weights > 0
    assert np.array_equal(rows.input_ids, before)
    original = torch.from_numpy(before.astype(np.int64)).reshape(-1)
    assert torch.equal(batch.labels[used], original[batch.target_positions[used]])
    assert not np.isin(batch.labels[used].numpy(), list(SPECIAL.values())).any()
    untouched = torch.ones_like(original, dtype=torch.bool)
    untouched[batch.target_positions[used]] = False
    assert torch.equal(batch.input_ids[untouched], original[untouched])
    assert len(batch.labels) == 8 * round(0.15 * LENGTH)
    assert made.counts == {"masked_lm": used.sum()} and made.tokens == (rows.segments > 0).sum()
    assert batch.token_type_ids is None and batch.sentence_labels is None


@pytest.mark.parametrize("unit", UNITS)
def test_a_row_is_masked_alike_in_any_batch_and_otherwise_with_another_key(unit):
    rows, objective = some_rows(8), MaskedLM(FACTS, unit=unit)

    def inputs(part, name="test"):
        picked = Rows(rows.input_ids[part], rows.segments[part], rows.word_start[part])
        made = batch_of(objective, picked, row_keys(8, name)[part])
        return made.batch.input_ids.reshape(-1, LENGTH)

    whole = inputs(slice(None))
    assert torch.equal(torch.cat([inputs(slice(0, 3)), inputs(slice(3, None))]), whole)
    assert not torch.equal(inputs(slice(None), "other"), whole)


def test_evaluation_has_its_own_probability_and_rows_that_are_not_used_have_no_weight():
    rows, objective = some_rows(8), MaskedLM(FACTS, mask_probability=0.5, evaluation_mask_probability=0.15)
    used = np.array([True, False, True, True, True, False, False, True])
    training, evaluation = batch_of(objective, rows), batch_of(objective, rows, training=False)
    again = batch_of(objective, rows, used=used, training=False)
    assert training.counts["masked_lm"] > 2 * evaluation.counts["masked_lm"]
    assert torch.equal(evaluation.batch.input_ids, again.batch.input_ids)
    weighted = again.batch.target_positions[again.batch.weights > 0]
    assert set((weighted // LENGTH).tolist()) == set(np.flatnonzero(used).tolist())
    assert again.counts["masked_lm"] == len(weighted) < evaluation.counts["masked_lm"]
    assert again.tokens == (rows.segments > 0)[used].sum()


def test_rows_without_targets_count_none():
    made = batch_of(MaskedLM(FACTS), some_rows(2), used=np.zeros(2, dtype=bool))
    assert made.counts == {"masked_lm": 0.0} and not made.batch.weights.any()


def test_excluded_tokens_are_neither_chosen_nor_put_in():
    rows, excluded = some_rows(200), list(range(10, VOCAB - 5))
    objective = MaskedLM(FACTS, mask_probability=0.5, mask_share=0.0, random_share=1.0, exclude=excluded)
    made = batch_of(objective, rows)
    labels = made.batch.labels[made.batch.weights > 0]
    put_in = made.batch.input_ids[made.batch.target_positions[made.batch.weights > 0]]
    for ids in (labels, put_in):
        assert len(ids) > 100 and not np.isin(ids.numpy(), [*excluded, *SPECIAL.values()]).any()


def test_random_tokens_may_be_special_ones_where_that_is_asked_for():
    def put_in(**options):
        objective = MaskedLM(FACTS, mask_probability=0.5, mask_share=0.0, random_share=1.0, **options)
        made = batch_of(objective, some_rows(200))
        return set(made.batch.input_ids[made.batch.target_positions[made.batch.weights > 0]].tolist())

    assert put_in() == set(range(5, VOCAB))
    assert put_in(random_from="all") == set(range(VOCAB))


@pytest.mark.parametrize("unit", UNITS)
def test_only_words_and_spans_need_the_column_of_words(unit):
    rows = dataclasses.replace(some_rows(2), word_start=None)
    objective = MaskedLM(FACTS, unit=unit)
    assert objective.columns == (() if unit == "token" else ("word_start",))
    if unit != "token":
        with pytest.raises(ValueError, match="word_start"):
            batch_of(objective, rows)


def test_the_loss_is_the_sum_over_targets_by_torchs_own_loss():
    torch.manual_seed(0)
    objective = MaskedLM(FACTS)
    model = objective.build_model(MODEL, VOCAB)
    batch = batch_of(objective, some_rows(4), used=np.array([True, True, False, True])).batch
    losses = objective.loss(model, batch)
    logits = model(batch.input_ids, batch.position_ids, batch.layout, batch.target_positions)
    expected = (F.cross_entropy(logits, batch.labels, reduction="none") * batch.weights).sum()
    assert list(losses) == list(objective.loss_names) == ["masked_lm"]
    assert losses["masked_lm"].item() == pytest.approx(expected.item(), rel=1e-6)
    gradients = torch.autograd.grad(losses["masked_lm"], model.parameters())
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, model.parameters()), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_causal_model_is_refused():
    with pytest.raises(InputError, match=r"model\.causal=false"):
        MaskedLM(FACTS).build_model(dataclasses.replace(MODEL, causal=True), VOCAB)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mask_probability": 1.5},
        {"mask_probability": 0.0},
        {"evaluation_mask_probability": -1.0},
        {"mask_share": -0.1},
        {"mask_share": 0.9, "random_share": 0.2},
        {"unit": "phrase"},
        {"random_from": "none"},
        {"exclude": [VOCAB]},
        {"exclude": list(range(VOCAB))},
    ],
)
def test_options_out_of_range_are_named(wrong):
    with pytest.raises(InputError, match=f"objective.{next(iter(wrong))}"):
        MaskedLM(FACTS, **wrong)


def test_an_encoder_decoder_is_refused():
    with pytest.raises(InputError, match="a masked-LM objective needs an encoder, but the model is an encoder-decoder"):
        MaskedLM(FACTS).build_model(Seq2SeqConfig(8, 1, 1, 1, 8), VOCAB)
