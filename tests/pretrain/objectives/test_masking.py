"""Which tokens are chosen, by token, word and span, and what replaces them."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.objectives.masking import (
    Choice,
    choose_spans,
    choose_tokens,
    choose_words,
    number_of_targets,
    replace_tokens,
    span_lengths,
)

MASK = 4


def row_keys(count, name="test"):
    return hash_coordinates(derive_key(name), np.arange(count))


@st.composite
def rows(draw, length=24):
    """Rows of pieces [CLS] ... [SEP] with words and holes, and padding: maskable, word_start, segments [R, L]."""
    count = draw(st.integers(1, 5))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    maskable, starts = generator.random((2, count, length)) < draw(st.floats(0.1, 1.0))
    starts[generator.random((count, length)) < draw(st.floats(0.0, 1.0))] = False
    segments = np.zeros((count, length), dtype=np.int32)
    for row in range(count):
        place, number = 0, 1
        while place + 3 <= length and generator.random() < 0.8:
            end = min(length, place + int(generator.integers(3, 14)))
            segments[row, place:end] = number
            for special in (place, end - 1):
                maskable[row, special], starts[row, special] = False, True
            place, number = end, number + 1
        maskable[row, place:] = starts[row, place:] = False
    return maskable, starts, segments


def words_of(maskable, starts):
    """The maskable places of each word of a row, one word after another."""
    words = np.split(np.arange(len(starts)), np.flatnonzero(starts)[np.flatnonzero(starts) > 0])
    return [word[maskable[word]].tolist() for word in words if maskable[word].any()]


def greedy_words(maskable, starts, key, probability):
    """The rule of whole word masking, word by word."""
    left = round(probability * int(maskable.sum()))
    by_draw = {}
    for word in words_of(maskable, starts):
        first = max(np.flatnonzero(starts[: word[0] + 1]), default=0)
        by_draw[int(hash_coordinates(key, np.array([0]), np.array([first]))[0])] = word
    chosen = np.zeros(len(maskable), dtype=bool)
    for _, word in sorted(by_draw.items()):
        if len(word) <= left:
            chosen[word] = True
            left -= len(word)
    return chosen


def test_the_number_of_targets_is_rounded_half_to_even():
    counts = number_of_targets(np.array([0, 3, 10, 126, 30]), 0.15)
    assert counts.tolist() == [0, 0, 2, 19, round(0.15 * 30)]


@given(
    st.integers(0, 2**32),
    st.floats(0, 1),
    st.lists(st.lists(st.booleans(), min_size=12, max_size=12), min_size=1, max_size=6),
)
@settings(max_examples=100, deadline=None)
def test_exactly_the_wanted_number_of_maskable_places_is_chosen(seed, probability, maskable):
    maskable = np.array(maskable)
    chosen = choose_tokens(maskable, row_keys(len(maskable), str(seed)), probability).chosen
    assert not (chosen & ~maskable).any()
    assert np.array_equal(chosen.sum(axis=1), number_of_targets(maskable.sum(axis=1), probability))


@pytest.mark.parametrize("unit", ["token", "word"])
def test_every_place_is_as_likely_to_be_chosen(unit):
    everything = np.ones((20_000, 20), dtype=bool)
    arguments = (everything,) if unit == "token" else (everything, everything)
    chosen = (choose_tokens if unit == "token" else choose_words)(*arguments, row_keys(20_000), 0.15).chosen
    assert scipy.stats.chisquare(chosen.sum(axis=0)).pvalue > 0.001
    pairs = chosen.astype(int).T @ chosen.astype(int)
    off_diagonal = pairs[np.triu_indices(20, k=1)]
    assert scipy.stats.chisquare(off_diagonal).pvalue > 0.001


@given(rows(), st.floats(0, 1), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_words_are_chosen_as_the_rule_says_word_by_word(made, probability, seed):
    maskable, starts, _ = made
    keys = row_keys(len(maskable), str(seed))
    chosen = choose_words(maskable, starts, keys, probability).chosen
    for row in range(len(maskable)):
        expected = greedy_words(maskable[row], starts[row], keys[row : row + 1], probability)
        assert np.array_equal(chosen[row], expected)


@given(rows(), st.floats(0, 1), st.integers(0, 2**32), st.sampled_from(["word", "span"]))
@settings(max_examples=200, deadline=None)
def test_whole_words_are_chosen_and_none_that_would_fit_is_left(made, probability, seed, unit):
    maskable, starts, segments = made
    keys = row_keys(len(maskable), str(seed))
    before = [array.copy() for array in made]
    if unit == "word":
        choice = choose_words(maskable, starts, keys, probability)
    else:
        choice = choose_spans(maskable, starts, segments, keys, probability)
    assert all(np.array_equal(a, b) for a, b in zip(before, made, strict=True))
    wanted = number_of_targets(maskable.sum(axis=1), probability)
    for row in range(len(maskable)):
        left = wanted[row] - choice.chosen[row].sum()
        assert left >= 0 and not (choice.chosen[row] & ~maskable[row]).any()
        for word in words_of(maskable[row], starts[row]):
            taken = choice.chosen[row][word]
            assert taken.all() or (not taken.any() and len(word) > left)


@given(rows(), st.floats(0, 1), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_a_span_is_contiguous_but_for_what_others_hold_and_stays_in_its_piece(made, probability, seed):
    maskable, starts, segments = made
    keys = row_keys(len(maskable), str(seed))
    choice = choose_spans(maskable, starts, segments, keys, probability)
    for row in range(len(maskable)):
        anchors = choice.draw_at[row][choice.chosen[row]]
        for anchor in np.unique(anchors):
            places = np.flatnonzero(choice.chosen[row] & (choice.draw_at[row] == anchor))
            assert places[0] >= anchor and len(set(segments[row, places])) == 1
            words = [w for w in words_of(maskable[row], starts[row]) if anchor <= w[0] <= places[-1]]
            assert len(words) <= 10


def test_spans_of_single_token_words_have_the_lengths_that_were_drawn():
    """One span a row: few enough targets that a second one is not begun."""
    count, length = 4000, 400
    everything = np.ones((count, length), dtype=bool)
    keys = row_keys(count)
    choice = choose_spans(everything, everything, np.ones((count, length), dtype=np.int32), keys, 10 / length)
    assert (choice.chosen.sum(axis=1) == 10).all()
    first = [int(np.bincount(row[chosen]).max()) for row, chosen in zip(choice.draw_at, choice.chosen, strict=True)]
    assert max(first) == 10 and min(first) < 10
    drawn = span_lengths(hash_coordinates(keys[:, None], np.array([3]), np.arange(length)[None, :]))
    for row in range(200):
        for anchor, taken in zip(*np.unique(choice.draw_at[row][choice.chosen[row]], return_counts=True), strict=True):
            assert taken <= drawn[row, anchor]


def test_span_lengths_are_spanberts():
    """Joshi et al. (2020), section 3.1: geometric with p = 0.2, at most 10, which gives a mean span length of 3.8."""
    lengths = span_lengths(hash_coordinates(derive_key("spans"), np.arange(200_000)))
    weights = 0.2 * 0.8 ** np.arange(10)
    observed = np.bincount(lengths, minlength=11)[1:]
    assert scipy.stats.chisquare(observed, weights / weights.sum() * len(lengths)).pvalue > 0.001
    assert lengths.mean() == pytest.approx(3.8, abs=0.02)


def mixed(choice, keys, ids, random_ids=None):
    return replace_tokens(
        ids,
        choice,
        keys,
        mask_share=0.8,
        random_share=0.1,
        mask_id=MASK,
        random_ids=np.arange(5, 60) if random_ids is None else random_ids,
    )


def test_the_mix_of_replacements_and_the_random_ids_follow_their_distributions():
    ids, keys = np.full((4000, 40), 7), row_keys(4000)
    choice = choose_tokens(np.ones_like(ids, dtype=bool), keys, 0.5)
    inputs = mixed(choice, keys, ids)
    changed = inputs[choice.chosen]
    total = len(changed)
    became_mask, kept = (changed == MASK).sum(), (changed == 7).sum()
    # A random id may be the token itself, one time in 55.
    shares = np.array([0.8, 0.1 + 0.1 / 55, 0.1 * 54 / 55])
    observed = np.array([became_mask, kept, total - became_mask - kept])
    assert scipy.stats.chisquare(observed, shares * total).pvalue > 0.001
    random_ids = changed[(changed != MASK) & (changed != 7)]
    assert random_ids.min() >= 5
    assert scipy.stats.chisquare(np.bincount(random_ids, minlength=60)[np.setdiff1d(range(5, 60), [7])]).pvalue > 0.001
    assert (inputs[~choice.chosen] == 7).all() and (ids == 7).all()


def test_a_span_is_replaced_as_a_whole():
    count, length = 500, 60
    everything, ids, keys = np.ones((count, length), dtype=bool), np.full((count, length), 7), row_keys(500)
    choice = choose_spans(everything, everything, everything.astype(np.int32), keys, 0.3)
    inputs = mixed(choice, keys, ids)
    fates = np.where(inputs == MASK, 0, np.where(inputs == 7, 1, 2))
    rows, places = np.nonzero(choice.chosen)
    spans = {}
    for row, place in zip(rows, places, strict=True):
        spans.setdefault((row, choice.draw_at[row, place]), set()).add(fates[row, place])
    # A random token may be the token itself, so "random" and "kept" cannot always be told apart.
    assert all(fate == {0} or 0 not in fate for fate in spans.values())
    masked = sum(fate == {0} for fate in spans.values())
    assert scipy.stats.binomtest(masked, len(spans), 0.8).pvalue > 0.001


@pytest.mark.parametrize("length", [3, 24])
def test_a_row_without_anything_to_choose_is_left_alone(length):
    nothing = np.zeros((2, length), dtype=bool)
    segments = np.zeros((2, length), dtype=np.int32)
    for choice in (
        choose_tokens(nothing, row_keys(2), 0.5),
        choose_words(nothing, nothing, row_keys(2), 0.5),
        choose_spans(nothing, nothing, segments, row_keys(2), 0.5),
    ):
        assert isinstance(choice, Choice) and not choice.chosen.any()
