"""One token at a time gives what the whole decoder gives, however hypotheses and sentences are chosen on the way."""

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.decoding.incremental import DecodesIncrementally
from pretrain.models.seq2seq import Seq2SeqModel
from tests.helpers.lively import CONFIG, lively_model, random_sources
from tests.pretrain.models.conftest import make_seq2seq
from tests.pretrain.models.pairs import one_a_row

FORMS = {
    "post": {},
    "pre": {"norm": "pre"},
    "sinusoidal": {"positions": "sinusoidal", "scale_embeddings": True},
    "languages": {"languages": ("en", "de")},
    "gated, without biases": {"activation": "geglu", "biases": False, "norm": "pre"},
    "one head": {"num_heads": 1, "num_decoder_layers": 3},
}


@pytest.fixture(scope="module", params=FORMS)
def model(request) -> Seq2SeqModel:
    return make_seq2seq(replace(CONFIG, **FORMS[request.param]))


def whole(model, source, target):
    """Logits of the whole decoder at the last token of `target`."""
    source, target = one_a_row([(source, target)])
    languages = (1, 0) if model.config.languages else (None, None)
    with torch.no_grad():
        return model(source.tokens(languages[0]), target.tokens(languages[1]), target.real[-1:])[0]


def begin(model, sources):
    lengths = torch.tensor([len(source) for source in sources])
    padded = torch.full((len(sources), int(lengths.max()) + 1), 7)
    for row, source in zip(padded, sources, strict=True):
        row[: len(source)] = torch.tensor(source)
    languages = {"source_language": 1, "target_language": 0} if model.config.languages else {}
    return model.incremental_decoder(padded, lengths, **languages)


def grown(targets, tokens):
    """`targets` [N][K] lists, each with the one of `tokens` [N][K] behind it."""
    return [[[*one, token] for one, token in zip(*row, strict=True)] for row in zip(targets, tokens, strict=True)]


def check(model, decoder, sources, targets, tokens):
    """One step, compared with the whole decoder; `targets` [N][K] grow by `tokens` [N][K]."""
    targets = grown(targets, tokens)
    logits = decoder.step(torch.tensor(tokens))
    assert logits.dtype == torch.float32
    expected = [[whole(model, source, one) for one in row] for source, row in zip(sources, targets, strict=True)]
    torch.testing.assert_close(logits, torch.stack([torch.stack(row) for row in expected]), atol=1e-5, rtol=1e-5)
    return targets


def test_a_seq2seq_model_decodes_incrementally(model):
    assert isinstance(model, DecodesIncrementally)


def test_steps_give_the_whole_decoders_logits_over_many_places(model):
    sources = random_sources(3, 9)
    decoder, targets = begin(model, sources), [[[]], [[]], [[]]]
    for step in range(34):  # beyond the room that is made at first, twice
        tokens = [[5 + step], [40 - step], [7]]
        if step % 16 in (0, 1):
            targets = check(model, decoder, sources, targets, tokens)
        else:
            decoder.step(torch.tensor(tokens))
            targets = grown(targets, tokens)


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_hypotheses_and_sentences_may_be_chosen_in_any_way(model, seed):
    chance = random.Random(seed)
    sources = random_sources(chance.randint(1, 4), 6, seed=seed)
    decoder, targets = begin(model, sources), [[[]] for _ in sources]
    for _ in range(chance.randint(2, 20)):
        width = len(targets[0])
        tokens = [[chance.randrange(75) for _ in range(width)] for _ in sources]
        if chance.random() < 0.2:
            targets = check(model, decoder, sources, targets, tokens)
        else:
            decoder.step(torch.tensor(tokens))
            targets = grown(targets, tokens)
        if chance.random() < 0.8:
            kept = chance.sample(range(len(sources)), chance.randint(1, len(sources)))
            if chance.random() < 0.5:
                kept = list(range(len(sources)))
            wide = chance.choice([width, width, 1, 2, 4])
            chosen = [[chance.randrange(width) for _ in range(wide)] for _ in kept]
            decoder.select(torch.tensor(kept), torch.tensor(chosen))
            sources = [sources[index] for index in kept]
            targets = [[targets[index][j] for j in row] for index, row in zip(kept, chosen, strict=True)]
    check(model, decoder, sources, targets, [[5] * len(targets[0]) for _ in sources])


def test_what_is_kept_of_a_source_does_not_grow_with_its_hypotheses(model):
    decoder = begin(model, random_sources(2, 9))
    before = decoder._source.untyped_storage().nbytes()
    decoder.step(torch.tensor([[2], [2]]))
    decoder.select(torch.arange(2), torch.zeros(2, 8, dtype=torch.long))
    decoder.step(torch.full((2, 8), 5))
    assert decoder._source.untyped_storage().nbytes() == before


def test_choosing_beams_moves_no_key_and_no_value(model):
    decoder = begin(model, random_sources(2, 9))
    decoder.step(torch.tensor([[2], [2]]))
    decoder.select(torch.arange(2), torch.zeros(2, 3, dtype=torch.long))
    decoder.step(torch.full((2, 3), 5))
    cache = decoder._cache
    before = cache.clone()
    decoder.select(torch.arange(2), torch.tensor([[2, 2, 0], [1, 0, 0]]))
    assert decoder._cache is cache and torch.equal(cache, before)


def test_half_precision_weights_give_fp32_logits_near_the_exact_ones():
    exact = lively_model()
    half = Seq2SeqModel(exact.config, 75).eval()
    half.load_state_dict(exact.state_dict())
    half.to(torch.bfloat16)
    sources = random_sources(4, 9)
    found = []
    for model in (exact, half):
        decoder = begin(model, sources)
        decoder.step(torch.full((4, 1), 2))
        found.append(decoder.step(torch.full((4, 1), 9)))
    assert found[1].dtype == torch.float32
    assert 0 < (found[0] - found[1]).abs().mean() < 0.05 * found[0].std()


def test_a_model_says_what_it_lacks():
    model = lively_model(max_positions=4)
    decoder = begin(model, [[2, 9, 3]])
    for _ in range(4):
        decoder.step(torch.tensor([[5]]))
    with pytest.raises(InputError, match="more than its 4 positions"):
        decoder.step(torch.tensor([[5]]))
    with pytest.raises(InputError, match=r"up to 5 tokens, but model\.max_positions is 4"):
        begin(model, [[2, 9, 9, 9, 3]])
    with pytest.raises(InputError, match="no target language was given"):
        lively_model(languages=("en", "de")).incremental_decoder(
            torch.tensor([[2, 3]]), torch.tensor([2]), source_language=0
        )
    with pytest.raises(ValueError, match="lengths must be from 1 to 2, but are from 0 to 2"):
        model.incremental_decoder(torch.tensor([[2, 3], [2, 3]]), torch.tensor([0, 2]))


def test_dropout_plays_no_part_in_decoding():
    model = lively_model(dropout=0.5, attention_dropout=0.5)
    first, second = (begin(model, [[2, 9, 3]]).step(torch.tensor([[2]])) for _ in range(2))
    assert torch.equal(first, second)
    plain = lively_model(**vars(replace(model.config, dropout=0.0, attention_dropout=0.0)))
    torch.testing.assert_close(begin(plain, [[2, 9, 3]]).step(torch.tensor([[2]])), first, atol=1e-6, rtol=1e-5)
