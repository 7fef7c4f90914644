"""Options of a convolutional model, its receptive field, its sizes and its initial weights."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st

import conf
from conf.errors import InputError
from pretrain.models.config import adopted_differences, config_from_fields
from pretrain.models.conv_config import ConvSeq2SeqConfig, receptive_field
from pretrain.models.conv_layers import WeightNormLinear, normalized
from pretrain.models.conv_seq2seq import ConvSeq2SeqModel
from pretrain.optim.groups import parameter_groups
from tests.pretrain.models.conftest import CONV, CONV_FORMS

TO_1024 = [(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2
TO_4096 = [(512, 3)] * 6 + [(768, 3)] * 4 + [(1024, 3)] * 3 + [(2048, 1), (4096, 1)]


@given(st.lists(st.integers(1, 9), max_size=8), st.lists(st.integers(1, 9), max_size=8))
def test_a_stack_on_a_stack_widens_the_field_by_what_it_sees_besides_its_own_token(below, above):
    assert receptive_field([]) == 1
    assert [receptive_field([kernel]) for kernel in below] == below
    assert receptive_field(below + above) == receptive_field(below) + receptive_field(above) - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder_layers": []}, "model.encoder_layers must have at least one run"),
        ({"decoder_layers": [[1, 16]]}, r"model.decoder_layers must be a list of \[count, .* but holds \[1, 16\]"),
        ({"decoder_layers": [[1, 16, 0]]}, r"at least 1, but holds \[1, 16, 0\]"),
        ({"encoder_layers": [[1, 16, True]]}, r"whole numbers of at least 1, but holds \[1, 16, True\]"),
        ({"encoder_layers": ["333"]}, "but holds '333'"),
        ({"embedding_size": 0}, "model.embedding_size must be at least 1, but is 0"),
        ({"output_size": 0}, "model.output_size must be at least 1"),
        ({"max_positions": 0}, "model.max_positions must be at least 1"),
        ({"dropout": 1.0}, r"model.dropout must be in \[0, 1\), but is 1.0"),
        ({"initializer_range": 0.0}, "model.initializer_range must be above 0, but is 0.0"),
        ({"attention_kernel": "varlen"}, "one of auto, sdpa, matmul, reference .* but is 'varlen'"),
        ({"share_embeddings": True}, "needs model.output_size equal to model.embedding_size = 16, but it is 12"),
        ({"languages": ["en", "en"]}, r"model.languages must be distinct names, but is \['en', 'en'\]"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(change, message):
    with pytest.raises(InputError, match=message):
        replace(CONV, **change)


def test_a_configuration_comes_back_from_the_fields_in_a_file():
    for config in CONV_FORMS.values():
        fields = json.loads(json.dumps(asdict(config)))
        assert config_from_fields(fields) == config
        assert adopted_differences(fields, asdict(config), "there") == []
    assert CONV_FORMS["languages"].language_id("de", "target_language") == 2
    with pytest.raises(InputError, match="source_language is 'en', but the model has no language embeddings"):
        CONV.language_id("en", "source_language")


def read(name):
    options = yaml.safe_load((Path(conf.__file__).parent / "model" / f"{name}.yaml").read_text())
    assert options.pop("_target_") == "pretrain.models.conv_config.ConvSeq2SeqConfig"
    assert options.keys() == ConvSeq2SeqConfig.__dataclass_fields__.keys()
    return ConvSeq2SeqConfig(**options)


@pytest.mark.parametrize(
    ("name", "embedding", "output", "encoder", "decoder", "dropout", "fields"),
    [
        ("conv_s2s_tiny", 128, 128, [(128, 3)] * 3, [(128, 3)] * 3, 0.1, (7, 7)),
        ("conv_s2s_small", 128, 128, [(128, 3)] * 5, [(128, 3)] * 6, 0.2, (11, 13)),
        ("conv_s2s_iwslt", 256, 256, [(256, 3)] * 4, [(256, 3)] * 3, 0.2, (9, 7)),
        ("conv_s2s_wmt_en_de", 768, 512, TO_1024, TO_1024, 0.2, (27, 27)),
        ("conv_s2s_wmt_en_fr", 768, 512, TO_4096, TO_4096, 0.1, (27, 27)),
    ],
)
def test_the_yaml_files_have_the_published_sizes_and_the_parameters_counted_by_hand(
    name, embedding, output, encoder, decoder, dropout, fields
):
    config = read(name)
    assert (config.embedding_size, config.output_size, config.dropout) == (embedding, output, dropout)
    assert config.encoder_convolutions == encoder and config.decoder_convolutions == decoder
    assert config.receptive_fields == fields and config.initializer_range == 0.1
    vocab = 40_000
    with torch.device("meta"):
        model = ConvSeq2SeqModel(config, vocab)

    def linear(inputs, outputs):
        return outputs * inputs + 2 * outputs  # with a gain and a bias for each output

    def stack(layers, last, attends):
        count, inputs = config.max_positions * embedding + linear(embedding, layers[0][0]), layers[0][0]
        for width, kernel in layers:
            count += linear(kernel * inputs, 2 * width) + (linear(inputs, width) if inputs != width else 0)
            count += linear(width, embedding) + linear(embedding, width) if attends else 0
            inputs = width
        return count + linear(inputs, last)

    tables = vocab * embedding if config.share_embeddings else 2 * vocab * embedding + vocab * (output + 1)
    by_hand = stack(encoder, embedding, False) + stack(decoder, output, True) + tables + vocab
    assert model.num_parameters() == by_hand


def test_the_parameters_of_the_size_for_iwslt_as_one_number():
    # 4 encoder layers of 394,240, 3 decoder layers of the same and 132,096 of attention, 4 projections of 66,048,
    # 2 * 262,144 positions, 2 * 10,000 * 256 words, and 10,000 * 258 of the output.
    with torch.device("meta"):
        assert ConvSeq2SeqModel(read("conv_s2s_iwslt"), 10_000).num_parameters() == 11_644_448


# --- weight normalisation and initial weights ---


def test_a_row_of_the_matrix_has_the_gain_as_its_length_and_zeros_stay_zeros():
    direction = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    gain = torch.tensor([10.0, 0.0], requires_grad=True)
    weight = normalized(direction, gain)
    torch.testing.assert_close(weight, torch.tensor([[6.0, 8.0], [0.0, 0.0]]))
    (weight * torch.tensor([[1.0, 2.0], [0.0, 0.0]])).sum().backward()
    # d/dv of g v / |v|: g / |v| (w - u (u . w)) with u = (0.6, 0.8), w = (1, 2): 2 (1 - 1.32, 2 - 1.76)
    torch.testing.assert_close(direction.grad, torch.tensor([[-0.64, 0.48], [0.0, 0.0]]))
    torch.testing.assert_close(gain.grad, torch.tensor([2.2, 0.0]))


def test_the_matrix_at_first_is_what_was_drawn_and_the_length_of_a_direction_means_nothing():
    torch.manual_seed(0)
    layer = WeightNormLinear(300, 200, 0.5)
    torch.testing.assert_close(layer.weight(), layer.direction)
    assert float(layer.direction.detach().std()) == pytest.approx(0.5, rel=0.02) and not layer.bias.any()
    before = layer.weight().detach()
    with torch.no_grad():
        layer.direction *= 7.0
    torch.testing.assert_close(layer.weight(), before)


def test_initial_deviations_make_up_for_dropout_and_for_the_gate():
    torch.manual_seed(0)
    config = replace(CONV, embedding_size=120, output_size=100, dropout=0.2, max_positions=300)
    config = replace(config, encoder_layers=[[1, 160, 3]], decoder_layers=[[1, 160, 2], [1, 90, 1]])
    model = ConvSeq2SeqModel(config, 500)
    encoder, (first, second) = model.encoder, model.decoder.layers
    expected = {
        encoder.embeddings.token.weight[:500]: 0.1,
        model.decoder.embeddings.token.weight[:500]: 0.1,
        model.decoder.embeddings.position.weight: 0.1,
        encoder.embeddings.projection.direction: math.sqrt(0.8 / 120),
        encoder.layers[0].convolution.linear.direction: math.sqrt(4 * 0.8 / (3 * 160)),
        first.convolution.linear.direction: math.sqrt(4 * 0.8 / (2 * 160)),
        second.convolution.linear.direction: math.sqrt(4 * 0.8 / 160),
        second.residual.direction: math.sqrt(1 / 160),
        second.attention.query.direction: math.sqrt(1 / 90),
        second.attention.output.direction: math.sqrt(1 / 120),
        encoder.output.direction: math.sqrt(1 / 160),
        model.head.direction[:500]: math.sqrt(0.8 / 100),
    }
    for weight, deviation in expected.items():
        assert float(weight.detach().std()) == pytest.approx(deviation, rel=0.03)
    biases = [parameter for name, parameter in model.named_parameters() if name.endswith("bias")]
    assert not any(bias.any() for bias in biases)
    for table in (encoder.embeddings.token.weight, model.head.direction, model.head.gain):
        assert not table[500:].any()


def test_the_seed_alone_makes_the_model():
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        states.append(ConvSeq2SeqModel(CONV, 75).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(*(s["head.direction"] for s in states[::2]))


def test_weight_decay_is_never_on_biases_and_gains_and_layer_decay_knows_the_layers():
    model = ConvSeq2SeqModel(CONV, 75)
    decayed, plain = parameter_groups(model, lr=0.1, weight_decay=0.01)
    assert all(name.endswith((".bias", ".gain")) for name in plain["names"])
    assert all(name.endswith((".direction", ".weight")) for name in decayed["names"])
    assert len(decayed["names"] + plain["names"]) == len(list(model.parameters()))
    rates = {
        name: group["lr"]
        for group in parameter_groups(model, lr=1.0, weight_decay=0.0, layer_decay=0.5)
        for name in group["names"]
    }
    assert rates["head.direction"] == rates["decoder.output.gain"] == 1.0
    assert rates["decoder.layers.2.attention.query.gain"] == rates["encoder.layers.2.residual.direction"] == 0.5
    assert rates["encoder.embeddings.projection.direction"] == rates["encoder.embeddings.token.weight"] == 0.0625
