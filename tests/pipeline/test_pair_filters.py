import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.pair_filters import LONGEST_REPEATED, TokenRules, comparable, is_copy, repeats


def slow_repeats(ids: list[int]) -> int:
    """By definition: the longest n for which some run of up to LONGEST_REPEATED tokens stands n times in a row."""
    most = min(1, len(ids))
    for begin in range(len(ids)):
        for width in range(1, LONGEST_REPEATED + 1):
            run = ids[begin : begin + width]
            count = 0
            while len(run) == width and ids[begin + count * width : begin + (count + 1) * width] == run:
                count += 1
            most = max(most, count)
    return most


@given(st.lists(st.integers(0, 2), max_size=20))
def test_repeats_are_those_of_the_definition(ids):
    assert repeats(np.array(ids, dtype=np.int64)) == slow_repeats(ids)


def tokens(*sizes: int):
    return [np.arange(size) for size in sizes]


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (4, 6, None),
        (6, 4, None),
        (4, 7, "ratio"),
        (7, 4, "ratio"),
        (10, 10, None),
        (11, 10, "too_long"),
        (10, 11, "too_long"),
        (2, 2, "too_short"),
        (3, 2, "too_short"),
        (3, 3, None),
        (0, 5, "no_tokens"),
    ],
)
def test_each_bound_is_met_exactly(source, target, reason):
    assert TokenRules(minimum=3, maximum=12).reason(*tokens(source, target)) == reason


def test_the_tag_counts_towards_the_length_and_bounds_can_be_left_out():
    rules = TokenRules(maximum=12)
    assert rules.reason(*tokens(10, 10), (3, 2)) == "too_long" and rules.reason(*tokens(9, 10), (3, 2)) is None
    assert TokenRules(ratio=None).reason(*tokens(1, 99)) is None


def test_a_source_may_repeat_as_often_as_its_target():
    rules = TokenRules(repeats=4, ratio=None)
    plain = np.arange(9)
    assert rules.reason(np.array([7] * 4), plain) is None
    assert rules.reason(np.array([7] * 5), plain) == "repetition"
    assert rules.reason(np.array([7, 8] * 5), plain) == "repetition"
    assert rules.reason(np.array([7] * 5), np.array([9] * 5)) is None
    assert TokenRules(ratio=None).reason(np.array([7] * 50), plain) is None


def test_copies_differ_at_most_in_case_white_space_and_form():
    assert is_copy("Straße  No. ½", "STRASSE no. 1⁄2 ")
    assert not is_copy("Haus", "house")


@settings(max_examples=20)
@given(st.text())
def test_comparing_twice_changes_nothing_more_for_what_is_spelt_alike(text):
    assert comparable(f" {text}\t") == comparable(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minimum": 0}, r"job\.min_length' must be at least 1"),
        ({"minimum": 5, "maximum": 6}, r"job\.max_length' must be at least job\.min_length \+ 2 = 7"),
        ({"ratio": 0.9}, r"job\.max_ratio' must be at least 1"),
        ({"repeats": 0}, r"job\.max_repeats' must be at least 1"),
    ],
)
def test_bounds_that_drop_everything_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        TokenRules(**options)
