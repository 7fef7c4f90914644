import pytest
import torch

from conf.errors import InputError
from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.seq2seq import Seq2SeqModel
from pretrain.optim.adamw import adamw
from pretrain.optim.groups import describe_groups, folded_names, parameter_groups


@pytest.fixture(scope="module")
def model():
    config = EncoderConfig(8, 3, 2, 16, norm="post", positions="learned", activation="gelu", biases=True, token_types=2)
    return MaskedLanguageModel(config, 50)


def test_weight_decay_is_never_on_biases_and_norms(model):
    decayed, plain = parameter_groups(model, lr=0.1, weight_decay=0.01)
    assert decayed["weight_decay"] == 0.01 and plain["weight_decay"] == 0.0
    assert all(name.endswith(".bias") or "norm" in name for name in plain["names"])
    assert not any(name.endswith(".bias") or "norm" in name for name in decayed["names"])
    everything = [name for name, _ in model.named_parameters()]
    assert sorted(decayed["names"] + plain["names"]) == sorted(everything)
    assert all(group["lr"] == 0.1 for group in (decayed, plain))


def test_a_group_without_members_is_left_out():
    groups = parameter_groups(torch.nn.Linear(2, 2, bias=False), lr=0.1, weight_decay=0.0)
    assert [group["names"] for group in groups] == [["weight"]]


def test_frozen_parameters_are_in_no_group():
    layer = torch.nn.Linear(2, 2)
    layer.weight.requires_grad_(False)
    assert [group["names"] for group in parameter_groups(layer, lr=0.1, weight_decay=0.1)] == [["bias"]]


def test_layer_decay_lowers_the_rate_by_one_factor_a_layer_down_to_the_embeddings(model):
    groups = parameter_groups(model, lr=1.0, weight_decay=0.01, layer_decay=0.5)
    rates = {name: group["lr"] for group in groups for name in group["names"]}
    assert rates["head.dense.weight"] == rates["head.bias"] == 1.0
    for layer, rate in ((2, 0.5), (1, 0.25), (0, 0.125)):
        own = {value for name, value in rates.items() if f"layers.{layer}." in name}
        assert own == {rate}
    assert {value for name, value in rates.items() if "embeddings" in name} == {0.0625}
    assert groups[0]["lr"] == 1.0
    assert len(rates) == len(list(model.parameters())) and len(groups) == 10


@pytest.fixture(scope="module")
def pair_model():
    return Seq2SeqModel(Seq2SeqConfig(8, 3, 2, 2, 16, norm="pre", languages=["en", "fr"]), 50)


def test_weight_decay_is_never_on_biases_and_norms_of_an_encoder_decoder(pair_model):
    decayed, plain = parameter_groups(pair_model, lr=0.1, weight_decay=0.01)
    assert all(name.endswith(".bias") or "norm" in name for name in plain["names"])
    assert not any(name.endswith(".bias") or "norm" in name for name in decayed["names"])
    assert len(decayed["names"] + plain["names"]) == len(list(pair_model.parameters()))


def test_layer_decay_counts_encoder_and_decoder_each_for_itself(pair_model):
    groups = parameter_groups(pair_model, lr=1.0, weight_decay=0.01, layer_decay=0.5)
    rates = {name: group["lr"] for group in groups for name in group["names"]}
    assert len(rates) == len(list(pair_model.parameters()))
    tops = ("encoder.layers.2.", "decoder.layers.1.")
    for step in range(2):
        names = [top.replace(top[-2], str(int(top[-2]) - step)) for top in tops]
        found = {rate for name, rate in rates.items() if name.startswith(tuple(names))}
        assert found == {0.5 ** (step + 1)}
    assert {rate for name, rate in rates.items() if name.startswith("encoder.layers.0.")} == {0.125}
    # The shared embedding is below the taller side; what only the decoder has is below the decoder's first layer.
    assert {rate for name, rate in rates.items() if name.startswith("encoder.embeddings.")} == {0.0625}
    assert {rate for name, rate in rates.items() if name.startswith("decoder.embeddings.")} == {0.125}
    assert {rates[name] for name in ("head.bias", "encoder.final_norm.weight", "decoder.final_norm.weight")} == {1.0}


def test_layer_decay_needs_a_model_with_layers():
    with pytest.raises(InputError, match=r"optimizer\.layer_decay needs a model"):
        parameter_groups(torch.nn.Linear(2, 2), lr=0.1, weight_decay=0.0, layer_decay=0.9)


def test_rows_name_every_parameter_and_fold_those_of_all_layers(model):
    optimizer = adamw(model, lr=1e-3, betas=[0.9, 0.98], weight_decay=0.01)
    rows = describe_groups(optimizer)
    assert [(row.lr, row.weight_decay) for row in rows] == [(1e-3, 0.01), (1e-3, 0.0)]
    assert sum(row.parameters for row in rows) == sum(p.numel() for p in model.parameters())
    assert sum(len(row.names) for row in rows) == len(list(model.parameters()))
    names = folded_names(rows[0].names)
    assert "encoder.layers.0-2.attention.qkv.weight (3)" in names
    assert "encoder.embeddings.token.weight" in names


def test_folded_names_tell_layers_that_lack_a_parameter_from_those_that_have_it():
    modern = MaskedLanguageModel(EncoderConfig(8, 3, 2, 16), 50)
    rows = describe_groups(adamw(modern, lr=1e-3, betas=[0.9, 0.98]))
    names = [name for row in rows for name in folded_names(row.names)]
    assert "encoder.layers.1-2.attention_norm.weight (2)" in names  # the first layer has none in the modern form
