"""The report's pictures of training and of two scores."""

import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain.evaluation.report.charts import Line, interval_bars, line_chart, short, ticks
from pretrain.evaluation.report.facts import Curve
from pretrain.evaluation.report.score_facts import Interval

VALUES = st.floats(-1e6, 1e6, allow_nan=False)


def interval(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 3, "")


@given(VALUES, VALUES)
def test_ticks_enclose_the_values_in_equal_steps(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    found = ticks(low, high)
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert found[0] <= low + slack and found[-1] >= high - slack
    assert 2 <= len(found) <= 8
    steps = [after - before for before, after in itertools.pairwise(found)]
    assert max(steps) - min(steps) <= 1e-6 * max(1.0, abs(found[0]), abs(found[-1]))


@given(st.lists(st.tuples(st.integers(1, 10**6), VALUES), min_size=1, max_size=30), st.booleans())
def test_every_point_of_a_curve_lies_inside_the_picture(points: list[tuple[int, float]], from_zero: bool) -> None:
    points = sorted(points)
    curve = Curve(tuple(step for step, _ in points), tuple(value for _, value in points))
    if from_zero and min(curve.values) < 0:
        return
    drawn = ElementTree.fromstring(line_chart([Line("a & b", "training", curve)], "x < y", from_zero))
    (polyline,) = drawn.findall("polyline")
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    places = [tuple(map(float, place.split(","))) for place in polyline.attrib["points"].split()]
    assert len(places) == len(points)
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


def test_a_higher_value_is_drawn_higher_and_a_value_that_is_no_number_is_left_out() -> None:
    picture = line_chart([Line("a", "training", Curve((1, 2, 3), (1.0, float("nan"), 2.0)))], "loss")
    first, second = re.findall(r'points="([^"]*)"', picture)[0].split()
    assert float(first.split(",")[1]) > float(second.split(",")[1])


def test_a_chart_without_points_is_empty() -> None:
    assert line_chart([Line("a", "training", Curve((), ()))], "loss") == ""


def test_interval_bars_draw_each_score_that_there_is() -> None:
    both = ElementTree.fromstring(interval_bars(interval(0.6, 0.8), interval(0.4, 0.5)))
    assert [circle.attrib["class"] for circle in both.findall("circle")] == ["mark pretrained", "mark random"]
    assert len(ElementTree.fromstring(interval_bars(None, interval(0.4, 0.5))).findall("circle")) == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (short(1500), "1.5k"),
        (short(0.5), "0.5"),
    ],
)
def test_numbers_on_an_axis(said: str, expected: str) -> None:
    assert said == expected
