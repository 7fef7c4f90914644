"""Beam search against a search of everything, and what its options change."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.decoding.beam import BeamSearch
from pretrain.decoding.best import largest
from pretrain.decoding.search import search
from pretrain.decoding.walk import Greedy
from tests.helpers.lively import VOCABULARY, lively_model, random_sources
from tests.pretrain.models.pairs import one_a_row

LENGTH = 4


def everything(model, source, vocab_size):
    """Every output of at most LENGTH tokens with [SEP], or of LENGTH tokens without -> its log probability."""
    ordinary = [token for token in range(vocab_size) if token != 3]
    outputs = [[*start, 3] for size in range(LENGTH) for start in itertools.product(ordinary, repeat=size)]
    outputs += [list(start) for start in itertools.product(ordinary, repeat=LENGTH)]
    side, target = one_a_row([(source, [2, *output[:-1]]) for output in outputs])
    with torch.no_grad():
        found = model(side.tokens(), target.tokens(), target.real).log_softmax(1)
    totals, start = {}, 0
    for output in outputs:
        rows = found[start : start + len(output)]
        totals[tuple(output)] = float(rows.gather(1, torch.tensor(output)[:, None]).sum())
        start += len(output)
    return totals


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.0])
def test_a_beam_as_wide_as_all_there_is_finds_the_best_of_everything(alpha):
    model = lively_model(vocab_size=6, seed=3, end=0.5)
    sources = random_sources(3, 4, vocab_size=6)
    options = BeamSearch(
        beams=6**LENGTH, n_best=5, length_penalty=alpha, early_stopping="maximum_length",
        maximum_length=LENGTH, maximum_ratio=0.0,
    )  # fmt: skip
    found = search(model, sources, options, range(3), VOCABULARY)
    for source, hypotheses in zip(sources, found, strict=True):
        totals = everything(model, source, 6)
        assert math.isclose(sum(map(math.exp, totals.values())), 1.0, rel_tol=1e-4)
        scores = sorted(((total / len(output) ** alpha, output) for output, total in totals.items()), reverse=True)
        ours = [(*one.tokens, 3) if one.ended else tuple(one.tokens) for one in hypotheses]
        assert ours == [output for _, output in scores[:5]]
        assert [one.score for one in hypotheses] == pytest.approx([score for score, _ in scores[:5]], abs=1e-4)


def test_one_beam_is_greedy_search():
    model, sources = lively_model(), random_sources(30)
    limits = {"maximum_length": 12, "maximum_ratio": 0.0}
    beam = search(model, sources, BeamSearch(beams=1, early_stopping="full", **limits), range(30), VOCABULARY)
    greedy = search(model, sources, Greedy(**limits), range(30), VOCABULARY)
    assert [one[0].tokens for one in beam] == [one[0].tokens for one in greedy]
    assert [one[0].score for one in beam] == pytest.approx([one[0].score for one in greedy], abs=1e-4)


def test_hypotheses_come_best_first_and_distinct_and_are_as_many_as_asked_for():
    found = search(lively_model(end=4.0), random_sources(20), BeamSearch(beams=4, n_best=3), range(20), VOCABULARY)
    for hypotheses in found:
        assert len(hypotheses) == 3 == len({(tuple(one.tokens), one.ended) for one in hypotheses})
        assert [one.score for one in hypotheses] == sorted((one.score for one in hypotheses), reverse=True)


def test_nothing_follows_the_end():
    found = search(lively_model(end=4.0), random_sources(20), BeamSearch(beams=4, n_best=4), range(20), VOCABULARY)
    assert all(3 not in one.tokens for hypotheses in found for one in hypotheses)


BASE = {"beams": 3, "n_best": 2, "maximum_length": 14, "maximum_ratio": 0.0}


@pytest.mark.parametrize(
    "change",
    [
        {"beams": 6},
        {"n_best": 1},
        {"length_penalty": 0.0},
        {"early_stopping": "full"},
        {"early_stopping": "maximum_length", "length_penalty": 2.0},
        {"prefix": ["unk"]},
        {"forbid": ["mask", "unk", "cls", "pad"]},
        {"minimum_length": 7},
        {"minimum_ratio": 0.5},
        {"maximum_length": 6},
        {"maximum_ratio": 1.0},
    ],
    ids=str,
)
def test_every_option_changes_something(change):
    model, sources = lively_model(end=5.0), random_sources(30)
    base = BASE | {name: value for name, value in change.items() if name == "length_penalty" and len(change) > 1}
    before, after = (
        search(model, sources, BeamSearch(**options), range(30), VOCABULARY) for options in (base, base | change)
    )
    assert before != after


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 900), count=st.integers(1, 12), seed=st.integers(0, 999))
def test_the_largest_are_found_by_blocks_as_by_topk(size, count, seed):
    rows = torch.randn(3, size, generator=torch.Generator().manual_seed(seed))
    rows[:, ::3] = -torch.inf if seed % 2 else 0.0
    count = min(count, size)
    values, places = largest(rows, count)
    assert torch.equal(values, rows.topk(count, dim=1).values)
    assert torch.equal(rows.gather(1, places), values)
    assert all(len(set(row)) == count for row in places.tolist())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"beams": 0}, "decoding.beams must be at least 1, but is 0"),
        ({"beams": 2, "n_best": 3}, "decoding.n_best must be from 1 to decoding.beams=2, but is 3"),
        ({"early_stopping": "soon"}, "must be full, current_length or maximum_length, but is 'soon'"),
        ({"minimum_ratio": -1.0}, "decoding.minimum_ratio must be 0 or more, but is -1.0"),
        ({"maximum_length": 0, "maximum_ratio": 0.0}, "must leave room for a token, but both are 0"),
    ],
)
def test_senseless_options_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        BeamSearch(**options)
