"""A token at a time: the same logits as decoding the whole, whatever a search keeps and reorders."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from tests.pretrain.models.conftest import CONV, CONV_FORMS, make_conv
from tests.pretrain.models.pairs import one_a_row

MODELS = {name: make_conv(config) for name, config in CONV_FORMS.items()}
SOURCES = [[2, 11, 12, 13, 14, 15, 3], [2, 31, 3], [5], [2, 51, 52, 3]]


def start(model, sources, pad_id=0):
    longest = max(map(len, sources)) + 2  # more padding than any sentence needs
    ids = torch.tensor([[*source, *[pad_id] * (longest - len(source))] for source in sources])
    lengths = torch.tensor([len(source) for source in sources])
    languages = {"source_language": 1, "target_language": 0} if model.config.languages else {}
    return model.incremental_decoder(ids, lengths, **languages)


def whole(model, source, target):
    """Logits of the last token of a target, by the packed model."""
    languages = (1, 0) if model.config.languages else (None, None)
    sides = [side.tokens(number) for side, number in zip(one_a_row([(source, target)]), languages, strict=True)]
    return model(*sides, torch.tensor([len(target) - 1]))[0]


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_step_of_any_search_gives_the_logits_of_the_whole(data):
    model = MODELS[data.draw(st.sampled_from(sorted(MODELS)))]
    sources = data.draw(st.lists(st.sampled_from(SOURCES), min_size=1, max_size=3))
    decoder = start(model, sources, pad_id=data.draw(st.integers(0, 74)))
    targets = [[[]] for _ in sources]
    for _ in range(data.draw(st.integers(1, 7))):
        width = len(targets[0])
        tokens = [[data.draw(st.integers(2, 74)) for _ in range(width)] for _ in sources]
        targets = [
            [[*old, token] for old, token in zip(of_one, new, strict=True)]
            for of_one, new in zip(targets, tokens, strict=True)
        ]
        logits = decoder.step(torch.tensor(tokens))
        assert logits.shape == (len(sources), width, 75) and logits.dtype == torch.float32
        for sentence, source in enumerate(sources):
            for hypothesis, target in enumerate(targets[sentence]):
                wanted = whole(model, source, target)
                torch.testing.assert_close(logits[sentence, hypothesis], wanted, atol=2e-5, rtol=1e-4)
        kept = data.draw(st.lists(st.integers(0, len(sources) - 1), min_size=1, max_size=len(sources), unique=True))
        beams = data.draw(st.integers(1, 3))
        chosen = [[data.draw(st.integers(0, width - 1)) for _ in range(beams)] for _ in kept]
        decoder.select(torch.tensor(kept), torch.tensor(chosen))
        targets = [[targets[old][which] for which in row] for old, row in zip(kept, chosen, strict=True)]
        sources = [sources[old] for old in kept]


def test_what_is_kept_of_a_hypothesis_is_k_minus_1_states_a_layer_and_of_the_source_nothing():
    model = MODELS["separate"]
    decoder = start(model, SOURCES)
    for _ in range(5):
        decoder.step(torch.full((4, 1), 7))
    decoder.select(torch.arange(4), torch.zeros(4, 5, dtype=torch.long))
    kernels_and_inputs = [(3, 16), (1, 16), (4, 8)]  # each layer's own kernel, and the width below it
    assert [tuple(b.shape) for b in decoder._buffers] == [(4, 5, (k - 1) * size) for k, size in kernels_and_inputs]
    assert len(decoder._source) == 4


def test_weights_are_taken_as_they_are_and_the_model_is_left_as_it_was():
    model = make_conv(replace(CONV, dropout=0.5)).train()
    quiet = make_conv(replace(CONV, dropout=0.5))
    decoder = start(model, SOURCES)
    assert model.training and model.encoder.layers[0].training
    logits = decoder.step(torch.full((4, 1), 9))
    assert not logits.requires_grad
    torch.testing.assert_close(logits[0, 0], whole(quiet, SOURCES[0], [9]), atol=2e-5, rtol=1e-4)


def test_in_bf16_it_stays_near_the_exact_logits():
    exact = start(MODELS["separate"], SOURCES)
    with torch.autocast("cpu", torch.bfloat16):
        rough = start(MODELS["separate"], SOURCES)
        for token in (2, 30, 40):
            logits = rough.step(torch.full((4, 1), token))
            wanted = exact.step(torch.full((4, 1), token))
            assert 0 < (logits - wanted).abs().max() < 0.05 * wanted.abs().max()


def test_what_it_cannot_decode_is_said():
    model = make_conv(replace(CONV, max_positions=3))
    with pytest.raises(InputError, match=r"up to 4 tokens, but model\.max_positions is 3"):
        start(model, [[2, 5, 6, 3]])
    with pytest.raises(InputError, match="needs at least one token, but one has none"):
        model.incremental_decoder(torch.zeros(1, 2, dtype=torch.long), torch.tensor([0]))
    with pytest.raises(InputError, match="source_language must be left away, as the model has no language"):
        model.incremental_decoder(torch.ones(1, 2, dtype=torch.long), torch.tensor([2]), source_language=0)
    with pytest.raises(InputError, match="target_language must be a number below 3"):
        MODELS["languages"].incremental_decoder(
            torch.ones(1, 2, dtype=torch.long), torch.tensor([2]), source_language=0, target_language=3
        )
    decoder = start(model, [[2, 3]])
    for _ in range(3):
        decoder.step(torch.full((1, 1), 5))
    with pytest.raises(InputError, match=r"a hypothesis has 4 tokens, but model\.max_positions is 3"):
        decoder.step(torch.full((1, 1), 5))
