"""The classifier of sequences: a copy of the encoder, first tokens, fresh weights from the seed."""

from dataclasses import replace

import pytest
import torch

from conf.errors import InputError
from pretrain.data.batching import pad_sequences
from pretrain.models.heads import SequenceClassifier


def test_the_encoder_is_copied_and_left_alone(model):
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    classifier = SequenceClassifier(model.encoder, 3).train()
    input_ids, position_ids, layout, starts = pad_sequences([[2, 11, 3], [2, 12, 13, 3]], 0)
    logits = classifier(input_ids, position_ids, layout, starts)
    assert logits.shape == (2, 3)
    logits.square().sum().backward()
    torch.optim.SGD(classifier.parameters(), lr=0.1).step()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_sequences_logits_do_not_depend_on_its_company(model):
    classifier = SequenceClassifier(model.encoder, 2).eval()
    alone = classifier(*pad_sequences([[2, 11, 3]], 0))
    together = classifier(*pad_sequences([[2, 40, 41, 42, 43, 3], [2, 11, 3]], 0))
    torch.testing.assert_close(together[1:], alone, atol=1e-5, rtol=1e-5)


def test_the_seed_makes_the_new_weights(model):
    heads = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        heads.append(SequenceClassifier(model.encoder, 2).classifier.weight)
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])


def test_a_pretrained_pooler_is_taken_over_in_bert(forms, build):
    model = build(replace(forms["bert"], pooler=True), sentence_head=True)
    classifier = SequenceClassifier(model.encoder, 2).eval()
    assert torch.equal(classifier.dense.weight, model.encoder.pooler.weight)
    classifier.dense.weight.data.zero_()
    assert model.encoder.pooler.weight.any()  # a copy
    batch = pad_sequences([[2, 11, 3], [2, 12, 13, 3]], 0)
    classifier(*batch).sum().backward()
    assert all(parameter.grad is not None for parameter in classifier.parameters())


def test_modernberts_head_replaces_a_pooler(forms, build):
    model = build(replace(forms["modern"], pooler=True), sentence_head=True)
    classifier = SequenceClassifier(model.encoder, 2).eval()
    classifier(*pad_sequences([[2, 11, 3]], 0)).sum().backward()
    assert all(parameter.grad is not None for parameter in classifier.parameters())


def test_what_makes_no_sense_is_refused(model):
    with pytest.raises(InputError, match="num_labels must be at least 1"):
        SequenceClassifier(model.encoder, 0)
    with pytest.raises(InputError, match="dropout must be in"):
        SequenceClassifier(model.encoder, 2, dropout=1.0)
