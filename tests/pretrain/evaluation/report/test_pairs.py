"""What a report shows of minimal pairs: which ones, and where they differ."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain.evaluation.challenge.builder import build
from pretrain.evaluation.challenge.chinese import CHINESE
from pretrain.evaluation.challenge.english import ENGLISH
from pretrain.evaluation.report.pairs import difference, first_pairs, pairs_to_audit

ROWS = [
    {
        "phenomenon": "p",
        "template": f"p/{template}",
        "slots": {"thing": "cup"},
        "good": f"A cup {template} {number}.",
        "bad": f"An cup {template} {number}.",
        "scores": {"pretrained": [-1.0, -2.0], "random-3": [-5.0, -4.0]},
    }
    for template, count in (("a", 5), ("b", 2), ("c", 3))
    for number in range(count)
]


def test_pairs_to_audit_take_from_each_template_in_turn_and_stand_by_template():
    (part,) = pairs_to_audit("minimal_pairs", ROWS, 7)
    assert (part.task, part.phenomenon, part.total, part.templates) == ("minimal_pairs", "p", 10, 3)
    assert ["".join(pair.good) for pair in part.pairs] == [
        "A cup a 0.",
        "A cup a 1.",
        "A cup a 2.",
        "A cup b 0.",
        "A cup b 1.",
        "A cup c 0.",
        "A cup c 1.",
    ]
    assert part.pairs[0].template == "a" and part.pairs[0].slots == {"thing": "cup"}
    assert len(pairs_to_audit("minimal_pairs", ROWS, 99)[0].pairs) == 10
    assert pairs_to_audit("minimal_pairs", ROWS, 0)[0].pairs == ()


@pytest.mark.parametrize("grammar", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_twenty_pairs_show_every_template_in_both_directions(grammar):
    items = [vars(item) for item in build(grammar, 40, seed=3)]
    parts = pairs_to_audit("minimal_pairs", items, 20)
    assert [part.phenomenon for part in parts] == list(grammar.phenomena())
    for part in parts:
        assert set(Counter(pair.template for pair in part.pairs).values()) == {2} and len(part.pairs) == 20
        assert all(pair.slots for pair in part.pairs)


def test_rows_without_templates_are_audited_in_their_order():
    rows = [{"phenomenon": "q", "good": f"good {number}", "bad": "bad", "scores": {}} for number in range(5)]
    (part,) = pairs_to_audit("blimp", rows, 2)
    assert ["".join(pair.good) for pair in part.pairs] == ["good 0", "good 1"]


def test_first_pairs_have_different_templates_and_the_scores_of_two_models():
    found = list(first_pairs(ROWS, 2))
    assert [pair.good for pair in found] == ["A cup a 0.", "A cup b 0."]
    assert (found[0].pretrained, found[0].random) == ((-1.0, -2.0), (-5.0, -4.0))
    assert list(first_pairs(ROWS, 0)) == []


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ("The dog waits.", "The dog wait.", (("The dog ", "waits", "."), ("The dog ", "wait", "."))),
        ("It was so big.", "It was big so.", (("It was ", "so big", "."), ("It was ", "big so", "."))),
        ("一本书。", "一辆书。", (("一", "本", "书。"), ("一", "辆", "书。"))),
        ("They came.", "They all came.", (("They came.", "", ""), ("They ", "all", " came."))),
        ("same", "same", (("same", "", ""), ("same", "", ""))),
    ],
)
def test_where_two_sentences_differ(good, bad, expected):
    assert difference(good, bad) == expected


@given(st.text("ab ,书本", max_size=12), st.text("ab ,书本", max_size=12))
def test_the_three_parts_of_a_sentence_are_the_sentence(good, bad):
    first, second = difference(good, bad)
    assert ("".join(first), "".join(second)) == (good, bad)
