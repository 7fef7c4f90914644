"""A model that starts from another one's weights: what fits comes over, what differs is said or refused."""

from dataclasses import replace

import pytest
import torch

from conf.errors import InputError
from pretrain.models.adopt import adopt_weights
from pretrain.models.resize import EMBEDDING, OUTPUT_BIAS
from tests.pretrain.models.conftest import SEQ2SEQ_FORMS, make_seq2seq


def test_the_same_shape_is_taken_over_whole(forms, build):
    for config in forms.values():
        model, source = build(config, seed=1), build(config, seed=2)
        assert adopt_weights(model, source, "there", 0) == []
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), source.parameters(), strict=True))


def test_a_sentence_head_that_only_the_source_has_is_not_used(forms, build):
    config = replace(forms["bert"], pooler=True)
    model, source = build(config, seed=1), build(config, seed=2, sentence_head=True)
    (note,) = adopt_weights(model, source, "there", 0)
    assert note.startswith("the sentence head of 'there' and its pooler are not used")
    assert torch.equal(model.head.dense.weight, source.head.dense.weight)


def test_a_sentence_head_that_only_the_model_has_stays_fresh(forms, build):
    config = replace(forms["bert"], pooler=True)
    model, source = build(config, seed=1, sentence_head=True), build(config, seed=2)
    before = model.sentence_head.dense.weight.clone()
    (note,) = adopt_weights(model, source, "there", 0)
    assert note == "'there' holds no sentence head: it and the pooler start from fresh weights"
    assert torch.equal(model.sentence_head.dense.weight, before)
    assert torch.equal(model.encoder.layers[0].attention.qkv.weight, source.encoder.layers[0].attention.qkv.weight)


def test_tokens_the_source_does_not_know_start_fresh_from_the_seed(forms, build):
    results = []
    for seed in (5, 5, 6):
        model, source = build(forms["modern"], vocab_size=140, seed=1), build(forms["modern"], seed=2)
        (note,) = adopt_weights(model, source, "there", seed)
        assert note == "65 tokens that 'there' does not know start from fresh embeddings"
        results.append(model.encoder.embeddings.token.weight)
        assert torch.equal(results[-1][:75], source.encoder.embeddings.token.weight[:75])
        assert not results[-1][140:].any()
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"intermediate_size": 44}, r"mlp\.input\.weight' is \[80, 32\] instead of \[88, 32\]"),
        ({"num_layers": 4}, r"'encoder\.layers\.3.* is missing instead of"),
        ({"num_layers": 2}, r"'encoder\.layers\.2.* instead of missing"),
    ],
)
def test_another_shape_is_refused_by_the_name_of_a_tensor(forms, build, change, message):
    model, source = build(replace(forms["modern"], **change)), build(forms["modern"])
    with pytest.raises(InputError, match=message):
        adopt_weights(model, source, "there", 0)


def test_a_smaller_vocabulary_is_refused(forms, build):
    with pytest.raises(InputError, match="can only grow"):
        adopt_weights(build(forms["modern"], vocab_size=70), build(forms["modern"]), "there", 0)


def test_an_encoder_decoder_is_taken_over_with_new_tokens_fresh():
    model, source = make_seq2seq(SEQ2SEQ_FORMS["mbart"], vocab_size=140, seed=1), make_seq2seq(SEQ2SEQ_FORMS["mbart"])
    (note,) = adopt_weights(model, source, "there", 0)
    assert note == "65 tokens that 'there' does not know start from fresh embeddings"
    for name, tensor in source.state_dict().items():
        if name in (EMBEDDING, OUTPUT_BIAS):
            assert torch.equal(model.state_dict()[name][:75], tensor[:75])
        else:
            assert torch.equal(model.state_dict()[name], tensor)
    assert model.encoder.embeddings.token.weight[75:140].any(1).all() and not model.head.bias[75:].any()


def test_a_model_of_another_kind_is_refused(forms, build):
    with pytest.raises(InputError, match=r"'decoder\..* is missing instead of"):
        adopt_weights(make_seq2seq(SEQ2SEQ_FORMS["bart"]), build(forms["bert"]), "there", 0)
    with pytest.raises(InputError, match=r"'decoder\..* instead of missing"):
        adopt_weights(build(forms["bert"]), make_seq2seq(SEQ2SEQ_FORMS["bart"]), "there", 0)
