"""A text with blanks comes back from what is written of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.blanks import BLANK, from_spans, to_spans, without_blanks


def test_spans_worked_out_by_hand():
    text, spans = to_spans(f"{BLANK} a {BLANK}{BLANK}", "<m>")
    assert (text, spans) == ("<m> a <m><m>", [[0, 3], [6, 9], [9, 12]])
    assert from_spans(text, spans[1:]) == f"<m> a {BLANK}{BLANK}"
    assert without_blanks(f"a{BLANK}b", " ") == "a b"


@given(st.lists(st.sampled_from(["a", " ", "[MASK]", "é", BLANK])).map("".join))
def test_a_text_comes_back_whatever_it_says_itself(text):
    shown, spans = to_spans(text, "[MASK]")
    assert BLANK not in shown and from_spans(shown, spans) == text
    assert all(shown[start:end] == "[MASK]" for start, end in spans)


def test_a_text_has_the_blanks_that_are_told_and_no_other():
    assert from_spans(f"a{BLANK}b c", [[3, 4]]) == f"ab{BLANK}c"
    with pytest.raises(ValueError, match="spans of the 3 characters of a text"):
        from_spans("abc", [[2, 4]])
