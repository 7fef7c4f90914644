"""Samples have the model's distribution, cut as the options say, and depend on seed and id alone."""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from conf.errors import InputError
from pretrain.decoding.sampling import Sampling, draw
from pretrain.decoding.search import search
from tests.helpers.lively import VOCABULARY, lively_model, random_sources
from tests.pretrain.models.pairs import one_a_row

V = 12
SOURCE = [2, 7, 9, 5, 3]
SHORT = {"maximum_length": 1, "maximum_ratio": 0.0}


@pytest.fixture(scope="module")
def model():
    return lively_model(vocab_size=V, seed=5, end=1.0)


def probabilities(model, target):
    source, side = one_a_row([(SOURCE, target)])
    with torch.no_grad():
        return model(source.tokens(), side.tokens(), side.real[-1:])[0].double().softmax(0).numpy()


def counts(model, options, number=4000):
    """How often each token comes first in `number` samples of one source, each by an id of its own."""
    found = search(model, [SOURCE] * number, options, range(number), VOCABULARY, batch_tokens=10**6)
    first = [one.tokens[0] if one.tokens else 3 for hypotheses in found for one in hypotheses]
    return np.bincount(first, minlength=V)


def fits(observed, expected):
    """Whether the counts are by these probabilities, of which some may be 0: chi-square, p above 1 in 1,000."""
    expected = expected / expected.sum()
    assert observed[expected == 0].sum() == 0
    kept = expected > 0
    return stats.chisquare(observed[kept], expected[kept] * observed.sum()).pvalue > 1e-3


def test_ancestral_samples_have_the_models_distribution(model):
    expected = probabilities(model, [2])
    observed = counts(model, Sampling(seed=1, **SHORT))
    assert fits(observed, expected)
    assert not fits(observed, expected**1.15 / (expected**1.15).sum())  # the test would see a small error


def test_temperature_sharpens_the_distribution(model):
    assert fits(counts(model, Sampling(seed=2, temperature=0.7, **SHORT)), probabilities(model, [2]) ** (1 / 0.7))


def test_top_k_takes_the_likeliest_and_no_other(model):
    expected = probabilities(model, [2])
    expected[np.argsort(expected)[:-3]] = 0
    assert fits(counts(model, Sampling(seed=3, top_k=3, **SHORT)), expected)


def test_a_nucleus_is_the_fewest_tokens_that_reach_the_probability(model):
    expected = probabilities(model, [2])
    order = np.argsort(-expected)
    total, size = 0.0, 0
    while total < 0.8:
        total += expected[order[size]]
        size += 1
    assert 1 < size < V
    expected[order[size:]] = 0
    assert fits(counts(model, Sampling(seed=4, top_p=0.8, **SHORT)), expected)


def test_what_is_forbidden_leaves_its_share_to_the_others(model):
    expected = probabilities(model, [2])
    expected[[0, 4]] = 0
    assert fits(counts(model, Sampling(seed=5, forbid=["pad", "mask"], **SHORT)), expected)


def test_the_second_token_is_drawn_given_the_first(model):
    found = search(
        model, [SOURCE] * 6000, Sampling(seed=6, maximum_length=2, maximum_ratio=0.0), range(6000), VOCABULARY,
        batch_tokens=10**6,
    )  # fmt: skip
    tokens = [(*hypotheses[0].tokens, 3)[:2] for hypotheses in found if hypotheses[0].tokens]
    first = np.bincount([one[0] for one in tokens]).argmax()
    after = np.bincount([one[1] for one in tokens if one[0] == first], minlength=V)
    assert fits(after, probabilities(model, [2, int(first)]))


def test_samples_of_one_sentence_are_independent_draws(model):
    options = Sampling(seed=7, samples=4, **SHORT)
    found = search(model, [SOURCE] * 1500, options, range(1500), VOCABULARY, batch_tokens=10**6)
    assert fits(
        np.bincount([one.tokens[0] if one.tokens else 3 for row in found for one in row], minlength=V),
        probabilities(model, [2]),
    )
    assert all(a.score >= b.score for row in found for a, b in itertools.pairwise(row))


def test_a_sample_depends_on_seed_and_id_and_not_on_the_batch():
    model, sources = lively_model(), random_sources(16)
    ids = [f"corpus:{number}" for number in range(16)]
    options = Sampling(seed=3, samples=2, maximum_length=12, maximum_ratio=0.0)
    together = search(model, sources, options, ids, VOCABULARY, batch_tokens=10**6)
    order = list(range(16))
    random.Random(0).shuffle(order)
    for batch_tokens in (1, 300):
        apart = search(
            model, [sources[n] for n in order], options, [ids[n] for n in order], VOCABULARY, batch_tokens=batch_tokens
        )
        assert [[one.tokens for one in row] for row in apart] == [[one.tokens for one in together[n]] for n in order]
    for other in (
        search(model, sources, replace(options, seed=4), ids, VOCABULARY),
        search(model, sources, options, [f"{name}0" for name in ids], VOCABULARY),
    ):
        same = sum(a[0].tokens == b[0].tokens for a, b in zip(other, together, strict=True))
        assert same < 5


def test_the_score_is_by_the_models_own_probabilities(model):
    options = Sampling(seed=1, temperature=0.5, top_k=3, maximum_length=1, maximum_ratio=0.0, length_penalty=2.0)
    ((one,),) = search(model, [SOURCE], options, [0], VOCABULARY)
    token = one.tokens[0] if one.tokens else 3
    assert one.score == pytest.approx(np.log(probabilities(model, [2])[token]), abs=1e-4)


def test_a_draw_never_falls_on_what_is_impossible():
    weights = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0], dtype=torch.float64)
    edges = torch.tensor([0.0, 0.3 - 1e-12, 0.3, 1.0 - 2**-53], dtype=torch.float64)
    assert draw(weights.expand(4, 5), edges).tolist() == [1, 1, 3, 3]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"samples": 0}, "decoding.samples must be at least 1, but is 0"),
        ({"top_k": 0}, "decoding.top_k must be at least 1, but is 0"),
        ({"top_p": 0.0}, "decoding.top_p must be above 0 and at most 1, but is 0.0"),
        ({"temperature": 0.0}, "must be above 0, but is 0.0; decoding=greedy takes the likeliest"),
    ],
)
def test_senseless_options_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        Sampling(**options)
