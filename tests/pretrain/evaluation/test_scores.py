"""Scores: the file's form, comparisons, and the table as text."""

import json

import pytest
from rich.console import Console

from pretrain.evaluation.behaviour import Behaviour
from pretrain.evaluation.calibration import Bin, Calibration
from pretrain.evaluation.power import planned_difference
from pretrain.evaluation.scores import CurveSizes, Outcome, Published, Runs, short, signature, write_items, write_scores
from pretrain.evaluation.statistics import Estimate
from pretrain.evaluation.table import print_behaviour, print_scores


@pytest.fixture
def outcome() -> Outcome:
    found = Outcome(notes=["b: 1 of 2 runs failed"])
    good, bad = Estimate(0.9, 0.8, 0.95), Estimate(0.5, 0.45, 0.55)
    found.add("a", "accuracy", 40, {"pretrained": (good, (1, 2), "sa"), "random": (bad, (3, 4), "sr")})
    found.add("b", "accuracy", 20, {"pretrained": (bad, (1, 2), "sa"), "random": (bad, (3, 4), "sr")})
    found.add("c", "accuracy", 10, {"pretrained": (bad, (1, 2), "sa")})
    return found


def test_scores_json_has_the_agreed_form(tmp_path, outcome):
    write_scores(tmp_path / "scores.json", [outcome])
    record = json.loads((tmp_path / "scores.json").read_text())
    assert len(record["scores"]) == 5
    assert record["scores"][0] == {
        "task": "a",
        "metric": "accuracy",
        "model": "pretrained",
        "value": 0.9,
        "interval": [0.8, 0.95],
        "n": 40,
        "seeds": [1, 2],
        "signature": "sa",
        "runs": [],
        "failed": 0,
    }
    assert [(row["task"], row["verdict"]) for row in record["comparisons"]] == [("a", "wins"), ("b", "undecided")]
    assert record["comparisons"][0]["difference"] == pytest.approx(0.4)
    assert record["notes"] == ["b: 1 of 2 runs failed"]
    assert record["calibration"] == []


def test_scores_json_holds_calibration(tmp_path):
    found = Calibration("a", "pretrained", 2, 40, 0.1, 0.3, (Bin(0.9, 0.8, 80),))
    write_scores(tmp_path / "scores.json", [Outcome(calibration=[found])])
    assert json.loads((tmp_path / "scores.json").read_text())["calibration"] == [
        {
            "task": "a",
            "model": "pretrained",
            "runs": 2,
            "n": 40,
            "ece": 0.1,
            "brier": 0.3,
            "bins": [{"confidence": 0.9, "accuracy": 0.8, "count": 80}],
        }
    ]


def test_what_a_report_needs_is_written_beside_the_scores(tmp_path, outcome):
    outcome.anchors.append(Published("a", "accuracy", "human", 0.95, "test", "Someone 2020", False, "dev"))
    outcome.curves.append(CurveSizes("a", {"a/10": 10, "a/20": 20}, "a/area"))
    write_scores(tmp_path / "scores.json", [outcome])
    record = json.loads((tmp_path / "scores.json").read_text())
    assert record["curves"] == [{"task": "a", "sizes": {"a/10": 10, "a/20": 20}, "area": "a/area"}]
    (anchor,) = record["anchors"]
    assert anchor == {
        "task": "a",
        "metric": "accuracy",
        "system": "human",
        "value": 0.95,
        "split": "test",
        "source": "Someone 2020",
        "tuned": False,
        "scored": "dev",
    }


def test_a_score_that_is_no_number_is_never_written(tmp_path):
    outcome = Outcome()
    outcome.add("a", "accuracy", 1, {"pretrained": (Estimate(float("nan"), 0.0, 1.0), (), "s")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_scores(tmp_path / "scores.json", [outcome])
    assert not (tmp_path / "scores.json").exists()


def test_the_table_says_what_wins_and_what_does_not(outcome, capsys):
    print_scores([outcome], "the test's model", Console(width=120))
    text = capsys.readouterr().out
    assert "0.900 [0.800, 0.950]" in text and "0.500 [0.450, 0.550]" in text
    assert "Pretraining wins, outside the intervals: a." in text
    assert "Undecided (the intervals meet): b." in text
    assert "Note: b: 1 of 2 runs failed." in text


def test_the_table_shows_median_and_spread_of_the_seeds_and_the_gap_that_can_be_seen(capsys):
    outcome = Outcome()
    estimate = Estimate(0.8, 0.75, 0.85)
    runs = {"pretrained": Runs((0.7, 0.81, 0.89)), "random": Runs((0.8,))}
    models = {"pretrained": (estimate, (1, 2, 3), "s"), "random": (estimate, (1,), "s")}
    outcome.add("a", "accuracy", 1000, models, runs)
    outcome.add("b", "matthews", 1000, models, {"pretrained": Runs((0.7, 0.9))})
    print_scores([outcome], "the test's model", Console(width=140))
    text = capsys.readouterr().out
    assert text.count("median") == 2 and "median 0.810, sd 0.095" in text and "median 0.800, sd 0.141" in text
    assert text.count(f"{planned_difference(1000, 0.8):.3f}") == 1
    assert "power 0.8" in text and "test at 5%" in text
    print_scores([Outcome(outcome.scores[2:])], "the test's model", Console(width=140))
    assert "power" not in capsys.readouterr().out


def test_a_behavioural_report_is_in_the_file_and_in_a_table_of_its_own(tmp_path, capsys):
    rows = [
        Behaviour("hans", "heuristic=lexical", "accuracy", model, value, (value - 0.1, value + 0.1), 30, "note")
        for model, value in (("pretrained", 0.25), ("random", 0.5))
    ]
    outcome = Outcome(behaviour=[*rows, Behaviour("hans", "label: a - b", "gap", "pretrained", -0.2, (-0.5, 0.1), 60)])
    write_scores(tmp_path / "scores.json", [outcome])
    written = json.loads((tmp_path / "scores.json").read_text())["behaviour"]
    assert len(written) == 3 and written[0] == {
        "task": "hans",
        "test": "heuristic=lexical",
        "kind": "accuracy",
        "model": "pretrained",
        "value": 0.25,
        "interval": [0.15, 0.35],
        "n": 30,
        "note": "note",
    }
    print_behaviour([outcome], Console(width=120))
    text = capsys.readouterr().out
    assert "Behaviour: hans" in text and "random weights" in text
    (line,) = [line for line in text.splitlines() if "heuristic=lexical" in line]
    assert "0.250 [0.150, 0.350]" in line and "0.500 [0.400, 0.600]" in line and "accuracy" in line
    assert "-0.200 [-0.500, 0.100]" in text and "gap" in text


def test_items_are_one_json_line_each(tmp_path):
    write_items(tmp_path / "items.jsonl", Outcome(items=[{"id": 1}, {"id": "é"}]))
    lines = (tmp_path / "items.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [{"id": 1}, {"id": "é"}]


def test_signature_by_hand():
    assert signature(task="cola.1", seeds="1,2") == "task=cola.1|seeds=1,2"
    assert short("sha256:0123456789abcdef") == short("0123456789abcdef") == "0123456789ab"
