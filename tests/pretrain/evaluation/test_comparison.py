"""Two evaluations compared: which test, what is left out, verdicts, the table and the file."""

import json

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from pretrain.evaluation.comparison import compare_evaluations
from pretrain.evaluation.comparison_table import print_comparison, shown_p, write_comparison
from pretrain.evaluation.evaluated import read_evaluation
from pretrain.evaluation.multiple_comparisons import holm
from pretrain.evaluation.paired_tests import mean_difference, mean_randomisation

from .evaluations import finetuned, pairs

LABELS = np.array([0, 1] * 20)


def flipped(*places):
    """The labels, wrong at these places."""
    found = LABELS.copy()
    found[list(places)] = 1 - found[list(places)]
    return found


def compare(first, second, margin=0.01, models=("pretrained", "pretrained")):
    read = [read_evaluation("x", folder, model) for folder, model in zip((first, second), models, strict=True)]
    return compare_evaluations(*read, margin)


def test_one_run_on_single_items_is_mcnemars(tmp_path):
    first = finetuned(tmp_path / "a", LABELS, [flipped(*range(12))], signed={"model": "c1"})
    second = finetuned(tmp_path / "b", LABELS, [flipped(11, 12)], signed={"model": "c2"})
    found = compare(first, second)
    (row,) = found.rows
    assert (row.test, row.n, row.groups, row.runs) == ("mcnemar(items)", 40, 40, (1, 1))
    assert row.p == row.p_corrected == pytest.approx(stats.binomtest(1, 12).pvalue)
    assert (row.first, row.second, row.difference) == pytest.approx((28 / 40, 38 / 40, 10 / 40))
    right = [(run == LABELS).astype(float) for run in (flipped(*range(12)), flipped(11, 12))]
    exact = mean_difference(*right, np.arange(40).astype(str))
    assert (row.low, row.high) == (exact.low, exact.high)
    critical = stats.t.ppf(0.975, 39)
    assert stats.nct.sf(critical, 39, row.detectable / exact.error) == pytest.approx(0.8, abs=1e-6)
    assert row.equivalence_p == pytest.approx(stats.t.cdf((0.25 - 0.01) / exact.error, 39))
    assert row.verdict == "better"
    assert compare(second, first).rows[0].verdict == "worse"
    assert any("the first has one seed" in note and "nothing about other seeds" in note for note in found.notes)
    assert any("the second has one seed" in note for note in found.notes)
    assert any("other seeds of pretraining" in note for note in found.notes)


