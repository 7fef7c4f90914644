"""Activation checkpointing: the same loss and the same gradients to the bit, with less kept in between."""

from dataclasses import replace

import pytest
import torch

from pretrain.data.batching import pad_sequences
from pretrain.models.masked_lm import MaskedLanguageModel

SEQUENCES = [[2, 11, 12, 13, 3, 40, 41, 3], [2, 21, 3, 50, 3]]
TARGETS, STARTS = torch.tensor([1, 9, 3, 3]), torch.tensor([0, 8])


def gradients(model, again, autocast=False):
    model.train()
    model.encoder.activation_checkpointing = again
    batch = pad_sequences(SEQUENCES, 0)[:3]
    torch.manual_seed(7)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        if model.sentence_head is None:
            loss = model(*batch, TARGETS).float().square().mean()
        else:
            states, sentences = model.forward_with_sentences(*batch, TARGETS, None, STARTS)
            loss = model.logits(states).float().square().mean() + sentences.float().square().mean()
    names, parameters = zip(*model.named_parameters(), strict=True)
    after = torch.rand(1)  # the generator must be where it would be without it
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True)) | {"loss": loss, "generator": after}


@pytest.mark.parametrize("kernel", ["sdpa", "matmul", "reference"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("autocast", [False, True])
def test_gradients_are_the_same_to_the_bit(forms, kernel, dropout, autocast):
    for name, config in forms.items():
        config = replace(config, attention_kernel=kernel, dropout=dropout, attention_dropout=dropout, pooler=True)
        for sentence_head in (False, True):
            torch.manual_seed(0)
            model = MaskedLanguageModel(config, 75, sentence_head)
            plain, recomputed = gradients(model, False, autocast), gradients(model, True, autocast)
            for parameter in plain:
                assert torch.equal(plain[parameter], recomputed[parameter]), (name, parameter)


def kept_between(model, again):
    """How many numbers autograd holds between forward and backward, without the weights."""
    weights = {parameter.data_ptr() for parameter in model.parameters()}
    kept = {}
    model.encoder.activation_checkpointing = again

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = pad_sequences([[2, *range(5, 45), 3]] * 4, 0)[:3]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(*batch, torch.tensor([1])).sum()
    loss.backward()
    return sum(kept.values())


def test_much_less_is_kept(forms):
    model = MaskedLanguageModel(replace(forms["modern"], num_layers=6), 75).train()
    assert kept_between(model, True) < 0.3 * kept_between(model, False)


def test_evaluation_and_no_grad_compute_every_layer_once(forms, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("checkpoint was called")

    monkeypatch.setattr("pretrain.models.layers.checkpoint", never)
    model = MaskedLanguageModel(forms["modern"], 75)
    model.encoder.activation_checkpointing = True
    batch = (*pad_sequences(SEQUENCES, 0)[:3], TARGETS)
    with torch.no_grad():
        model.train()(*batch)
    model.eval()(*batch)
    with pytest.raises(AssertionError, match="checkpoint was called"):
        model.train()(*batch)


def test_it_is_off_until_it_is_set(forms):
    assert MaskedLanguageModel(forms["bert"], 75).encoder.activation_checkpointing is False
