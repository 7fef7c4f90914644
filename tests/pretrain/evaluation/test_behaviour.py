"""Behavioural reports: slices, gaps and trends by hand, intervals against scipy's tests."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pretrain.evaluation.behaviour import (
    Answers,
    accuracy,
    behavioural_report,
    fact_of,
    gap_interval,
    gaps_of,
    picked_option,
    slices_of,
)
from pretrain.evaluation.tasks.definition import ChoiceItem, Gap, TaskDefinition, TextItem, Trend


def definition(**options):
    base = {
        "name": "t",
        "version": 1,
        "kind": "choice",
        "labels": (),
        "metrics": ("accuracy",),
        "layouts": (),
        "home": "h",
    }
    return TaskDefinition(**{**base, **options})


def choice(name, label=0, group=None, **facts):
    return ChoiceItem(str(name), "", ("a", "b"), "", label, group or str(name), facts)


def answers(given, labels):
    table = np.atleast_2d(np.asarray(given, dtype=np.float64))
    return Answers((table == np.asarray(labels)).astype(np.float64), partial(picked_option, table))


def test_slices_are_all_combinations_that_occur_and_a_single_part_is_none():
    facts = {"h": np.array(["x", "x", "y", ""]), "label": np.array(["e", "n", "e", "e"]), "one": np.array(["z"] * 4)}
    found = {name: chosen.tolist() for name, chosen in slices_of((("h", "label"), ("one",)), facts)}
    assert found == {
        "h=x, label=e": [True, False, False, False],
        "h=x, label=n": [False, True, False, False],
        "h=y, label=e": [False, False, True, False],
    }


def test_gaps_are_over_all_items_and_within_a_fact_where_both_sides_are_there():
    facts = {"g": np.array(["m", "f", "m", "n"]), "h": np.array(["x", "x", "y", "y"])}
    gaps = (Gap("g", "m", "f", within="h"), Gap("g", "m", "other"))
    found = [(name, first.tolist(), second.tolist()) for name, first, second in gaps_of(gaps, facts)]
    assert found == [
        ("g: m - f", [True, False, True, False], [False, True, False, False]),
        ("g: m - f (h=x)", [True, False, False, False], [False, True, False, False]),
    ]


def test_the_label_is_a_fact_by_name_or_number():
    item = TextItem("1", "a", None, 1, "g", {"x": "y"})
    assert (fact_of(item, "label", ("no", "yes")), fact_of(item, "x", ()), fact_of(item, "z", ())) == ("yes", "y", "")
    assert fact_of(choice(1, 1), "label", ()) == "1"
    assert fact_of(choice(1, None), "label", ("no",)) == ""


def test_a_gap_paired_in_every_group_has_the_interval_of_the_paired_t_test():
    rng = np.random.default_rng(0)
    right = rng.integers(0, 2, 40).astype(float)
    first = np.arange(40) % 2 == 0
    groups = [str(number // 2) for number in range(40)]
    estimate, note = gap_interval(right[None], first, ~first, groups)
    expected = stats.ttest_rel(right[first], right[~first]).confidence_interval(0.95)
    assert estimate.value == pytest.approx(right[first].mean() - right[~first].mean())
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert note == "20 of 20 groups have both sides"


def test_the_spread_over_runs_is_added_with_its_degrees_of_freedom():
    right = np.array([[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    first = np.array([True, False, True, False])
    estimate, _ = gap_interval(right, first, ~first, ["a", "a", "b", "b"])
    per_run = np.array([1.0, 0.5, 0.5])
    mean = right.mean(axis=0)
    items = np.var([mean[0] - mean[1], mean[2] - mean[3]], ddof=1) / 2
    runs = per_run.var(ddof=1) / 3
    freedom = (items + runs) ** 2 / (items**2 / 1 + runs**2 / 2)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(items + runs)
    assert estimate.value == pytest.approx(2 / 3)
    assert (estimate.low, estimate.high) == pytest.approx((max(-1.0, 2 / 3 - half), min(1.0, 2 / 3 + half)))


def test_a_gap_that_no_group_shows_is_still_not_certain():
    first = np.arange(40) % 2 == 0
    groups = [str(number // 2) for number in range(40)]
    estimate, _ = gap_interval(np.ones((1, 40)), first, ~first, groups)
    bound = stats.binomtest(20, 20).proportion_ci(0.95, "exact").low
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0.0, bound - 1, 1 - bound))
    _, note = gap_interval(np.eye(1, 40), first, ~first, ["same"] * 40)
    assert note == "items of one group: the interval says nothing of other groups"


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), min_size=4, max_size=30))
def test_a_gap_turns_its_sign_with_its_sides_and_holds_its_value(rows):
    right = np.array([[float(row[0]) for row in rows]])
    first = np.array([row[1] for row in rows])
    if not 0 < first.sum() < len(rows):
        return
    groups = [str(row[2]) for row in rows]
    one, other = (gap_interval(right, side, ~side, groups)[0] for side in (first, ~first))
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert -1 <= one.low <= one.value <= one.high <= 1


def test_an_accuracy_of_one_group_or_one_item_says_so():
    estimate, note = accuracy(np.array([[1.0, 0.0, 1.0]]), ["g", "g", "g"])
    assert estimate.value == pytest.approx(2 / 3) and note.startswith("items of one group")
    assert accuracy(np.array([[1.0]]), ["g"]) == (
        accuracy(np.array([[1.0]]), ["g"])[0],
        "one item, which bounds nothing",
    )
    assert accuracy(np.array([[1.0]]), ["g"])[0].low == 0.0
    assert accuracy(np.array([[1.0, 0.0]]), ["g", "h"])[1] == ""


def test_a_report_by_hand_for_two_models():
    items = [choice(n, n % 2, f"t{n // 2}", gender=("m", "f")[n % 2]) for n in range(4)]
    shown = definition(slices=(("gender",),), gaps=(Gap("gender", "m", "f"),))
    given = {"pretrained": answers([0, 1, 0, 0], [0, 1, 0, 1]), "random": answers([[1, 1, 1, 1]] * 2, [0, 1, 0, 1])}
    found = behavioural_report("task", shown, items, given)
    assert [(row.model, row.test, row.kind, row.value, row.n) for row in found] == [
        ("pretrained", "gender=f", "accuracy", 0.5, 2),
        ("pretrained", "gender=m", "accuracy", 1.0, 2),
        ("pretrained", "gender: m - f", "gap", 0.5, 4),
        ("random", "gender=f", "accuracy", 1.0, 2),
        ("random", "gender=m", "accuracy", 0.0, 2),
        ("random", "gender: m - f", "gap", -1.0, 4),
    ]
    assert all(row.interval[0] <= row.value <= row.interval[1] and row.task == "task" for row in found)
    assert behavioural_report("task", definition(), items, given) == []


def test_a_trend_is_the_correlation_of_leans_with_figures():
    units = {"baker": (60.0, 1, 0), "clerk": (20.0, 0, 1), "judge": (40.0, 1, 1), "nurse": (90.0, 1, 0)}
    items, picks = [], []
    for unit, (figure, female, male) in units.items():
        for gender, pick in (("female", female), ("male", male), ("neutral", 1)):
            items.append(choice(f"{unit}.{gender}", 0, unit, gender=gender, occupation=unit, share=str(figure)))
            picks.append(1 - pick)  # option 0 is the occupation
    shown = definition(trends=(Trend("occupation", 0, "gender", "female", "male", "occupation", "share"),))
    (row,) = behavioural_report("t", shown, items, {"pretrained": answers(picks, [0] * len(items))})
    expected = stats.pearsonr([60, 20, 40, 90], [1, -1, 0, 1]).statistic
    assert (
        row.value == pytest.approx(expected)
        and row.n == 4
        and row.kind == "correlation"
        and row.test == "occupation, with share"
    )
    assert -1 <= row.interval[0] < row.value <= row.interval[1] <= 1
    (row,) = behavioural_report("t", shown, items, {"pretrained": answers([0] * len(items), [0] * len(items))})
    assert (row.value, row.interval) == (0.0, (-1.0, 1.0)) and "bounds nothing" in row.note
    assert behavioural_report("t", shown, items[:6], {"pretrained": answers([0] * 6, [0] * 6)}) == []
