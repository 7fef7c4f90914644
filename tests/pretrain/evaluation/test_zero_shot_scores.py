"""From numbers of options to accuracies: ties, parts of a task, intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from pretrain.evaluation.metrics import choice_correct, pair_correct
from pretrain.evaluation.scores import Outcome
from pretrain.evaluation.statistics import seeds_and_items_interval, share_interval
from pretrain.evaluation.tasks.definition import ChoiceItem, PairItem
from pretrain.evaluation.zero_shot_scores import ScoredItems, add_scores, item_rows, item_values, slices


def choice(name, label=0, group=None, **facts):
    return ChoiceItem(name, "p ", ("a", "b", "c"), "", label, group or name, facts)


def pair(name, phenomenon="all", group=None, **facts):
    return PairItem(name, "good", "bad", phenomenon, group or name, facts)


def test_choices_by_hand():
    scores = [[0.0, -1.0, -2.0], [0.0, -1.0, -2.0], [-1.0, -1.0, -2.0], [-1.0, -1.0, -1.0], [-1.0, -1.0, 0.0]]
    assert choice_correct(scores, [0, 1, 1, 2, 0]).tolist() == [1.0, 0.0, 0.5, 1 / 3, 0.0]
    assert choice_correct([[]], [0]).tolist() == [0.0]
    with pytest.raises(ValueError, match="item 1 has a score that is not a number"):
        choice_correct([[0.0, 1.0], [0.0, float("nan")]], [0, 0])
    with pytest.raises(ValueError, match="scores of 1 items, but 2 labels"):
        choice_correct([[0.0]], [0, 0])


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=1))
def test_a_pair_is_a_choice_of_two(scores):
    good, bad = zip(*scores, strict=True)
    expected = choice_correct([list(map(float, row)) for row in scores], [0] * len(scores))
    np.testing.assert_array_equal(pair_correct(good, bad), expected)
    np.testing.assert_array_equal(item_values([pair(str(n)) for n in range(len(scores))], scores), expected)


def test_an_item_without_scores_counts_as_wrong():
    assert item_values([pair("1"), pair("2")], [None, [0.0, -1.0]]).tolist() == [0.0, 1.0]
    assert item_values([choice("1"), choice("2")], [None, [0.0, -1.0, -1.0]]).tolist() == [0.0, 1.0]
    assert item_values([pair("1")], [None]).tolist() == [0.0]


def test_parts_are_phenomena_and_values_of_facts():
    items = [pair("1", "x", field="syntax"), pair("2", "y", field="syntax"), pair("3", "x")]
    found = slices(items, ["field"])
    assert {name: chosen.tolist() for name, chosen in found.items()} == {
        "x": [True, False, True],
        "y": [False, True, False],
        "field=syntax": [True, True, False],
    }
    assert slices([pair("1"), pair("2")], []) == {}
    assert slices([choice("1", language="en")], []) == {}


def outcome_of(items, scores, breakdown=(), seeds=()):
    outcome = Outcome()
    fingerprints = {"pretrained": "sha256:aa", "random": "sha256:bb"}
    add_scores(outcome, ScoredItems("t", items, scores, seeds, fingerprints, {"task": "t.1"}), breakdown)
    return outcome


def test_scores_by_hand():
    items = [choice("1", 0, "g"), choice("2", 1, "g"), choice("3", 2, "h"), choice("4", 0, "i", kind="odd")]
    right, wrong = [0.0, -1.0, -1.0], [-1.0, 0.0, -1.0]
    scores = {"pretrained": [right, wrong, wrong, right], "random-1": [right] * 4, "random-2": [wrong] * 4}
    outcome = outcome_of(items, scores, ["kind"], (1, 2))
    values = {(score.task, score.model): score.value for score in outcome.scores}
    assert values == {("t/overall", "pretrained"): 0.75, ("t/overall", "random"): 0.375}
    assert outcome.notes == ["t/kind=odd has 1 item, too few for an interval, and is left out"]
    first, second = outcome.scores
    assert first.metric == "accuracy" and first.n == 4 and first.seeds == () and second.seeds == (1, 2)
    assert first.signature == "task=t.1|metric=accuracy.1|interval=t(groups)|model=aa|seeds=none"
    assert second.signature == "task=t.1|metric=accuracy.1|interval=t(initialisations+groups)|model=bb|seeds=1,2"
    expected = seeds_and_items_interval([1.0, 1.0, 0.0, 1.0], ["g", "g", "h", "i"])
    assert first.interval == (expected.low, expected.high)
    assert outcome.comparisons[0].difference == 0.375


def test_a_task_without_parts_has_one_score_under_its_own_name():
    outcome = outcome_of([pair("1"), pair("2"), pair("3")], {"pretrained": [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]})
    assert [(score.task, score.metric, score.value) for score in outcome.scores] == [("t", "pair_accuracy", 0.5)]


def test_where_all_items_are_one_group_the_interval_is_over_items():
    items = [pair(str(number), group="paradigm") for number in range(4)]
    scores = {"pretrained": [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]}
    (score,) = outcome_of(items, scores).scores
    assert "interval=exact(items)" in score.signature
    exact = binomtest(3, 4).proportion_ci(0.95, method="exact")
    assert score.interval == pytest.approx((exact.low, exact.high))
    tied = {"pretrained": [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]}
    (score,) = outcome_of(items, tied).scores
    assert "interval=t(items)" in score.signature
    expected = seeds_and_items_interval([1.0, 1.0, 1.0, 0.5], list("abcd"))
    assert score.interval == (expected.low, expected.high)


def test_independent_items_have_the_exact_interval_of_one_model_only():
    right, wrong = [0.0, -1.0, -1.0], [-1.0, 0.0, -1.0]
    items = [choice(str(number)) for number in range(6)]
    scores = {"pretrained": [right] * 5 + [wrong], "random-1": [right] * 6, "random-2": [wrong] * 6}
    first, second = outcome_of(items, scores, seeds=(1, 2)).scores
    exact = binomtest(5, 6).proportion_ci(0.95, method="exact")
    assert first.interval == pytest.approx((exact.low, exact.high)) and "interval=exact(items)" in first.signature
    assert "interval=t(initialisations+items)" in second.signature or "groups" in second.signature


@pytest.mark.parametrize("count", [2, 20, 500])
def test_all_right_and_all_wrong_have_the_exact_interval(count):
    names = [str(number) for number in range(count)]
    for value in (0, 1):
        exact = binomtest(value * count, count).proportion_ci(0.95, method="exact")
        found = share_interval(np.full((1, count), float(value)), names)
        assert (found.value, found.low, found.high) == pytest.approx((value, exact.low, exact.high), abs=1e-12)


def test_rows_keep_what_each_model_gave():
    (row,) = item_rows([choice("1", 2, kind="odd")], {"pretrained": [[0.0, 2.0, 1.0]], "random-1": [None]})
    assert row["scores"] == {"pretrained": [0.0, 2.0, 1.0], "random-1": None}
    assert row["predictions"] == {"pretrained": 1, "random-1": None}
    assert (row["id"], row["label"], row["facts"], row["options"]) == ("1", 2, {"kind": "odd"}, ("a", "b", "c"))
    (row,) = item_rows([pair("1", "x")], {"pretrained": [[0.0, 2.0]]})
    assert (row["good"], row["bad"], row["phenomenon"]) == ("good", "bad", "x") and "predictions" not in row
