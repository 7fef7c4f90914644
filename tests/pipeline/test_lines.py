import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lines import is_blank, lines_in, paragraphs_in
from pipeline.ranges import WHOLE

contents = st.lists(
    st.sampled_from(
        [b"\n", b"\r\n", b"\r", b"a", b"bc", b" ", "é".encode(), "\u2028".encode(), "\u3000".encode(), b"\x0c"]
    ),
    max_size=40,
).map(b"".join)


def read(function, content, start, end, buffer, maximum=1000):
    raw = io.BytesIO(content)
    raw.seek(max(start - 1, 0))
    return list(function(io.BufferedReader(raw, buffer), start, end, maximum))


def in_ranges(function, content, cuts, buffer, maximum=1000):
    borders = [0, *sorted(cuts), WHOLE]
    return [
        record
        for start, end in itertools.pairwise(borders)
        for record in read(function, content, start, end, buffer, maximum)
    ]


@pytest.mark.parametrize("function", [lines_in, paragraphs_in])
@given(contents, st.sets(st.integers(1, 60), max_size=6), st.integers(1, 20), st.integers(1, 12))
def test_ranges_together_give_each_record_once_whatever_the_cuts_and_the_buffer(
    function, content, cuts, buffer, maximum
):
    whole = read(function, content, 0, WHOLE, 1 << 16, maximum)
    assert in_ranges(function, content, cuts, buffer, maximum) == whole


@given(contents)
def test_lines_are_those_between_line_feeds(content):
    expected = content.replace(b"\r\n", b"\n").split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [line for _, line in read(lines_in, content, 0, WHOLE, 7)] == expected


@given(contents)
def test_an_offset_is_where_its_line_starts(content):
    for offset, line in read(lines_in, content, 0, WHOLE, 7):
        assert content[offset : offset + len(line)] == line
        assert offset == 0 or content[offset - 1 : offset] == b"\n"


@given(contents)
def test_paragraphs_are_runs_of_lines_that_are_not_blank(content):
    expected, run = [], []
    for _, line in [*read(lines_in, content, 0, WHOLE, 7), (0, b"")]:
        if not line.decode().strip():
            if run:
                expected.append(b"\n".join(run))
            run = []
        else:
            run.append(line)
    assert [paragraph for _, paragraph in read(paragraphs_in, content, 0, WHOLE, 7)] == expected


def test_only_lf_and_crlf_end_a_line():
    text = "a\u2028b\u0085c\x0cd\x1ce\rf\r\ng\n"
    assert [line.decode() for _, line in read(lines_in, text.encode(), 0, WHOLE, 5)] == [
        "a\u2028b\u0085c\x0cd\x1ce\rf",
        "g",
    ]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_line_of_just_the_maximum_is_kept_and_one_byte_more_is_skipped(end):
    assert read(lines_in, b"abcd" + end, 0, WHOLE, 2, maximum=4) == [(0, b"abcd")]
    assert read(lines_in, b"abcde" + end + b"", 0, WHOLE, 2, maximum=4) == [(0, None)]
    assert read(lines_in, b"abcdefghij\nk", 0, WHOLE, 2, maximum=4) == [(0, None), (11, b"k")]


def test_a_paragraph_too_long_is_one_record_without_text():
    assert read(paragraphs_in, b"abc\ndef\n\ngh", 0, WHOLE, 2, maximum=6) == [(0, None), (9, b"gh")]
    assert read(paragraphs_in, b"abc\ndef\n\ngh", 0, WHOLE, 2, maximum=7) == [(0, b"abc\ndef"), (9, b"gh")]


def test_lines_of_unicode_white_space_are_blank():
    assert is_blank(" \t\x0c\u00a0\u2003\u3000\u202f".encode())
    assert is_blank(b"")
    assert not is_blank("\u00a0é".encode())
    assert not is_blank(b"\xff")
