"""Noise on outputs: how much, how far, of what, and that it depends on seed, id and number alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.decoding.beam import BeamSearch
from pretrain.decoding.noised import NoisedBeam, split_words
from pretrain.decoding.search import search
from tests.helpers.lively import VOCABULARY, lively_model, random_sources

BLANK = 4
TOKENS = list(range(100, 160))


@settings(max_examples=40, deadline=None)
@given(name=st.text(), swap=st.integers(0, 5), count=st.integers(1, 40))
def test_words_move_no_further_than_they_may(name, swap, count):
    options = NoisedBeam(delete=0.0, blank=0.0, swap=swap)
    moved = options.noised(TOKENS[:count], name, 0, BLANK, None)
    assert sorted(moved) == TOKENS[:count]
    assert all(abs(moved.index(token) - place) <= swap for place, token in enumerate(TOKENS[:count]))


def test_words_do_move_as_far_as_they_may():
    options = NoisedBeam(delete=0.0, blank=0.0)
    distances = {
        moved.index(token) - place
        for name in range(100)
        for moved in [options.noised(TOKENS, name, 0, BLANK, None)]
        for place, token in enumerate(TOKENS)
    }
    assert distances == set(range(-3, 4))


@pytest.mark.parametrize(("delete", "blank"), [(0.1, 0.1), (0.3, 0.0), (0.0, 0.4)])
def test_shares_of_words_left_out_and_blanked_are_those_asked_for(delete, blank):
    options = NoisedBeam(delete=delete, blank=blank, swap=0)
    noised = [options.noised(TOKENS, name, 0, BLANK, None) for name in range(300)]
    total = 300 * len(TOKENS)
    kept = sum(map(len, noised))
    assert abs(1 - kept / total - delete) < 4 * (0.25 / total) ** 0.5
    assert abs(sum(token == BLANK for row in noised for token in row) / kept - blank) < 4 * (0.25 / total) ** 0.5
    for row in noised:  # those that stay keep their order
        assert [token for token in row if token != BLANK] == sorted(token for token in row if token != BLANK)


def test_one_word_is_always_left():
    options = NoisedBeam(delete=1.0, blank=0.0)
    assert {len(options.noised(TOKENS, name, 0, BLANK, None)) for name in range(20)} == {1}
    assert options.noised([], "x", 0, BLANK, None) == []


def test_pieces_of_a_word_stay_together():
    continues = np.zeros(200, dtype=bool)
    continues[101:160:3] = continues[102:160:3] = True
    assert split_words([101, 100, 101, 103], continues) == [[101], [100, 101], [103]]
    moved = NoisedBeam(delete=0.0, blank=0.0).noised(TOKENS, "x", 0, BLANK, continues)
    words = split_words(moved, continues)
    assert sorted(words) == split_words(TOKENS, continues) != words
    blanked = NoisedBeam(delete=0.0, blank=1.0).noised(TOKENS, "x", 0, BLANK, continues)
    assert blanked == [BLANK] * len(words)


def test_noise_depends_on_seed_sentence_and_hypothesis_alone():
    first = NoisedBeam().noised(TOKENS, "x", 0, BLANK, None)
    assert NoisedBeam().noised(TOKENS, "x", 0, BLANK, None) == first
    for other in (
        NoisedBeam(seed=1).noised(TOKENS, "x", 0, BLANK, None),
        NoisedBeam().noised(TOKENS, "y", 0, BLANK, None),
        NoisedBeam().noised(TOKENS, "x", 1, BLANK, None),
    ):
        assert other != first


def test_it_is_the_noise_of_beam_searchs_outputs_with_their_scores():
    model, sources = lively_model(end=4.0), random_sources(10)
    plain, noised = (
        search(model, sources, kind(beams=3, n_best=2), [f"s{n}" for n in range(10)], VOCABULARY)
        for kind in (BeamSearch, NoisedBeam)
    )
    options = NoisedBeam(beams=3, n_best=2)
    for name, before, after in zip(range(10), plain, noised, strict=True):
        assert [one.score for one in after] == [one.score for one in before]
        assert [one.tokens for one in after] == [
            options.noised(one.tokens, f"s{name}", number, BLANK, None) for number, one in enumerate(before)
        ]
    assert [row[0].tokens for row in noised] != [row[0].tokens for row in plain]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"delete": 1.1}, "decoding.delete must be from 0 to 1"), ({"blank": -0.1}, "decoding.blank must be from 0 to 1"),
     ({"swap": -1}, "decoding.swap must be 0 or more")],
)  # fmt: skip
def test_senseless_options_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        NoisedBeam(**options)
