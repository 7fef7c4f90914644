"""`python -m pretrain.report` as a user runs it, on a run directory written by hand."""

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.helpers.warm_python import run_module

HASH = "sha256:" + "ab" * 32


def score(task: str, model: str, value: float, low: float, high: float, metric: str = "pair_accuracy") -> dict:
    seeds = [0, 1, 2] if model == "random" or metric == "accuracy" else []
    signature = f"task={task}|model={model}"
    return {
        "task": task,
        "metric": metric,
        "model": model,
        "value": value,
        "interval": [low, high],
        "n": 400,
        "seeds": seeds,
        "signature": signature,
    }


def write_run(folder: Path) -> Path:
    """A whole run, every part with figures of its own."""
    run = folder / "demo"
    files: dict[str, object] = {
        "corpus/manifest.json": {
            "counts": {"read": 31000, "kept": 29000, "dropped": {"too_short": 1990}, "failed": 10},
            "failures": {"undecodable": 7, "not_json": 3},
        },
        "tokenizer/tokenizer.json": {"model": {"vocab": {str(index): index for index in range(8192)}}},
        "shards/manifest.json": {
            "row_length": 128,
            "fill": 0.99996,
            "content_hash": HASH,
            "tokenizer_hash": "sha256:" + "cd" * 32,
            "counts": {"read": 29000, "kept": 27119, "dropped": {"exact_duplicate": 1877}, "failed": 4},
            "shards": [
                {"split": "train", "rows": 70000, "tokens": 8900000},
                {"split": "train", "rows": 1, "tokens": 5},
                {"split": "validation", "rows": 1400, "tokens": 177000},
            ],
        },
        "shards/shards/0000/00000-aa.json": {"failures": {"no_text": 1}},
        "shards/shards/0000/00001-bb.json": {"failures": {"no_text": 2, "damaged_file": 1}},
        "tasks/word_order/task.json": {
            "name": "word_order",
            "counts": {"train": 2000, "dev": 500},
            "content_hash": "sha256:" + "ef" * 32,
        },
        "pretrain/provenance.json": {
            "git": {"commit": "0123abcd", "dirty": True},
            "config_hash": "c0ffee",
            "versions": {"torch": "2.13.0", "python": "3.11.7"},
            "machine": {"platform": "Linux-6.1"},
        },
        "evaluate/provenance.json": {"git": {}, "config_hash": "beef", "inputs": {"checkpoint": "sha256:feed"}},
        "pretrain/checkpoints/step-00001000/state.json": {
            "step": 1000,
            "vocab_size": 8192,
            "model": {"num_layers": 2, "hidden_size": 128, "norm": "pre"},
        },
        "evaluate/scores.json": {
            "format": 1,
            "scores": [
                score("minimal_pairs/subject_verb", "pretrained", 0.512, 0.46, 0.56),
                score("minimal_pairs/subject_verb", "random", 0.498, 0.44, 0.55),
                score("minimal_pairs/word_order", "pretrained", 0.871, 0.82, 0.91),
                score("minimal_pairs/word_order", "random", 0.430, 0.31, 0.55),
                score("minimal_pairs/reflexives", "pretrained", 0.310, 0.25, 0.37),
                score("minimal_pairs/reflexives", "random", 0.520, 0.45, 0.59),
                score("minimal_pairs/overall", "pretrained", 0.617, 0.58, 0.65),
                score("minimal_pairs/overall", "random", 0.489, 0.45, 0.53),
                score("word_order", "pretrained", 0.784, 0.75, 0.81, "accuracy"),
                score("word_order", "random", 0.561, 0.51, 0.61, "accuracy"),
                score("adjacent_passages", "pretrained", 0.642, 0.60, 0.68, "accuracy"),
            ],
            "notes": ["word_order: 1 of 5 runs of the random model are no better than <always> the same label"],
        },
        "steps/tokenizer.json": {
            "step": "tokenizer",
            "command": ["/usr/bin/python3", "-m", "pipeline", "job=tokenizer", "corpus.paths=['a b']"],
            "started": "2026-01-02T03:04:05+00:00",
            "seconds": 61.2,
            "outputs": {"tokenizer/tokenizer.json": {"bytes": 212000, "fingerprint": HASH}},
        },
        "steps/pretrain.json": {
            "step": "pretrain",
            "command": ["/usr/bin/python3", "-m", "pretrain", "experiment=demo"],
            "started": "2026-01-02T03:06:05+00:00",
            "seconds": 290.0,
            "outputs": {},
        },
        "steps/fingerprints.json": {},
    }
    for name, content in files.items():
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    (run / "pretrain/checkpoints/latest").write_text("step-00001000\n")
    (run / "pretrain/config.yaml").write_text("seed: 0\n")
    metrics = [
        {
            "step": step,
            "loss": 3.9 + 5.1 * math.exp(-step / 180),
            "tokens_per_second": 21000.0 + 900 * math.sin(step),
            "tokens": step * 8192,
            "elapsed": step * 0.29,
        }
        for step in range(10, 1001, 10)
    ]
    validation = [
        {"step": step, "validation_loss": 4.0 + 5.0 * math.exp(-step / 180)} for step in range(250, 1001, 250)
    ]
    (run / "pretrain/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics + validation))
    items = [
        {
            "phenomenon": "word_order",
            "template": str(index // 2),
            "slots": {"person": f"teacher {index}"},
            "good": f"The <b>teacher</b> reads book {index}.",
            "bad": f"Teacher the reads book {index}.",
            "scores": {"pretrained": [-10.0, -12.5], "random-0": [-40.0, -39.0], "random-1": [-1.0, -2.0]},
        }
        for index in range(8)
    ]
    (run / "evaluate/items").mkdir()
    (run / "evaluate/items/minimal_pairs.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return run


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def report(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "pretrain.report", *arguments]
    return run_module(command)


class Page(HTMLParser):
    """The visible text of a page, and every address it points to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.tags.add(tag)
        self.addresses += [value for name, value in attributes if name in ("href", "src", "action", "data")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = write_run(tmp_path_factory.mktemp("report"))
    done = report(f"run_dir={run}")
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    return Page((run / "report.html").read_text())


def test_the_page_stands_alone(run: Path, page: Page) -> None:
    assert all(address.startswith("#") for address in page.addresses)
    assert page.tags.isdisjoint({"script", "link", "img", "iframe"})
    assert not re.search(r"https?://|url\(|@import", (run / "report.html").read_text())


@pytest.mark.parametrize(
    "fact",
    [
        "Trained 1,000 steps on 8,192,000 tokens in 4 min 50 s, to a validation loss 4.019",
        "pretraining wins 3 of 5 comparisons outside the intervals, loses 1, and 1 are undecided",
        "wins, outside the intervals: word order (minimal pairs), minimal pairs overall, word order (fine-tuned).",
        "Undecided (the intervals meet): subject verb (minimal pairs).",
        "Random weights win, outside the intervals: reflexives (minimal pairs).",
        "0.871 0.820 to 0.910",
        "not measured",
        "31,000 29,000 too short 1,990 10 undecodable: 7 not json: 3",
        "29,000 27,119 exact duplicate 1,877 4 no text: 3 damaged file: 1",
        "70,001 rows, 8,900,005 tokens",
        "entries 8,192",
        "fill 99.99 %",
        "python -m pipeline job=tokenizer \"corpus.paths=['a b']\" 1 min 1 s 212.0 kB",
        "5 min 51 s",
        "0123abcd with local changes",
        HASH,
        "sha256:feed",
        "torch 2.13.0",
        "seed: 0",
        "layers 2",
        "The <b>teacher</b> reads book 0. Teacher the reads book 0. +2.50 -1.00",
        "no better than <always> the same label",
    ],
)
def test_the_page_shows(page: Page, fact: str) -> None:
    assert fact in page.text


def test_examples_are_the_first_of_different_templates(page: Page) -> None:
    examples = page.text.split("Pairs to audit")[0]
    assert [number in examples for number in ("book 0.", "book 1.", "book 2.", "book 4.")] == [
        True,
        False,
        True,
        False,
    ]


def test_pairs_to_audit_are_folded_below_the_examples_with_what_filled_their_slots(run: Path) -> None:
    text = (run / "report.html").read_text()
    assert "<summary>word order" in text
    folded = text.split("<summary>word order")[1].split("</details>")[0]
    assert "8 of 8 pairs, 4 templates" in folded
    assert folded.count("person: teacher ") == 8
    assert '<b class="right">The &lt;b&gt;teacher&lt;/b&gt;</b>' in folded and '<b class="wrong">Teacher the' in folded


def test_the_audit_can_be_left_out_and_a_count_below_zero_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert report(f"run_dir={run}", "audited=0", "examples=0").returncode == 0
    assert "Pairs to audit" not in (run / "report.html").read_text()
    done = report(f"run_dir={run}", "audited=-1")
    assert done.returncode == 2 and "option 'audited' must be at least 0, but is -1" in done.stderr


def test_the_scores_are_copied_beside_the_page(run: Path) -> None:
    assert (run / "scores.json").read_bytes() == (run / "evaluate/scores.json").read_bytes()


def test_an_unchanged_run_is_left_as_it_is_and_a_changed_one_gets_a_new_page(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert "report.html: written" in report(f"run_dir={run}").stdout
    # What a chain writes once the report is made.
    own = {"step": "report", "command": [], "started": "2026-01-03", "outputs": {"report.html": {}, "scores.json": {}}}
    (run / "steps/report.json").write_text(json.dumps(own))
    stamps = {name: (run / name).stat().st_mtime_ns for name in ("report.html", "scores.json")}
    assert "nothing new" in report(f"run_dir={run}").stdout
    assert {name: (run / name).stat().st_mtime_ns for name in stamps} == stamps
    (run / "shards/shards/0000/00000-aa.json").write_text('{"failures": {"no_text": 9}}')
    assert "report.html: written" in report(f"run_dir={run}").stdout


def test_a_run_that_has_only_begun_is_shown_with_what_is_missing(tmp_path: Path) -> None:
    whole = write_run(tmp_path)
    begun = tmp_path / "begun"
    begun.mkdir()
    (whole / "shards").rename(begun / "shards")
    done = report(f"run_dir={begun}", "title='Only <begun>'")
    assert done.returncode == 0, done.stderr
    text = Page((begun / "report.html").read_text()).text
    assert "Only <begun>" in text
    assert "No scores yet" in text and "No training yet" in text
    assert "the report shows this as missing: scores" in done.stderr
    assert not (begun / "scores.json").exists()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda run: (run / "evaluate/scores.json").write_text("{"), "scores.json' cannot be read as JSON"),
        (
            lambda run: (run / "evaluate/scores.json").write_text('{"scores": [{}]}'),
            "is no file of scores (field 'task')",
        ),
        (
            lambda run: replace_in(run / "evaluate/scores.json", ": 0.871,", ": NaN,"),
            "scores.json': 'value' of minimal_pairs/word_order, pair_accuracy, pretrained in 'scores' must be a finite",
        ),
        (
            lambda run: replace_in(run / "evaluate/scores.json", ": [0.31, 0.55]", ": [0.31, Infinity]"),
            "'interval.1' of minimal_pairs/word_order, pair_accuracy, random in 'scores' must be a finite number, but",
        ),
        (lambda run: (run / "pretrain/metrics.jsonl").write_text("x\n{}\n"), "line 1 of"),
    ],
)
def test_a_damaged_part_is_one_sentence_that_names_the_file(tmp_path: Path, damage, sentence: str) -> None:
    run = write_run(tmp_path)
    damage(run)
    done = report(f"run_dir={run}")
    assert done.returncode == 2
    assert sentence in done.stderr and "Traceback" not in done.stderr
    assert not (run / "report.html").exists()


def test_a_folder_without_any_part_of_a_run_is_refused(tmp_path: Path) -> None:
    done = report(f"run_dir={tmp_path}")
    assert done.returncode == 2
    assert "there is nothing to report" in done.stderr


def test_a_folder_that_does_not_exist_is_refused_and_not_made(tmp_path: Path) -> None:
    done = report(f"run_dir={tmp_path}/none")
    assert done.returncode == 2
    assert "there is no folder" in done.stderr
    assert not (tmp_path / "none").exists()


def test_a_folder_that_was_typed_and_is_not_there_is_an_error_and_the_page_stays(tmp_path):
    (tmp_path / "report.html").write_text("old")
    words = [sys.executable, "-m", "pretrain.report", f"run_dir={tmp_path}", f"evaluate={tmp_path}/nope"]
    done = run_module(words)
    assert done.returncode == 2 and "option 'evaluate' must be a folder" in done.stderr
    assert (tmp_path / "report.html").read_text() == "old"


def test_an_evaluation_by_itself_gets_a_page_of_its_scores_alone(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    done = report(f"run_dir={run / 'evaluate'}")
    assert done.returncode == 0, done.stderr
    assert "missing" not in done.stderr
    text = Page((run / "evaluate/report.html").read_text()).text
    assert "word order (minimal pairs)" in text and "No training yet" not in text and "Steps" not in text


def test_two_checkpoints_are_shown_from_a_comparison_and_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    row = {"task": "word_order", "metric": "accuracy", "n": 500, "first": 0.7, "second": 0.8, "difference": 0.1}
    row |= {"low": 0.05, "high": 0.15, "test": "McNemar", "p": 0.001, "p_corrected": 0.002, "detectable": 0.05}
    row |= {"equivalence_p": 0.9, "equivalence_p_corrected": 0.9, "groups": 500, "runs": [1, 1], "verdict": "better"}
    sides = {
        side: {"name": f"{side} <one>", "path": "p", "model": "pretrained", "checkpoint": "c"}
        for side in ("first", "second")
    }
    record = {"format": 1, **sides, "margin": 0.01, "rows": [row], "notes": []}
    (tmp_path / "comparison.json").write_text(json.dumps(record))
    assert report(f"run_dir={run}", f"comparison={tmp_path}").returncode == 0
    text = Page((run / "report.html").read_text()).text
    assert "first <one> and second <one>" in text and "+0.100 +0.050 to +0.150 0.002 0.050 better" in text
    done = report(f"run_dir={run}", f"comparison={run}")
    assert done.returncode == 2 and "option 'comparison' must be the output folder" in done.stderr


def test_parts_that_lie_elsewhere_are_named_one_by_one(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run / "corpus").rename(elsewhere / "texts")
    (run / "shards").rename(elsewhere / "rows")
    done = report(f"run_dir={run}", f"documents={elsewhere / 'texts'}", f"shards={elsewhere / 'rows'}")
    assert done.returncode == 0, done.stderr
    assert "31,000 29,000 too short 1,990" in Page((run / "report.html").read_text()).text
    done = report(f"run_dir={run}", f"shards={elsewhere / 'gone'}")
    assert done.returncode == 2 and "option 'shards' must be a folder of a run" in done.stderr
