"""The English grammar: forms of words, orders, and words that would make a bad sentence good."""

import re
from collections import defaultdict

import pytest

from pretrain.evaluation.challenge.english import ENGLISH
from pretrain.evaluation.challenge.english_words import ing, past, s_form
from pretrain.evaluation.challenge.templates import TOKEN


def words(kind: str, form: str) -> set[str]:
    return {word[form] for word in ENGLISH.words[kind]}


def test_in_word_order_every_moved_content_word_moves_left_as_often_as_right(built):
    moves: dict[tuple[str, str], int] = defaultdict(int)
    for item in built["english"]:
        if item.phenomenon != "word_order":
            continue
        good, bad = TOKEN.findall(item.good), TOKEN.findall(item.bad)
        moved = [place for place, (a, b) in enumerate(zip(good, bad, strict=True)) if a != b]
        assert len(moved) == 2 and moved[1] == moved[0] + 1, item
        moves[item.group, good[moved[0]]] += 1
        moves[item.group, good[moved[1]]] -= 1
    function_words = {"the", "a", "this", "is", "can", "to", "in", "for", "of", "with", "on", "by", "from"}
    assert all(balance == 0 for (_, word), balance in moves.items() if word not in function_words)


@pytest.mark.parametrize("phenomenon", ["adjective_position", "degree_position", "inversion"])
def test_each_order_is_good_in_one_twin_and_bad_in_the_other(phenomenon):
    templates = [template for template in ENGLISH.templates if template.phenomenon == phenomenon]
    assert templates
    for template in templates:
        first, second = template.patterns
        word = {"inversion": r"\[(\w+) the", "adjective_position": r"\[(\{\w+\})", "degree_position": None}[phenomenon]
        if word is None:  # the degree word stands first in one good order and last in the other
            assert "[{" not in first and re.search(r"\[\{\w+\} enough/", second)
        elif phenomenon == "inversion":  # the verb first, then the subject first
            verb = re.search(word, first)[1]
            assert f" {verb}/{verb} the" in second
        else:
            adjective = re.search(word, first)[1]
            assert f" {adjective}/{adjective} " in second


def test_what_is_set_against_each_other_has_no_word_in_common():
    for first, second in (
        ("transitive", "intransitive"),
        ("hoping", "enjoying"),
    ):
        assert words(first, "base").isdisjoint(words(second, "base"))
    assert words("of_adjective", "").isdisjoint(words("to_adjective", ""))
    assert words("consonant_noun", "").isdisjoint(words("vowel_noun", ""))
    assert words("thing", "one").isdisjoint(words("mass", ""))


def test_no_verb_that_agrees_has_a_past_like_its_base():
    same = {
        "read",
        "put",
        "cut",
        "let",
        "set",
        "hit",
        "hurt",
        "shut",
        "cost",
        "cast",
        "burst",
        "spread",
        "quit",
        "split",
    }
    for kind in ("act", "operate", "handle"):
        assert words(kind, "base").isdisjoint(same)


def test_a_gerund_is_not_told_by_an_equal_verb_before_it():
    assert words("enjoying", "base").isdisjoint(words("handle", "base"))


@pytest.mark.parametrize(
    ("word", "form"),
    [("class", "classes"), ("library", "libraries"), ("key", "keys"), ("box", "boxes"), ("dog", "dogs")],
)
def test_s_form(word, form):
    assert s_form(word) == form


@pytest.mark.parametrize(
    ("verb", "form"), [("move", "moved"), ("copy", "copied"), ("push", "pushed"), ("play", "played")]
)
def test_past(verb, form):
    assert past(verb) == form


@pytest.mark.parametrize(("verb", "form"), [("move", "moving"), ("copy", "copying"), ("push", "pushing")])
def test_ing(verb, form):
    assert ing(verb) == form


def test_no_regular_form_would_have_to_double_a_consonant():
    for kind in ("handle", "transitive", "intransitive", "hoping", "enjoying"):
        short = {verb for verb in words(kind, "base") if len(re.findall(r"[aeiouy]+", verb)) == 1}
        assert not [verb for verb in short if re.search(r"[^aeiou][aeiou][bdgklmnprt]$", verb)], kind
