"""The encoder as a function: packing, positions, wanted positions, seeds and initial weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conf.errors import InputError
from pretrain.data.batching import from_rows, pad_sequences
from pretrain.models.encoder import Encoder, padded_vocab_size
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.positions import RotaryPositions

SEQUENCES = [[2, 11, 12, 13, 3], [2, 21, 3], [2, 31, 32, 33, 34, 35, 3], [2, 41, 3]]


def packed(sequences, length):
    ids, segments = np.zeros((1, length), dtype=np.int64), np.zeros((1, length), dtype=np.int32)
    at = 0
    for number, sequence in enumerate(sequences, 1):
        ids[0, at : at + len(sequence)] = sequence
        segments[0, at : at + len(sequence)] = number
        at += len(sequence)
    return from_rows(ids, segments)


@pytest.mark.parametrize("kernel", ["auto", "matmul", "reference"])
def test_packed_and_padded_give_the_same_states(forms, build, kernel):
    for config in forms.values():
        model = build(replace(config, attention_kernel=kernel))
        input_ids, position_ids, layout = packed(SEQUENCES, 24)
        together = model.encoder(input_ids, position_ids, layout)
        at = 0
        for sequence in SEQUENCES:
            ids, positions, alone, _ = pad_sequences([sequence], pad_id=0, multiple=16)
            expected = model.encoder(ids, positions, alone)[: len(sequence)]
            torch.testing.assert_close(together[at : at + len(sequence)], expected, atol=1e-5, rtol=1e-5)
            at += len(sequence)


def test_another_document_in_the_row_leaves_logits_to_the_bit(model):
    input_ids, position_ids, layout = packed(SEQUENCES, 24)
    targets = torch.arange(5, 8)  # the second sequence
    before = model(input_ids, position_ids, layout, targets)
    changed = input_ids.clone()
    changed[:5], changed[8:] = 50, 60
    assert torch.equal(before, model(changed, position_ids, layout, targets))


def test_wanted_positions_are_computed_as_if_all_were(model):
    input_ids, position_ids, layout = packed(SEQUENCES, 24)
    wanted = torch.tensor([9, 1, 1, 17])
    every = model.encoder(input_ids, position_ids, layout)
    some = model.encoder(input_ids, position_ids, layout, output_positions=wanted)
    torch.testing.assert_close(some, every[wanted], atol=1e-6, rtol=1e-5)


def test_gradients_do_not_depend_on_how_positions_are_asked_for(model):
    input_ids, position_ids, layout = packed(SEQUENCES, 24)
    wanted = torch.tensor([9, 1, 17])
    names = [name for name, _ in model.named_parameters()]
    parameters = list(model.parameters())
    narrow = model(input_ids, position_ids, layout, wanted).square().mean()
    wide = model(input_ids, position_ids, layout, torch.arange(24))[wanted].square().mean()
    for name, a, b in zip(
        names, torch.autograd.grad(narrow, parameters), torch.autograd.grad(wide, parameters), strict=True
    ):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


def test_word_order_matters_by_positions_alone(model):
    first = model(*pad_sequences([[2, 11, 12, 3]], 0)[:3], torch.tensor([0]))
    second = model(*pad_sequences([[2, 12, 11, 3]], 0)[:3], torch.tensor([0]))
    assert (first - second).abs().max() > 1e-3


def test_token_types_default_to_the_first(forms, build):
    encoder = build(forms["bert"]).encoder
    batch = pad_sequences([[2, 11, 3]], 0)[:3]
    zeros = torch.zeros(3, dtype=torch.long)
    torch.testing.assert_close(encoder(*batch), encoder(*batch, token_type_ids=zeros))
    assert not torch.allclose(encoder(*batch), encoder(*batch, token_type_ids=zeros + 1))


def test_logits_cover_the_vocabulary_though_the_table_is_padded(forms):
    model = MaskedLanguageModel(forms["modern"], 75)
    assert padded_vocab_size(75) == 128 and padded_vocab_size(128) == 128
    assert model.encoder.embeddings.token.weight.shape == (128, 32)
    assert model(*pad_sequences([[2, 11, 3]], 0)[:3], torch.tensor([1])).shape == (1, 75)
    assert model.num_parameters() == sum(p.numel() for p in model.parameters()) - 53 * 33


def test_the_seed_alone_makes_the_model(forms):
    for config in forms.values():
        states = []
        for seed in (3, 3, 4):
            torch.manual_seed(seed)
            states.append(MaskedLanguageModel(config, 75).state_dict())
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
        assert not torch.equal(*(s["encoder.layers.0.attention.qkv.weight"] for s in states[::2]))


@pytest.mark.parametrize("form", ["bert", "modern"])
def test_initial_weights_have_the_published_spread(forms, form):
    torch.manual_seed(0)
    config = replace(forms[form], hidden_size=256, intermediate_size=512, num_layers=8)
    layer = Encoder(config, 500).layers[3]
    # A normal cut at two deviations keeps .8796 of its own deviation.
    cut = 0.8796
    expected = 0.02 * cut
    written = expected / (16**0.5 if form == "modern" else 1)
    for weight, deviation in (
        (layer.attention.qkv.weight, expected),
        (layer.mlp.input.weight, expected),
        (layer.attention.output.weight, written),
        (layer.mlp.output.weight, written),
    ):
        assert float(weight.detach().std()) == pytest.approx(deviation, rel=0.02)
        assert float(weight.detach().abs().max()) <= 2 * deviation / cut + 1e-7
    assert torch.equal(layer.mlp_norm.weight, torch.ones(256))


def test_dropout_acts_in_training_only_and_follows_the_seed(forms):
    for form in ("bert", "modern"):
        model = MaskedLanguageModel(replace(forms[form], dropout=0.2, attention_dropout=0.2), 75)
        batch = (*pad_sequences([[2, 11, 12, 13, 3]], 0)[:3], torch.tensor([1, 2]))
        runs = []
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            runs.append(model(*batch))
        assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
        model.eval()
        assert torch.equal(model(*batch), model(*batch))


def test_bf16_autocast_stays_near_fp32(model):
    batch = (*pad_sequences(SEQUENCES, 0)[:3], torch.tensor([1, 8]))
    exact = model(*batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(*batch)
    assert (rough - exact).abs().max() < 0.05 * exact.abs().max()


def test_rotary_angles_are_not_rounded_when_the_model_is_cast(forms):
    encoder = Encoder(forms["modern"], 75).to(torch.bfloat16)
    cos, _ = encoder.rotary(torch.tensor([47]), torch.float32)
    assert float(cos[0, 0, 0, 0]) == pytest.approx(float(np.cos(47.0)), abs=1e-6)


def test_a_sequence_beyond_the_positions_is_refused(model):
    batch = pad_sequences([[2] * 49], 0)[:3]
    with pytest.raises(InputError, match=r"up to 49 tokens, but model\.max_positions is 48"):
        model(*batch, torch.tensor([0]))


def test_rotary_angles_equal_those_of_transformers_to_the_bit_at_long_positions():
    from transformers import ModernBertConfig
    from transformers.models.modernbert.modeling_modernbert import ModernBertRotaryEmbedding

    rope = {"rope_type": "default", "rope_theta": 160000.0}
    theirs = ModernBertRotaryEmbedding(
        ModernBertConfig(
            hidden_size=32,
            num_attention_heads=4,
            num_hidden_layers=1,
            layer_types=["full_attention"],
            rope_parameters={"full_attention": rope, "sliding_attention": rope},
        )
    )
    positions = torch.arange(8192)
    expected = theirs(torch.zeros(1), positions[None], "full_attention")
    for ours, their in zip(RotaryPositions(8, 8192, 160000.0)(positions, torch.float32), expected, strict=True):
        assert torch.equal(ours[:, 0, 0], their[0, :, :4])
