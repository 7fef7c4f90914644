import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.cleaning.normalise import Normalise

awkward = st.text(
    alphabet="a é\u0301\r\n\t\u2028\u2029\u0085\x0b\x0c\x1c\u00a0\u3000\u200b\u200d\u200c\ufeff\x00\u00ad´\u212b"
)


@example("a\u200c´", "NFKC")  # the accent becomes a space and a mark, and the joiner stands at an edge
@given(awkward | st.text(), st.sampled_from(["none", "NFC", "NFD", "NFKC", "NFKD"]))
def test_doing_it_twice_changes_nothing_more(text, form):
    once = Normalise(form)(text)
    assert Normalise(form)(once) == once


@given(awkward | st.text())
def test_no_character_is_left_that_cannot_be_seen(text):
    result = Normalise()(text)
    controls = {c for c in result if unicodedata.category(c) == "Cc"} - {"\t", "\n"}
    assert not controls
    assert not set(result) & set("\u00a0\u3000\u2028\u2029\u0085\u200b\ufeff\u00ad")
    assert not any(line.endswith((" ", "\t")) for line in result.split("\n"))
    assert "\n\n\n" not in result
    assert result == result.strip("\n")


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_plain_words_stay_as_they_are(text):
    assert Normalise()(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc\u2028d\u0085e\x0cf\x0bg", "a\nb\nc\nd\ne\nf\ng"),
        ("a\u2029b", "a\n\nb"),
        ("a\u00a0b\u2003c\u3000d\te\u202ff\u200bg", "a b c d\te fg"),
        ("  indented \t\n\n\n\n  more  \n\n", "  indented\n\n  more"),
        ("abc\x00def", "abcdef"),
        ("Zoe\u0308", "Zoë"),
        ("\u212b", "Å"),
        ("\u200d", ""),
        ("\u200b\ufeff", ""),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("\U0001f469\u200d\U0001f680 \u200d", "\U0001f469\u200d\U0001f680"),
    ],
)
def test_examples(text, expected):
    assert Normalise()(text) == expected


def test_without_a_form_accents_stay_as_they_are_encoded():
    assert Normalise("none")("Zoe\u0308\u00a0x") == "Zoe\u0308 x"
