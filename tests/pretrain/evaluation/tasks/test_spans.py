"""Spans from their words and a rough start."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.evaluation.sources.rows import Row
from pretrain.evaluation.tasks.spans import find_span, word_start

ROW = Row({}, "'f', line 1", 0, "dev")


@given(st.lists(st.sampled_from(["ab", "b", "abb", "c."]), min_size=1), st.data())
def test_a_span_of_whole_words_is_found_at_its_word(words, data):
    index = data.draw(st.integers(0, len(words) - 1))
    text = " ".join(words)
    start = word_start(text, index, ROW)
    assert start == len(" ".join([*words[:index], ""]))
    assert find_span(text, words[index], start, ROW) == (start, start + len(words[index]))


def test_the_nearest_whole_word_wins_over_a_part_of_a_nearer_one():
    text = "The theme: he ran to the hen, he did."
    assert find_span(text, "he", 5, ROW) == (11, 13)
    assert find_span(text, "he", 26, ROW) == (30, 32)
    assert find_span("atheist", "he", 0, ROW) == (2, 4)  # no whole word at all
    assert find_span("a a", "a", 1, ROW) == (0, 1)  # equally near: the earlier


def test_a_span_that_is_not_there_is_refused():
    for span in ("x", "", " "):
        with pytest.raises(InputError, match=r"'f', line 1, has the span .* which its text does not hold"):
            find_span("abc", span, 0, ROW)
