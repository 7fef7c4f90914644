import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.prose import (
    PASSAGE_CHARACTERS,
    PASSAGE_MAXIMUM_WORDS,
    PASSAGE_MINIMUM_WORDS,
    is_plain,
    is_prose,
    paragraphs,
    plain_sentences,
    runs_of_passages,
    sentences_of,
)

words = st.sampled_from(
    ["The", "cat", "sat.", "e.g.", "Dr.", "(see", "below).", "`code`", "x=1", "Why?", "and", "No!", "12"]
)
texts = st.lists(words | st.sampled_from(["\n", "\n\n", "\n    ", "\n- "]), max_size=60).map(" ".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\ntwo\n\nthree", ["one two", "three"]),
        ("one\n    two\n    three\nfour", ["one", "two three", "four"]),
        ("- one\n- two", ["- one", "- two"]),
        (":param x: one\n:param y: two", [":param x: one", ":param y: two"]),
        ("x" * 121 + "\nshort", ["x" * 121, "short"]),
        ("", []),
    ],
)
def test_paragraphs(text, expected):
    assert [" ".join(paragraph) for paragraph in paragraphs(text)] == expected


@given(texts)
def test_paragraphs_lose_no_word(text):
    assert [word for paragraph in paragraphs(text) for word in paragraph] == text.split()


@given(texts)
def test_sentences_lose_no_word(text):
    for paragraph in paragraphs(text):
        assert " ".join(sentences_of(paragraph)) == " ".join(paragraph)


def test_sentences_end_at_full_stops_but_not_at_abbreviations():
    text = 'Dr. Smith saw it, e.g. Here or there. "Did he?" he asked. See Fig. 3 for more. It ended.'
    assert sentences_of(text.split()) == [
        "Dr. Smith saw it, e.g. Here or there.",
        '"Did he?" he asked.',
        "See Fig. 3 for more.",
        "It ended.",
    ]


@pytest.mark.parametrize(
    ("sentence", "plain", "prose"),
    [
        ("The cat, which sat there, didn't move.", True, True),
        ("Größe und Gewicht sind bekannt.", True, True),
        ("The ``cat`` sat on foo_bar and slept there.", False, True),
        ("the cat sat.", False, False),
        ("The cat sat", False, False),
        ("x = f(y) + 1.", False, False),
        ("See https://example.org/a for more.", False, True),
        ("Stop.", False, True),
    ],
)
def test_plain_sentences_and_prose(sentence, plain, prose):
    assert (is_plain(sentence), is_prose(sentence)) == (plain, prose)


def test_plain_sentences_come_once_and_within_their_bounds():
    good = "The cat sat on the mat and slept there."
    long = " ".join(["The", *["word"] * 30, "end."])
    assert list(plain_sentences(f"{good} Too short.\n\n{good}\n\n{long}\n\nThe x_y cat sat on the mat and slept.")) == [
        good
    ]


@given(texts)
def test_passages_of_a_run_follow_one_another_in_the_text(text):
    whole = " ".join(text.split())
    for run in runs_of_passages(text):
        assert " ".join(run) in whole
        for passage in run:
            assert PASSAGE_MINIMUM_WORDS <= len(passage.split(" ")) <= PASSAGE_MAXIMUM_WORDS
            assert len(passage) <= PASSAGE_CHARACTERS


def test_what_is_no_prose_parts_runs_and_the_end_of_a_paragraph_does_not():
    first = "The first passage has as many words as a passage needs to have."
    second = "The second passage of the run follows the first one at once here."
    assert list(runs_of_passages(f"{first}\n\n{second}")) == [[first, second]]
    assert list(runs_of_passages(f"{first}\n\n    x = y\n\n{second}")) == [[first], [second]]


def test_short_sentences_are_gathered_into_one_passage():
    (run,) = runs_of_passages("The cat sat on the mat. It slept there for hours. Then it woke up and left the house.")
    assert run == ["The cat sat on the mat. It slept there for hours. Then it woke up and left the house."]
