"""Where sentences begin in a raw text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.prose import paragraphs, sentences_of
from pipeline.sentences import sentence_starts

SPACES = ["\n\n", "\n", " ", "  ", "\t", "\x0b", "\x1c", "\xa0", ""]
WORDS = ["One ends here.", "Mr. Smith", "e.g. this", "Two?", '"Three!"', "- item", "x" * 130, "中文。", "3.14", "small"]
PIECES = st.sampled_from([*SPACES, *WORDS])


def split(text):
    starts = sentence_starts(text).tolist()
    return [text[begin:end] for begin, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def test_sentences_end_at_marks_before_white_space_but_not_at_abbreviations_and_initials():
    text = 'Mr. J. Smith came (e.g. by car). Did he? "Yes!" said she. version 3.14 is out. Later'
    assert split(text) == [
        "Mr. J. Smith came (e.g. by car). ",
        "Did he? ",
        '"Yes!" said she. version 3.14 is out. ',
        "Later",
    ]


def test_headings_lists_and_blank_lines_part_sentences():
    assert split("A heading\n\nText goes\non here. More\n  - one\n  - two") == [
        "A heading\n\n",
        "Text goes\non here. ",
        "More\n  ",
        "- one\n  ",
        "- two",
    ]


@pytest.mark.parametrize(
    ("text", "expected"), [("", [""]), ("   \n ", ["   \n "]), ("  One. Two.", ["  One. ", "Two."])]
)
def test_white_space_belongs_to_the_sentence_before_it_and_at_the_beginning_to_the_first(text, expected):
    assert split(text) == expected


def test_a_border_lies_only_after_a_blank_tab_or_line_end():
    assert split("One.\x0bTwo.\xa0Three. Four.") == ["One.\x0bTwo.\xa0Three. ", "Four."]


@given(st.lists(PIECES, max_size=12).map(" ".join) | st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=60))
def test_starts_ascend_from_0_and_are_those_of_prose(text):
    starts = sentence_starts(text).tolist()
    assert starts == sorted(set(starts)) and starts[0] == 0
    assert all(text[start - 1] in " \t\r\n" and not text[start].isspace() for start in starts[1:])
    sentences = [sentence for paragraph in paragraphs(text) if paragraph for sentence in sentences_of(paragraph)]
    ours = [" ".join(sentence.split()) for sentence in split(text)]
    assert " ".join(ours).split() == " ".join(sentences).split() and len(starts) <= max(1, len(sentences))
    if not set(text) & set("\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0") and text.isascii():
        assert [sentence for sentence in ours if sentence] == sentences
