"""The pretrained model: masked-LM and sentence logits in one pass, and which parts it has."""

from dataclasses import replace

import pytest
import torch

from conf.errors import InputError
from pretrain.data.batching import pad_sequences
from pretrain.models.encoder import Encoder
from pretrain.models.masked_lm import MaskedLanguageModel

SEQUENCES = [[2, 11, 12, 13, 3], [2, 21, 3]]
TARGETS, STARTS = torch.tensor([6, 1]), torch.tensor([0, 5])


@pytest.mark.parametrize("form", ["bert", "modern", "modern_local"])
def test_one_pass_gives_what_two_would(forms, build, form):
    model = build(replace(forms[form], pooler=True), sentence_head=True)
    input_ids, position_ids, layout, starts = pad_sequences(SEQUENCES, 0)
    types = torch.zeros_like(input_ids)
    if model.config.token_types:
        types[3:5] = 1
    else:
        types = None
    states, sentences = model.forward_with_sentences(input_ids, position_ids, layout, TARGETS, types, starts)
    expected = model.target_states(input_ids, position_ids, layout, TARGETS, types)
    torch.testing.assert_close(states, expected, atol=1e-6, rtol=1e-5)
    first = model.encoder(input_ids, position_ids, layout, types)[starts]
    pooled = torch.tanh(first @ model.encoder.pooler.weight.T + (model.encoder.pooler.bias if types is not None else 0))
    wanted = pooled @ model.sentence_head.dense.weight.T + model.sentence_head.dense.bias
    torch.testing.assert_close(sentences, wanted, atol=1e-6, rtol=1e-5)
    assert sentences.shape == (2, 2)


def test_no_sentence_or_no_target_is_an_empty_result(forms, build):
    model = build(replace(forms["bert"], pooler=True), sentence_head=True)
    batch, nothing = pad_sequences(SEQUENCES, 0)[:3], torch.zeros(0, dtype=torch.long)
    assert model.forward_with_sentences(*batch, TARGETS, None, nothing)[1].shape == (0, 2)
    assert model.forward_with_sentences(*batch, nothing, None, STARTS)[0].shape == (0, 32)


def test_a_sentence_head_needs_the_pooler(forms):
    with pytest.raises(InputError, match=r"needs model\.pooler=true"):
        MaskedLanguageModel(forms["bert"], 75, sentence_head=True)


def test_without_a_sentence_head_no_part_is_left_that_no_loss_trains(forms):
    model = MaskedLanguageModel(replace(forms["bert"], pooler=True), 75)
    assert not any("pooler" in name or "sentence" in name for name in model.state_dict())
    assert model.config == forms["bert"]
    with pytest.raises(InputError, match="made without a sentence head"):
        model.forward_with_sentences(*pad_sequences(SEQUENCES, 0)[:3], TARGETS, None, STARTS)
    with pytest.raises(InputError, match="this encoder has no pooler"):
        model.encoder.pool(torch.zeros(1, 32))


@pytest.mark.parametrize("sentence_head", [False, True])
def test_every_parameter_is_reached_by_a_gradient(forms, build, sentence_head):
    for config in forms.values():
        model = build(replace(config, pooler=True), sentence_head=sentence_head)
        batch = pad_sequences(SEQUENCES, 0)[:3]
        if sentence_head:
            states, sentences = model.forward_with_sentences(*batch, TARGETS, None, STARTS)
            loss = model.logits(states).logsumexp(1).sum() + sentences.logsumexp(1).sum()
        else:
            loss = model(*batch, TARGETS).logsumexp(1).sum()
        loss.backward()
        assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_seed_makes_the_sentence_head_as_bert_has_it(forms):
    config = replace(forms["bert"], pooler=True)
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        states.append(MaskedLanguageModel(config, 75, sentence_head=True).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    for name in ("sentence_head.dense", "encoder.pooler"):
        assert 0.0 < float(states[0][f"{name}.weight"].abs().max()) <= 0.04  # a normal of .02 cut at two deviations
        assert not states[0][f"{name}.bias"].any()


def test_numbers_of_parameters_count_every_part_once(forms):
    config = replace(forms["bert"], pooler=True)
    without, with_head = MaskedLanguageModel(config, 75), MaskedLanguageModel(config, 75, sentence_head=True)
    assert with_head.num_parameters() - without.num_parameters() == 33 * 32 + 33 * 2
    assert Encoder(config, 75).num_parameters() - Encoder(forms["bert"], 75).num_parameters() == 33 * 32
