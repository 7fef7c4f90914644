import pytest

from pipeline.languages import MINIMUM_VOTES, Votes, code_of, telling

GERMAN = "Der kleine Hund läuft über die grüne Wiese."
ENGLISH = "The little dog runs across the green meadow."


@pytest.fixture(scope="module")
def german_english():
    return telling("de-AT", "en_US")


def test_names_of_regions_and_scripts_stand_for_their_language():
    assert [code_of(name) for name in ("de", "de-AT", "zh_CN", "EN")] == ["de", "de", "zh", "en"]


def test_pairs_vote_for_the_order_in_which_they_stand(german_english):
    pairs = [(GERMAN, ENGLISH)] * 3 + [(ENGLISH, GERMAN)] * 2 + [(GERMAN, GERMAN)]
    assert german_english.votes(pairs) == Votes(right=3, swapped=2)


def test_a_side_in_the_other_language_is_found_on_either_side(german_english):
    assert german_english.is_other(ENGLISH, ENGLISH, 0.9) and german_english.is_other(GERMAN, GERMAN, 0.9)
    assert not german_english.is_other(GERMAN, ENGLISH, 0.5)
    assert not german_english.is_other("12:30", "12:30", 0.9)


@pytest.mark.parametrize(
    ("right", "swapped", "said"),
    [(0, MINIMUM_VOTES, True), (0, MINIMUM_VOTES - 1, False), (9, 9, False), (9, 10, True), (10, 9, False)],
)
def test_a_corpus_is_swapped_when_most_of_enough_pairs_are(right, swapped, said):
    assert Votes(right, swapped).are_swapped == said


@pytest.mark.parametrize(("source", "target"), [("de", "de-AT"), ("de", "qqq")])
def test_one_language_and_unknown_ones_cannot_be_told_apart(source, target):
    assert telling(source, target) is None
