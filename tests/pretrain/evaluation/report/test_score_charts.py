"""Pictures of scores: that what is drawn lies where the numbers say."""

import math
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain.evaluation.report.score_charts import (
    anchor_strip,
    forest,
    learning_curve,
    part_bars,
    reliability,
    run_strip,
)
from pretrain.evaluation.report.score_facts import Interval, LearningCurve, Parts, ScoreRow, read_scores

from .records import WHOLE, write_evaluation


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return read_scores(write_evaluation(tmp_path_factory.mktemp("evaluation"), **WHOLE) / "scores.json")


def drawn(picture):
    return ElementTree.fromstring(picture)


def test_bars_are_as_long_as_their_scores_and_coloured_by_chance(found):
    picture = drawn(part_bars(found.parts[0]))
    bars = [bar for bar in picture.iter("rect") if bar.attrib["class"].startswith("bar")]
    assert [bar.attrib["class"] for bar in bars] == ["bar above", "bar above", "bar undecided", "bar below"]
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert widths[0] / widths[3] == pytest.approx(0.93 / 0.31, rel=1e-2)
    (chance,) = (line for line in picture.iter("line") if line.attrib["class"] == "chance")
    start = float(bars[0].attrib["x"])
    assert (float(chance.attrib["x1"]) - start) / widths[0] == pytest.approx(0.5 / 0.93, rel=1e-2)


def test_without_a_known_chance_no_bar_is_coloured(found):
    part = Parts("copa", "", found.parts[0].rows, None)
    picture = drawn(part_bars(part))
    assert {bar.attrib["class"] for bar in picture.iter("rect")} == {"bar undecided"}
    assert "chance" not in {line.attrib["class"] for line in picture.iter("line")}


def test_sizes_of_a_curve_stand_on_a_scale_of_powers_of_two(found):
    picture = drawn(learning_curve(found.curves[0]))
    (line,) = picture.findall("polyline")
    places = [float(point.split(",")[0]) for point in line.attrib["points"].split()]
    steps = math.log2(640 / 160) / math.log2(2558 / 160)
    assert (places[1] - places[0]) / (places[2] - places[0]) == pytest.approx(steps, abs=1e-3)
    assert len([mark for mark in picture.iter("circle") if mark.attrib["class"] == "run pretrained"]) == 9
    assert "160" in "".join(picture.itertext()) and "2,558" in "".join(picture.itertext())


def test_a_curve_of_one_point_is_none(found):
    curve = found.curves[0]
    assert learning_curve(LearningCurve(curve.task, curve.metric, curve.points[:1], None)) == ""


SHARES = st.floats(0.0, 1.0)


@given(st.lists(st.tuples(SHARES, SHARES, SHARES), min_size=1, max_size=6), st.none() | SHARES)
def test_nothing_of_a_bar_lies_outside_the_picture(scores, chance):
    rows = tuple(
        ScoreRow(f"t/{number} & <b>", "accuracy", 9, Interval(middle, low, high, 0, ""), None, None)
        for number, (low, middle, high) in enumerate(map(sorted, scores))
    )
    picture = drawn(part_bars(Parts("t", "", rows, chance)))
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    for line in picture.iter("line"):
        assert all(0 <= float(line.attrib[end]) <= width for end in ("x1", "x2"))
        assert all(0 <= float(line.attrib[end]) <= height for end in ("y1", "y2"))


def test_runs_stand_between_the_lowest_and_the_highest_with_a_line_at_the_median():
    picture = drawn(run_strip(Interval(0.5, 0.4, 0.6, 3, "", (0.4, 0.6, 0.45))))
    places = [float(mark.attrib["cx"]) for mark in picture.iter("circle")]
    assert (places[2] - places[0]) / (places[1] - places[0]) == pytest.approx(0.25, abs=1e-3)
    (line,) = picture.iter("line")
    assert float(line.attrib["x1"]) == places[2]
    equal = drawn(run_strip(Interval(0.5, 0.4, 0.6, 2, "", (0.5, 0.5))))
    assert len({mark.attrib["cx"] for mark in equal.iter("circle")}) == 1


def test_reliability_has_its_points_on_the_diagonal_where_confidence_is_accuracy(found):
    pretrained, random = found.calibration
    picture = drawn(reliability(pretrained, random))
    marks = [mark for mark in picture.iter("circle") if mark.attrib["class"] == "mark pretrained"]
    (diagonal,) = (line for line in picture.iter("line") if line.attrib["class"] == "chance")
    left, right, bottom, top = (float(diagonal.attrib[end]) for end in ("x1", "x2", "y1", "y2"))
    shares = [
        ((float(mark.attrib["cx"]) - left) / (right - left), (float(mark.attrib["cy"]) - bottom) / (top - bottom))
        for mark in marks
    ]
    assert shares == [pytest.approx((0.55, 0.5), abs=1e-3), pytest.approx((0.9, 0.7), abs=1e-3)]
    assert "ECE" not in "".join(picture.itertext())


def test_people_are_diamonds_and_systems_lines(found):
    row = found.anchored[0]
    picture = drawn(anchor_strip(row.pretrained, row.anchors))
    assert len(list(picture.iter("polygon"))) == 1
    assert sum(line.attrib["class"] == "anchor" for line in picture.iter("line")) == 1


def test_a_difference_stands_around_zero_with_its_margin():
    picture = drawn(forest(-0.05, 0.05, 0.15, 0.2, 0.02, "better"))
    zero, whisker = picture.iter("line")
    (band,) = picture.iter("rect")
    (mark,) = picture.iter("circle")
    middle = float(zero.attrib["x1"])
    unit = (float(mark.attrib["cx"]) - middle) / 0.05
    assert float(whisker.attrib["x1"]) == pytest.approx(middle - 0.05 * unit, abs=0.2)
    assert float(band.attrib["width"]) == pytest.approx(0.04 * unit, abs=0.2)
    assert mark.attrib["class"] == "mark better"