def test_one_run_in_groups_is_swapped_by_groups(tmp_path):
    groups = [str(at // 4) for at in range(40)]
    runs = [flipped(*range(12)), flipped(11, 12)]
    folders = [finetuned(tmp_path / str(n), LABELS, [run], groups=groups) for n, run in enumerate(runs)]
    (row,) = compare(*folders).rows
    assert (row.test, row.groups) == ("randomisation(groups)", 10)
    assert row.p == mean_randomisation(*((run == LABELS).astype(float) for run in runs), groups)


def test_several_runs_are_a_t_test_with_both_errors(tmp_path):
    first = [flipped(*range(at, at + 9)) for at in range(5)]
    second = [flipped(*range(at, at + 4)) for at in (1, 6, 11)]
    folders = [finetuned(tmp_path / str(n), LABELS, runs) for n, runs in enumerate((first, second))]
    found = compare(*folders)
    (row,) = found.rows
    exact = mean_difference(first == LABELS, second == LABELS, np.arange(40).astype(str))
    assert (row.test, row.runs, row.p) == ("t(runs+items)", (5, 3), exact.p)
    assert not any("one seed" in note for note in found.notes)


@pytest.mark.parametrize("metric", ["f1", "matthews", "spearman", "exact_match"])
def test_other_metrics_are_swapped_and_with_several_runs_resampled(tmp_path, metric):
    facts = [{"question": str(at // 2)} for at in range(40)]
    groups = [str(at // 2) for at in range(40)]
    options = {"metrics": (metric,), "facts": facts, "groups": groups}
    better, worse = flipped(0), flipped(*range(0, 30, 2))
    single = [finetuned(tmp_path / str(n), LABELS, [run], **options) for n, run in enumerate((worse, better))]
    (row,) = compare(*single).rows
    assert row.test == "randomisation(groups)" and row.p < 0.01 and row.verdict == "better"
    many = [
        finetuned(tmp_path / f"m{n}", LABELS, [run, flipped(1, *other)], **options)
        for n, (run, other) in enumerate(((worse, range(2, 30, 2)), (better, ())))
    ]
    (row,) = compare(*many).rows
    assert row.test == "bootstrap(runs+groups)" and row.low < row.difference < row.high
    reach = 1.0 if metric in ("f1", "exact_match") else 2.0
    (row,) = compare(single[0], single[0]).rows
    assert (row.difference, row.p) == (0.0, 1.0)
    assert row.high == pytest.approx(reach * (1 - 0.025 ** (1 / 20)))
    assert row.equivalence_p == pytest.approx((1 - 0.01 / reach) ** 20)
    assert stats.binom.sf(5, 20, row.detectable / reach) == pytest.approx(0.8)


def test_all_rows_are_corrected_together_and_parts_are_found(tmp_path):
    generator = np.random.default_rng(0)
    phenomena = ["x"] * 60 + ["y"] * 60
    first = (generator.random(120) < 0.6).astype(float)
    second = np.where(np.arange(120) < 60, np.maximum(first, generator.random(120) < 0.6), first)
    folders = [pairs(tmp_path / str(n), won, phenomena) for n, won in enumerate((first, second))]
    found = compare(*folders, margin=0.15)
    rows = {row.task: row for row in found.rows}
    assert list(rows) == ["blimp/overall", "blimp/x", "blimp/y", "blimp/field=syntax"]
    assert [row.p_corrected for row in found.rows] == holm([row.p for row in found.rows]).tolist()
    corrected = holm([row.equivalence_p for row in found.rows]).tolist()
    assert [row.equivalence_p_corrected for row in found.rows] == corrected
    assert rows["blimp/x"].verdict == "better" and rows["blimp/x"].p_corrected > rows["blimp/x"].p
    assert rows["blimp/y"].verdict == "equivalent" and rows["blimp/y"].p == 1.0
    assert compare(*folders, margin=0.01).rows[2].verdict == "undecided"


def test_pairs_of_one_paradigm_are_taken_as_single_items(tmp_path):
    folders = [pairs(tmp_path / str(n), won, ["x"] * 4, ["p"] * 4) for n, won in enumerate(([1, 0, 1, 0.5], [1] * 4))]
    row = compare(*folders).rows[0]
    assert (row.test, row.groups) == ("randomisation(items)", 4)
    two = [pairs(tmp_path / f"t{n}", won, ["x"] * 4, list("aabb")) for n, won in enumerate(([1, 0, 1, 0], [1] * 4))]
    row = compare(*two).rows[0]
    assert (row.test, row.groups, row.detectable) == ("randomisation(groups)", 2, 1.0)


def test_too_few_groups_can_show_nothing(tmp_path):
    folders = [
        finetuned(tmp_path / str(n), [0, 1, 0, 1, 0], [run])
        for n, run in enumerate(([1, 0, 1, 0, 1], [0, 1] * 2 + [0]))
    ]
    found = compare(*folders)
    assert found.rows[0].detectable == 1.0 and found.rows[0].p == 2 / 2**5
    assert any("with 5 groups of items no difference of single runs can be significant" in note for note in found.notes)


def test_random_weights_are_a_side_too(tmp_path):
    folder = pairs(tmp_path / "a", [1, 0, 1, 1], ["x", "x", "x", "x"])
    found = compare(folder, folder, models=("random", "pretrained"))
    assert [(row.task, row.test, row.runs, row.difference) for row in found.rows] == [
        ("blimp/overall", "t(runs+items)", (2, 1), 0.25)
    ]
    assert (found.first.name, found.second.name) == ("a (random)", "a (pretrained)")
    assert not any("other seeds of pretraining" in note or "same checkpoint" in note for note in found.notes)


def test_what_does_not_match_is_left_out_and_said(tmp_path):
    run = [flipped(1)]
    base = finetuned(tmp_path / "base", LABELS, run)
    for name, other in {
        "its task is t.1 in the first and t.2 in the second": {"signature": {"task": "t.2"}},
        "the items' texts differ (items=aa and bb in their signatures)": {"signature": {"items": "bb"}},
        "the first has 40 items and the second 38": {"count": 38},
        "where the first has '0', the second has another or a changed '0'": {"labels": 1 - LABELS},
    }.items():
        count = other.get("count", 40)
        labels = other.get("labels", LABELS)[:count]
        folder = finetuned(tmp_path / str(len(name)), labels, [run[0][:count]], signed=other.get("signature"))
        found = compare(base, folder)
        assert found.rows == () and any(name in note and note.startswith("rte: left out") for note in found.notes)
    other = finetuned(tmp_path / "other", LABELS, run, task="qnli")
    assert [note.partition(":")[0] for note in compare(base, other).notes] == ["rte", "qnli"]


def test_what_may_differ_is_said(tmp_path):
    first = finetuned(tmp_path / "a", LABELS, [flipped(1)], signed={"recipe": "r1", "train": "t1", "model": "c1"})
    second = finetuned(
        tmp_path / "b", LABELS, [flipped(2)], failed=1, signed={"recipe": "r2", "train": "t2", "model": "c1"}
    )
    notes = " ".join(compare(first, second).notes)
    assert "other recipes" in notes and "other training items" in notes and "same checkpoint" in notes
    assert "1 of 1 runs of the second are no better than knowing nothing" in notes
    assert "other recipes" not in " ".join(compare(first, first).notes)


def test_names_are_the_shortest_ends_that_differ(tmp_path):
    folders = [finetuned(tmp_path / name / "evaluate", LABELS, [flipped(1)]) for name in ("one", "two")]
    found = compare(*folders)
    assert (found.first.name, found.second.name) == ("one/evaluate", "two/evaluate")
    assert (found.first.model, found.first.checkpoint) == ("pretrained", "runs/a")


def test_whole_tasks_stand_first_in_the_table(tmp_path, capsys):
    phenomena = ["x"] * 4 + ["y"] * 4
    folders = [pairs(tmp_path / str(n), won, phenomena) for n, won in enumerate(([1, 0] * 4, [1] * 8))]
    print_comparison(compare(*folders), Console(width=160))
    lines = capsys.readouterr().out.splitlines()
    tasks = [line.split()[0] for line in lines if line.startswith(" blimp/")]
    assert tasks == ["blimp/overall", "blimp/x", "blimp/y", "blimp/field=syntax"]


def test_the_table_says_which_gaps_are_real_and_the_file_holds_all(tmp_path, capsys):
    first = finetuned(tmp_path / "a", LABELS, [flipped(*range(12))], ("accuracy", "f1"))
    second = finetuned(tmp_path / "b", LABELS, [flipped(12)], ("accuracy", "f1"))
    found = compare(first, second)
    print_comparison(found, Console(width=160))
    text = capsys.readouterr().out
    assert "second: b, first: a" in text
    assert "+0.275 [" in text and " mcnemar " in text and " randomisation " in text
    assert "Real: the second is better at rte (accuracy), rte (f1)." in text
    assert "corrected over all 2 rows" in text and "within +-0.01" in text and "at 5% finds here with power 0.8" in text
    print_comparison(compare(first, first), Console(width=160))
    assert "Undecided, which is not equal: the gap may be chance at rte (accuracy)" in capsys.readouterr().out
    print_comparison(compare(first, second, margin=0.9), Console(width=160))
    assert "Real, but smaller than 0.9: rte (accuracy)" in capsys.readouterr().out
    print_comparison(compare(first, first, margin=0.5), Console(width=160))
    assert "Equal but for +-0.5: rte (accuracy)" in capsys.readouterr().out
    write_comparison(tmp_path / "comparison.json", found)
    record = json.loads((tmp_path / "comparison.json").read_text())
    assert set(record) == {"format", "first", "second", "margin", "level", "power", "rows", "notes"}
    assert (record["format"], record["margin"], record["level"], record["power"]) == (1, 0.01, 0.05, 0.8)
    assert record["first"] == {"name": "a", "path": str(first), "model": "pretrained", "checkpoint": "runs/a"}
    agreed = {
        *("task", "metric", "n", "first", "second", "difference", "low", "high", "test", "p", "p_corrected"),
        *("detectable", "equivalence_p", "verdict"),
    }
    assert agreed <= set(record["rows"][0])


def test_small_p_values_are_shown_as_such():
    assert [shown_p(p) for p in (0.0009, 0.001, 0.0124, 1.0)] == ["<0.001", "0.001", "0.012", "1.000"]
