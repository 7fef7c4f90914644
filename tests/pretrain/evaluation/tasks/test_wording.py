"""A noun phrase where a pronoun stood: capitals and possessives."""

import pytest

from pretrain.evaluation.tasks.wording import in_place_of, is_possessive, without_capital


@pytest.mark.parametrize(
    ("pronoun", "candidate", "before", "after", "written"),
    [
        ("they", "The guards", "It rained so ", " left.", "the guards"),
        ("They", "the guards", "", " left.", "The guards"),
        ("They", "the guards", 'He said "no." ', " left.", "The guards"),
        ("he", "Tom", "It rained so ", " left.", "Tom"),
        ("I", "I", "now ", " left.", "I"),
        ("his", "Tom", "I saw ", " hat.", "Tom's"),
        ("his", "James", "I saw ", " hat.", "James's"),
        ("their", "The guards", "I saw ", " hats.", "the guards'"),
        ("their", "Tina's", "I saw ", " hats.", "Tina's"),
        ("her", "Ann", "I told ", " that it rained.", "Ann"),
        ("her", "Ann", "I told ", " story.", "Ann's"),
        ("her", "Ann", "I told ", ".", "Ann"),
    ],
)
def test_a_candidate_is_written_as_its_place_wants(pronoun, candidate, before, after, written):
    assert in_place_of(pronoun, candidate, before, after) == written


def test_only_a_word_that_is_no_name_loses_its_capital():
    assert [without_capital(text) for text in ("He ran.", "I ran.", "Ann ran.", "A man", "Über uns")] == [
        "he ran.", "I ran.", "Ann ran.", "a man", "Über uns",
    ]  # fmt: skip


def test_possessive_pronouns():
    assert all(is_possessive(pronoun, " hat") for pronoun in ("his", "its", "their", "her"))
    assert not any(is_possessive(pronoun, " hat") for pronoun in ("he", "him", "it", "them", "she"))
