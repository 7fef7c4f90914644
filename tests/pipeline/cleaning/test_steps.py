import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.cleaning.chain import Dropped
from pipeline.cleaning.length import Length
from pipeline.cleaning.letters import Letters, count_letters
from pipeline.cleaning.repetition import Repetition
from pipeline.cleaning.separators import Separators
from pipeline.cleaning.spaces import Spaces


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title\n=====\ntext", "Title\ntext"),
        ("+-----+\n| a b |\n+-----+", "| a b |"),
        ("a\n\n----\n\nb", "a\n\nb"),
        ("----\n", ""),
        ("a\n...\nb\n)", "a\n...\nb\n)"),
        ("- - - - -\nx ==== y", "x ==== y"),
        ("____\n—\u2014\u2014\u2014\nx", "____\nx"),
    ],
)
def test_lines_that_only_draw_go(text, expected):
    assert Separators()(text) == expected


@given(st.text(alphabet="=-| a\n"))
def test_separators_take_whole_lines_and_nothing_else(text):
    kept = Separators()(text).split("\n")
    expected = [line for line in text.split("\n") if "a" in line or sum(not c.isspace() for c in line) < 4]
    assert [line for line in kept if line.strip()] == [line for line in expected if line.strip()]


def test_length_bounds_are_inclusive_and_empty_is_not_short():
    step = Length(3, 5)
    assert [step("x" * n) for n in (2, 3, 5, 6)] == [Dropped("too_short"), "xxx", "xxxxx", Dropped("too_long")]
    assert step("") == ""
    assert step(" ") == " "


def test_a_text_that_repeats_its_lines_is_dropped_by_the_share_of_characters():
    step = Repetition(maximum_share=0.5, minimum_lines=4)
    assert step("abcd\n  abcd\nefgh\nijkl") != Dropped("repetitive")  # 4 of 16
    assert step("abcd\nabcd\n\nabcd\nefgh") != Dropped("repetitive")  # 8 of 16, not above a half
    assert step("abcd\nabcd\nabcd\nefg") == Dropped("repetitive")  # 8 of 15
    assert step("abcd\nabcd\nabcd") != Dropped("repetitive")  # too few lines to tell


def test_a_text_without_words_is_dropped_in_any_script():
    step = Letters(0.5)
    assert step("1 2 3 4 5 a b") == Dropped("few_letters")
    assert step("abc 123") == "abc 123"
    assert step("हिन्दी में") == "हिन्दी में"
    assert step("汉字。") == "汉字。"
    assert step("。，？！汉字") == Dropped("few_letters")
    assert step("") == ""


@given(st.text())
def test_letters_are_counted_as_unicode_classes_them(text):
    letters = sum(unicodedata.category(c)[0] in "LM" for c in text if not c.isspace())
    assert count_letters(text) == (letters, sum(not c.isspace() for c in text))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Length(-1),
        lambda: Length(5, 4),
        lambda: Letters(1.5),
        lambda: Repetition(-0.1),
        lambda: Separators(0),
    ],
)
def test_options_out_of_range_are_bad_input(build):
    with pytest.raises(InputError, match="must be"):
        build()


def test_spaces_leave_one_line_with_single_spaces():
    assert Spaces()("\u3000 a\tb \n\n c\u00a0d\x1c") == "a b c d"
    assert Spaces()(" \n") == ""
