"""Masked LM with a loss on pairs: what a batch holds, both losses, and the models that are refused."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from conf.errors import InputError
from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.models.encoder import EncoderConfig
from pretrain.objectives import DataFacts
from pretrain.objectives.masked_lm_sentences import MaskedLMWithSentences
from tests.pretrain.objectives.sentence_rows import rows_of_two

SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
VOCAB, LENGTH, COUNT = 60, 64, 12
FACTS = DataFacts(VOCAB, SPECIAL, LENGTH)
MODEL = EncoderConfig(
    hidden_size=16, num_layers=2, num_heads=2, intermediate_size=16, norm="post", positions="learned",
    activation="gelu", biases=True, token_types=2, pooler=True,
)  # fmt: skip
TASKS = ("next_sentence", "sentence_order")


def some_rows(seed):
    return rows_of_two(seed, COUNT, LENGTH, VOCAB, SPECIAL)


def batch_of(task, used=None, training=True, **options):
    objective = MaskedLMWithSentences(FACTS, sentence_task=task, **options)
    keys = hash_coordinates(derive_key("test"), np.arange(COUNT))
    used = np.ones(COUNT, dtype=bool) if used is None else used
    return objective, objective.make_batch(some_rows(1), keys, used, training=training, partners=some_rows(2))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_a_batch_has_types_masks_and_labels_for_its_pairs(task, unit):
    used = np.arange(COUNT) != 3
    objective, made = batch_of(task, used, unit=unit, mask_share=1.0, random_share=0.0)
    batch, weighted = made.batch, made.batch.sentence_weights > 0
    assert made.counts == {"masked_lm": batch.weights.sum(), task: batch.sentence_weights.sum()}
    assert made.counts["masked_lm"] > 0 and made.counts[task] > 5
    assert objective.loss_names == tuple(made.counts) == ("masked_lm", task)
    positions = batch.sentence_positions[weighted]
    assert (batch.input_ids[positions] == SPECIAL["cls"]).all() and not (positions // LENGTH == 3).any()
    assert (batch.position_ids[positions] == 0).all()
    assert set(batch.token_type_ids.unique().tolist()) == {0, 1}
    masked = batch.target_positions[batch.weights > 0]
    assert (batch.input_ids[masked] == SPECIAL["mask"]).all()
    assert len(batch.sentence_positions) == COUNT * (LENGTH // 16)


@pytest.mark.parametrize("task", TASKS)
def test_evaluation_makes_the_same_pairs_and_masks_again(task):
    first, again = (batch_of(task, training=False)[1].batch for _ in range(2))
    assert torch.equal(first.input_ids, again.input_ids) and torch.equal(first.sentence_labels, again.sentence_labels)


@pytest.mark.parametrize("task", TASKS)
def test_both_losses_are_sums_of_torchs_own(task):
    torch.manual_seed(0)
    objective, made = batch_of(task, np.arange(COUNT) != 3)
    model, batch = objective.build_model(MODEL, VOCAB).eval(), made.batch
    losses = objective.loss(model, batch)
    inputs = (batch.input_ids, batch.position_ids, batch.layout, batch.target_positions, batch.token_type_ids)
    logits = model(*inputs)
    _, sentences = model.forward_with_sentences(*inputs, batch.sentence_positions)
    expected = (F.cross_entropy(logits, batch.labels, reduction="none") * batch.weights).sum()
    expected_pairs = (
        F.cross_entropy(sentences, batch.sentence_labels, reduction="none") * batch.sentence_weights
    ).sum()
    assert list(losses) == ["masked_lm", task]
    assert losses["masked_lm"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert losses[task].item() == pytest.approx(expected_pairs.item(), rel=1e-5)
    sum(losses.values()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("task", TASKS)
def test_what_it_needs_of_rows_is_stated(task):
    assert batch_of(task)[0].columns == ("sentence_lengths",)
    assert batch_of(task, unit="word")[0].columns == ("word_start", "sentence_lengths")
    assert batch_of(task)[0].needs_partners == (task == "next_sentence")


@pytest.mark.parametrize("change", [{"token_types": 0}, {"pooler": False}])
def test_a_model_without_types_or_pooler_is_refused(change):
    with pytest.raises(InputError, match=r"model\.token_types=2 and model\.pooler=true"):
        batch_of("next_sentence")[0].build_model(dataclasses.replace(MODEL, **change), VOCAB)


def test_another_task_is_an_error_that_names_the_two():
    with pytest.raises(InputError, match=r"objective\.sentence_task must be next_sentence or sentence_order"):
        MaskedLMWithSentences(FACTS, sentence_task="coreference")
