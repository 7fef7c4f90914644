"""The builder of check lists: the same for a seed, every test whole, changes that change what they say."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.evaluation.challenge.probes import (
    SECOND,
    build_cases,
    changed_places,
    contracted,
    fill_plain,
    typo,
    without_full_stop,
)
from pretrain.evaluation.challenge.probes_entailment import ENTAILMENT
from pretrain.evaluation.challenge.probes_paraphrase import PARAPHRASE
from pretrain.evaluation.challenge.probes_sentiment import SENTIMENT

LISTS = {"sentiment": SENTIMENT, "paraphrase": PARAPHRASE, "entailment": ENTAILMENT}
PARTS = {"sentiment": 1, "paraphrase": 2, "entailment": 2}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_over_ten_tests_of_all_types_and_hundreds_of_cases(name):
    probes = LISTS[name]
    assert len(probes.tests) >= 10 and {probe.type for probe in probes.tests} == {"MFT", "INV", "DIR"}
    assert len({probe.name for probe in probes.tests}) == len(probes.tests)
    cases = build_cases(probes, 30, 1)
    counts = Counter(case.probe.name for case in cases)
    assert len(counts) == len(probes.tests) and min(counts.values()) >= 30 and len(cases) >= 300
    assert len({case.id for case in cases}) == len(cases)
    for case in cases:
        assert all(len(text) == PARTS[name] for text in case.texts)
        assert all(part[0].isupper() and part[-1] in ".?!" and "{" not in part for part in case.texts[0])
        assert len(case.texts) == 1 if case.probe.type == "MFT" else len(set(case.texts)) == len(case.texts) > 1
        assert bool(case.probe.accepted) == (case.probe.type != "INV")
        assert (case.probe.direction is not None) == (case.probe.type == "DIR")


@pytest.mark.parametrize("name", LISTS)
def test_words_of_a_kind_are_distinct_and_templates_are_many(name):
    for kind, words in LISTS[name].words.items():
        first = [next(iter(word.values())) for word in words]
        assert len(set(first)) == len(first), kind
    assert all(len(probe.templates) >= 4 for probe in LISTS[name].tests)


def test_a_seed_fixes_the_cases_and_more_than_the_words_allow_is_refused():
    cases = [build_cases(SENTIMENT, 10, seed) for seed in (1, 1, 2)]
    assert cases[0] == cases[1] != cases[2]
    with pytest.raises(InputError, match="'cases_per_test' must be at least 1, but is 0"):
        build_cases(SENTIMENT, 0, 1)
    with pytest.raises(InputError, match=r"cannot give .* different groups of words: ask for fewer of them"):
        build_cases(SENTIMENT, 1000, 1)


def test_a_pattern_is_filled_and_begins_with_a_capital():
    words = {"job": {"": "actor", "a": "an actor"}, "job2": {"": "nurse", "a": "a nurse"}}
    assert fill_plain("{job.a} met {job2.a}. | the {job} left.", words) == "An actor met a nurse. | The actor left."


@given(st.text("abc XY|.", max_size=30), st.integers(0, 9))
def test_a_typing_error_keeps_the_letters_the_ends_of_words_and_the_second_text(text, seed):
    changed = typo(text, random.Random(seed))
    assert Counter(changed) == Counter(text) and changed.partition(SECOND)[2] == text.partition(SECOND)[2]
    for before, after in zip(text.split(" "), changed.split(" "), strict=True):
        assert (before[:1], before[-1:]) == (after[:1], after[-1:])
    differ = [at for at, (one, other) in enumerate(zip(text, changed, strict=True)) if one != other]
    assert len(differ) in (0, 2) and (not differ or differ[1] == differ[0] + 1)


def test_changes_by_hand():
    assert typo("abcd", random.Random(0)) == "acbd" and typo("abbd", random.Random(0)) == "abbd"
    assert {without_full_stop("So it is.", random.Random(n)) for n in range(9)} == {"So it is", "So it is.."}
    assert contracted("He is not here. It was not so. I did not go.", random.Random(0)) == (
        "He isn't here. It wasn't so. I didn't go."
    )
    assert changed_places("A? | B?", random.Random(0)) == "B? | A?"
