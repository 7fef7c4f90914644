"""The language of templates by hand."""

from collections import Counter

import pytest

from pretrain.evaluation.challenge.templates import Grammar, Template, bag_differences, bag_of_words, fill, slots_of


def test_fill_by_hand():
    words = {"thing": {"one": "cup", "many": "cups"}, "thing2": {"one": "door", "many": "doors"}}
    assert fill("The {thing.one} near the {thing2.many} [is/are] {thing.many}.", words) == (
        "The cup near the doors is cups.",
        "The cup near the doors are cups.",
    )
    with pytest.raises(ValueError, match="exactly one"):
        fill("The {thing.one}.", words)


def test_slots_of_by_hand():
    template = Template("p", "t", ("A {thing.one} [x/y] {thing2.many}.", "A {thing.many} [y/x] {act.s}."))
    assert slots_of(template) == (("thing", "thing"), ("thing2", "thing"), ("act", "act"))


@pytest.mark.parametrize(
    ("sentence", "bag"),
    [
        ("The cup, the cup.", {"The": 1, "the": 1, "cup": 2, ",": 1, ".": 1}),
        ("老师买了一本书。", {"老": 1, "师": 1, "买": 1, "了": 1, "一": 1, "本": 1, "书": 1, "。": 1}),
        ("用Python3写", {"用": 1, "Python3": 1, "写": 1}),
    ],
)
def test_a_bag_counts_words_chinese_characters_and_signs(sentence, bag):
    assert bag_of_words(sentence) == Counter(bag)


def test_only_a_language_without_spaces_loses_them():
    assert Grammar("a", 1, {}, ()).sentence("一 本 书") == "一 本 书"
    assert Grammar("a", 1, {}, (), spaced=False).sentence("一 本 书") == "一本书"


def test_a_pair_may_balance_by_character_and_not_by_word():
    pairs = [("我 们 来", "我 来"), ("我 来", "我们 来")]
    assert bag_differences([(a.replace(" ", ""), b.replace(" ", "")) for a, b in pairs]) == {
        (("们", 1),): 1,
        (("们", -1),): 1,
    }
    assert bag_differences(pairs, lambda text: Counter(text.split())) == {
        (("们", 1),): 1,
        (("我", 1), ("我们", -1)): 1,
    }
