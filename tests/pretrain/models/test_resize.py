"""A larger vocabulary: old tokens as they were, new ones as in a new model, nothing else touched."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.data.batching import pad_sequences
from pretrain.models.encoder import padded_vocab_size
from pretrain.models.resize import EMBEDDING, OUTPUT_BIAS, resize_optimizer_state, resize_weights
from pretrain.models.weights import model_from_state
from tests.pretrain.models.conftest import CONV_FORMS, FORMS, SEQ2SEQ_FORMS, make_conv, make_model, make_seq2seq
from tests.pretrain.models.pairs import one_a_row

CONFIG = FORMS["modern"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=25, deadline=None)
@given(old=st.integers(1, 150), added=st.integers(0, 150), seed=st.integers(0, 2**20))
def test_old_rows_stay_new_ones_are_fresh_and_padding_is_zero(old, added, seed):
    model = make_model(CONFIG, vocab_size=old)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    new = old + added
    resized = resize_weights(weights, CONFIG, old, new, generator(seed))
    assert set(resized) == set(weights)
    for name, tensor in weights.items():
        assert torch.equal(tensor, model.state_dict()[name])  # the input is left as it is
        if name not in (EMBEDDING, OUTPUT_BIAS):
            assert resized[name] is tensor
    for name in (EMBEDDING, OUTPUT_BIAS):
        assert len(resized[name]) == padded_vocab_size(new)
        assert torch.equal(resized[name][:old], weights[name][:old])
        assert not resized[name][new:].any()
    fresh = resized[EMBEDDING][old:new]
    assert float(fresh.abs().max() if added else 0.0) <= 2 * CONFIG.initializer_range
    assert bool((fresh.abs().sum(1) > 0).all())
    assert not resized[OUTPUT_BIAS][old:].any()
    again = resize_weights(weights, CONFIG, old, new, generator(seed))
    assert torch.equal(resized[EMBEDDING], again[EMBEDDING])


def test_the_logits_of_old_tokens_are_what_they_were():
    model = make_model(CONFIG, vocab_size=75)
    resized = resize_weights(model.state_dict(), CONFIG, 75, 130, generator())
    larger = model_from_state(CONFIG, 130, resized, "here")
    batch = (*pad_sequences([[2, 11, 12, 3]], 0)[:3], torch.arange(4))
    with torch.no_grad():
        logits = larger(*batch)
        assert logits.shape == (4, 130)
        torch.testing.assert_close(logits[:, :75], model(*batch), atol=1e-6, rtol=1e-5)


def test_new_embeddings_have_the_published_spread():
    config = replace(CONFIG, initializer_range=0.1)
    weights = {EMBEDDING: torch.zeros(64, 32), OUTPUT_BIAS: torch.zeros(64)}
    fresh = resize_weights(weights, config, 64, 4064, generator())[EMBEDDING][64:4064]
    assert float(fresh.std()) == pytest.approx(0.1 * 0.8796, rel=0.02)  # a normal cut at two deviations


def test_resizing_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    weights = {EMBEDDING: torch.zeros(64, 32), OUTPUT_BIAS: torch.zeros(64)}
    resize_weights(weights, CONFIG, 64, 100, generator())
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_moments_of_new_tokens_are_zero_and_all_others_stay():
    state = {
        f"exp_avg/{EMBEDDING}": torch.randn(128, 32),
        f"exp_avg/{OUTPUT_BIAS}": torch.randn(128),
        f"step/{EMBEDDING}": torch.tensor(7.0, dtype=torch.float64),
        "exp_avg/encoder.layers.0.mlp.input.weight": torch.randn(128, 32),
    }
    resized = resize_optimizer_state(state, CONFIG, 75, 200)
    assert set(resized) == set(state)
    assert resized[f"exp_avg/{EMBEDDING}"].shape == (256, 32)
    assert torch.equal(resized[f"exp_avg/{EMBEDDING}"][:75], state[f"exp_avg/{EMBEDDING}"][:75])
    assert not resized[f"exp_avg/{EMBEDDING}"][75:].any()
    assert resized[f"exp_avg/{OUTPUT_BIAS}"].shape == (256,)
    assert resized[f"step/{EMBEDDING}"] == 7.0
    name = "exp_avg/encoder.layers.0.mlp.input.weight"
    assert torch.equal(resized[name], state[name])


def test_a_preconditioner_is_refused_by_name():
    state = {f"left/{EMBEDDING}": torch.zeros(128, 128)}
    with pytest.raises(InputError, match=r"'left/encoder.embeddings.token.weight' of shape \[128, 128\].*fresh opti"):
        resize_optimizer_state(state, CONFIG, 75, 200)


def test_a_smaller_vocabulary_and_a_wrong_one_are_refused():
    weights = make_model(CONFIG, vocab_size=75).state_dict()
    with pytest.raises(InputError, match="can only grow, but the new one has 70 entries and the model's has 75"):
        resize_weights(weights, CONFIG, 75, 70, generator())
    with pytest.raises(InputError, match="can only grow"):
        resize_optimizer_state({}, CONFIG, 75, 70)
    with pytest.raises(InputError, match="has 128 rows, but a vocabulary of 40 has 64 with padding"):
        resize_weights(weights, CONFIG, 40, 75, generator())
    with pytest.raises(InputError, match=r"lack 'head\.bias'"):
        resize_weights({EMBEDDING: weights[EMBEDDING]}, CONFIG, 75, 80, generator())


def test_an_encoder_decoder_grows_with_its_optimisers_state():
    model = make_seq2seq(SEQ2SEQ_FORMS["bart"])
    weights = resize_weights(model.state_dict(), model.config, 75, 130, generator())
    larger = model_from_state(model.config, 130, weights, "here")
    source, target = one_a_row([([2, 11, 12, 3], [2, 13, 14])])
    inputs = (source.tokens(), target.tokens(), target.real)
    with torch.no_grad():
        torch.testing.assert_close(larger(*inputs)[:, :75], model(*inputs), atol=1e-6, rtol=1e-5)
    state = {f"exp_avg/{name}": torch.ones_like(p) for name, p in model.named_parameters()}
    resized = resize_optimizer_state(state, model.config, 75, 130)
    assert {key: len(value) for key, value in resized.items() if len(value) != len(state[key])} == {
        f"exp_avg/{EMBEDDING}": 192,
        f"exp_avg/{OUTPUT_BIAS}": 192,
    }


@pytest.mark.parametrize("form", ["separate", "shared"])
def test_a_convolutional_model_grows_in_every_table_of_the_vocabulary(form):
    model = make_conv(CONV_FORMS[form])
    weights = resize_weights(model.state_dict(), model.config, 75, 4130, generator())
    larger = model_from_state(model.config, 4130, weights, "here")
    source, target = one_a_row([([2, 11, 12, 3], [2, 13, 14])])
    inputs = (source.tokens(), target.tokens(), target.real)
    with torch.no_grad():
        torch.testing.assert_close(larger(*inputs)[:, :75], model(*inputs), atol=1e-6, rtol=1e-5)
    tables = {EMBEDDING: 0.1}
    if form == "separate":
        tables |= {"decoder.embeddings.token.weight": 0.1, "head.direction": 12**-0.5}
        torch.testing.assert_close(weights["head.gain"][75:4130], weights["head.direction"][75:4130].norm(dim=1))
        assert not weights["head.gain"][4130:].any()
    for name, deviation in tables.items():
        assert float(weights[name][75:4130].std()) == pytest.approx(deviation, rel=0.02)
        assert not weights[name][4130:].any()
    state = {f"momentum_buffer/{name}": torch.ones_like(p) for name, p in model.named_parameters()}
    resized = resize_optimizer_state(state, model.config, 75, 4130)
    grown = {key for key, value in resized.items() if len(value) != len(state[key])}
    assert grown == {
        f"momentum_buffer/{name}" for name in (*tables, OUTPUT_BIAS, *(["head.gain"] if form == "separate" else []))
    }
