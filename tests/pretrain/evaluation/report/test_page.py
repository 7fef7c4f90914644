"""The page of an evaluation alone: which sections it has, and what they say."""

import json
import re
from html.parser import HTMLParser

import pytest

from pretrain.evaluation.comparison import compare_evaluations
from pretrain.evaluation.comparison_table import write_comparison
from pretrain.evaluation.evaluated import read_evaluation
from pretrain.evaluation.report.facts import Shown, collect_evaluation
from pretrain.evaluation.report.page import render, statements
from pretrain.evaluation.report.score_facts import read_scores
from pretrain.evaluation.report.writing import write_evaluation_page

from ..evaluations import pairs
from .records import COMPARISON, WHOLE, score, write_evaluation, write_items


class Words(HTMLParser):
    """The visible text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.feed(re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL))
        self.text = " ".join(" ".join(self.words).split())

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    folder = write_evaluation(tmp_path_factory.mktemp("evaluation") / "mine", **WHOLE)
    row = {
        "set": "rte",
        "id": "r1",
        "group": "g",
        "label": 0,
        "label_names": ["not_entailment", "entailment"],
        "item": {"text_a": "A dog <barks>.", "text_b": "A cat."},
        "predictions": {"pretrained-1": 1, "pretrained-2": 1},
        "label_probabilities": {"pretrained-1": 0.1, "pretrained-2": 0.2},
    }
    write_items(folder, "rte", [row])
    write_items(folder, "left_by_another_suite", [{**row, "set": "left_by_another_suite"}])
    (folder / "comparison.json").write_text(json.dumps(COMPARISON))
    return folder


@pytest.fixture(scope="module")
def html(evaluation):
    return render(collect_evaluation(evaluation, "mine", Shown(), evaluation))


@pytest.mark.parametrize(
    "fact",
    [
        "Against the same model with random weights, pretraining wins 1 of 1 comparisons",
        "Of 4 published figures 1 lie below our intervals, 1 above, and 2 within.",
        "0.620 0.570 to 0.670 3 seeds, 1 failed",
        "rte accuracy, dev, 277 items",
        "BERT-base cased 1 dev 0.657 -0.037 undecided",
        "human 1 test, not dev 0.936 -0.316 below, real",
        "piqa zero shot accuracy, dev, 200 items, zero-shot",
        "BERT-large 2 fine-tuned, test, not dev 0.668 -0.008 undecided",
        "a smaller <one> 2 fine-tuned, dev 0.550 +0.110 above, real",
        "Someone 2020, about piqa_zero_shot",
        "Area under the curve, in the unit of the score: 0.540 (0.490 to 0.590)",
        "blimp, by field pair accuracy, 3 parts",
        "rte accuracy 0.600 0.6000 0.6100 0.6500 0.650 0.610 0.620 0.026 1 of 3",
        "rte pretrained: ECE 0.111, Brier 0.240 random weights: ECE 0.042, Brier 0.240",
        "INV: names a name was changed 60 0.200 0.100 to 0.300 0.500 0.400 to 0.600",
        "test items pretrained random weights -0.10 to 0.10 female - male 240 -0.060 -0.100 to -0.020",
        "small and large",
        "+0.080 +0.030 to +0.130 < 0.001 0.061 better",
        "Note: rte: the recipes <differ>.",
        "rte 1 of 1 wrong",
        "A dog <barks>. A cat. r1 not_entailment entailment 0.850",
        "task=rte.1|items=3c45f021|metric=accuracy.1|model=pretrained|seeds=3",
    ],
)
def test_the_page_shows(html, fact):
    assert fact in Words(html).text


def test_a_comparison_begins_with_whole_tasks(evaluation, tmp_path):
    phenomena = ["x"] * 4 + ["y"] * 4
    folders = [pairs(tmp_path / name, won, phenomena) for name, won in (("a", [1, 0] * 4), ("b", [1] * 8))]
    compared = compare_evaluations(*(read_evaluation("x", folder, "pretrained") for folder in folders), 0.01)
    write_comparison(tmp_path / "comparison.json", compared)
    text = Words(render(collect_evaluation(evaluation, "mine", Shown(), tmp_path))).text
    places = [text.index(name) for name in ("blimp, overall", "blimp, x", "blimp, y", "blimp, field=syntax")]
    assert places == sorted(places)


def test_an_evaluation_alone_misses_nothing_of_a_chain(html):
    text = Words(html).text
    for word in ("Missing", "No training yet", "No data yet", "Steps", "left_by_another_suite", "Examples"):
        assert word not in text
    assert set(re.findall(r'<nav>.*</nav>', html)[0].split('"')[1::2]) == {
        f"#{name}"
        for name in re.findall(r'<h2 id="([^"]*)"', html)
    }  # fmt: skip
    assert not re.search(r"https?://|url\(|@import|<script", html)


def test_an_evaluation_without_random_weights_has_no_column_for_them(tmp_path):
    folder = write_evaluation(tmp_path, scores=[score("rte", 0.6, seeds=(1, 2), runs=(0.6, 0.6))])
    text = Words(render(collect_evaluation(folder, "one", Shown()))).text
    assert "random weights" not in text and "verdict" not in text and "fine-tuned" in text
    for section in ("Against published", "Learning curves", "By phenomenon", "Calibration", "Behaviour", "Worst"):
        assert section not in text


def both(task, number, metric="accuracy"):
    """Scores of a task that is won, for one and for the other model."""
    return [
        score(f"{task}{number}", value, 0.01, model, metric, seeds=(1, 2))
        for model, value in (("pretrained", 0.9), ("random", 0.5))
    ]


def test_a_sentence_names_twelve_tasks_and_counts_the_others(tmp_path):
    scores = [row for number in range(15) for row in both("t", number)]
    scores += both("t", 0, "f1")  # a task of two metrics is named once
    scores += [row for number in range(13) for row in both("blimp/p", number, "pair_accuracy")]
    ((verdict, sentence),) = statements(read_scores(write_evaluation(tmp_path, scores=scores) / "scores.json"))
    assert verdict == "wins" and sentence.count("(fine-tuned)") == 12
    assert sentence.endswith("t11 (fine-tuned) and 3 more, 13 of the 13 parts of blimp.")


def test_the_page_is_written_once_and_only_anew_when_the_scores_change(tmp_path):
    folder = write_evaluation(tmp_path, scores=[score("rte", 0.6)])
    page = write_evaluation_page(folder)
    stamp = page.stat().st_mtime_ns
    write_evaluation_page(folder)
    assert page.stat().st_mtime_ns == stamp
    write_evaluation(folder, scores=[score("rte", 0.7)])
    assert "0.700" in write_evaluation_page(folder).read_text()


def test_many_notes_are_folded(tmp_path):
    for count, folded in ((4, False), (5, True)):
        notes = [f"t: note {number}" for number in range(count)]
        folder = write_evaluation(tmp_path, scores=[score("t", 0.6)], notes=notes)
        html = render(collect_evaluation(folder, "one", Shown()))
        assert html.count("Note: t: note") == count and (f"<summary>{count} notes</summary>" in html) == folded
