"""From scores.json to what is shown: verdicts against anchors and chance, curves, parts."""

import pytest

from conf.errors import InputError
from pretrain.evaluation.report.score_facts import Interval, compare, read_scores

from .records import WHOLE, score, write_evaluation


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return read_scores(write_evaluation(tmp_path_factory.mktemp("evaluation"), **WHOLE) / "scores.json")


def interval(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 3, "")


def test_a_score_wins_only_where_the_intervals_do_not_meet():
    assert compare(interval(0.6, 0.7), interval(0.4, 0.5)) == "wins"
    assert compare(interval(0.4, 0.5), interval(0.6, 0.7)) == "loses"
    assert compare(interval(0.5, 0.7), interval(0.4, 0.5)) == "undecided"
    assert compare(interval(0.5, 0.7), None) is None


def test_a_gap_is_real_only_where_the_interval_excludes_the_published_figure(found):
    anchors = {
        (row.task, anchor.system): (anchor.gap, anchor.verdict) for row in found.anchored for anchor in row.anchors
    }
    assert anchors == {
        ("rte", "BERT-base cased"): (pytest.approx(0.62 - 0.657), "undecided"),
        ("rte", "human"): (pytest.approx(0.62 - 0.936), "below"),
        ("piqa_zero_shot", "BERT-large"): (pytest.approx(0.66 - 0.668), "undecided"),
        ("piqa_zero_shot", "a smaller <one>"): (pytest.approx(0.11), "above"),
    }
    assert interval(0.5, 0.6).against(0.5) == interval(0.5, 0.6).against(0.6) == "undecided"


def test_an_anchor_of_another_metric_is_of_another_score(tmp_path):
    anchors = [{**WHOLE["anchors"][0], "metric": "f1"}]
    path = write_evaluation(tmp_path, scores=[score("rte", 0.6)], anchors=anchors) / "scores.json"
    assert read_scores(path).anchored == []


def test_a_curve_has_its_points_by_size_and_its_area(found):
    (curve,) = found.curves
    assert [(point.size, point.row.task) for point in curve.points] == [
        (160, "winogrande/xs"),
        (640, "winogrande/s"),
        (2558, "winogrande/m"),
    ]
    assert curve.area is not None and curve.area.pretrained.value == 0.54


def test_parts_are_sorted_and_grouped_by_fact_and_curves_are_none(found):
    assert [(part.task, part.fact, [part.name(row) for row in part.rows]) for part in found.parts] == [
        ("blimp", "", ["anaphor gender", "ellipsis", "npi", "wh island"]),
        ("blimp", "field", ["morphology", "syntax", "semantics"]),
    ]
    assert {part.chance for part in found.parts} == {0.5}
    assert [row.task for row in found.main_rows] == ["rte", "piqa_zero_shot", "winogrande/area", "blimp/overall"]


def test_two_parts_stay_in_the_table_and_accuracy_has_no_chance_of_its_own(tmp_path):
    scores = [score(f"copa/question={name}", 0.6) for name in ("cause", "effect")]
    found = read_scores(write_evaluation(tmp_path / "a", scores=scores) / "scores.json")
    assert found.parts == [] and len(found.main_rows) == 2
    scores.append(score("copa/question=both", 0.6))
    (part,) = read_scores(write_evaluation(tmp_path / "b", scores=scores) / "scores.json").parts
    assert part.chance is None


def test_a_score_of_its_own_with_seeds_is_fine_tuned(found):
    assert {row.task: row.tuned for row in found.main_rows} == {
        "rte": True,
        "piqa_zero_shot": False,
        "winogrande/area": True,
        "blimp/overall": False,
    }


@pytest.mark.parametrize("damage", [{"scores": [{}]}, {"calibration": [{"task": "x"}]}, {"behaviour": [{"task": "x"}]}])
def test_what_is_no_file_of_scores_is_one_sentence(tmp_path, damage):
    path = write_evaluation(tmp_path, **damage) / "scores.json"
    with pytest.raises(InputError, match="is no file of scores"):
        read_scores(path)
