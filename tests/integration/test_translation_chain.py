"""The chains of translation from nothing to their tables, small: each step's output fits the next."""

import json
import subprocess
import sys

import pytest

from tests.helpers.ranks import REPOSITORY
from tests.helpers.warm_python import run_module

TINY = ["model=mass_tiny", "trainer.max_steps=90", "trainer.validation_every=0", "schedule.warmup=20", "ranks=1"]
FEW = [*TINY, "trainer.max_steps=20", "schedule.warmup=5", "objective.scored_sentences=0"]


def start(*words):
    command = [sys.executable, "-m", "slurm.submit", "cluster=local", *words]
    return run_module(command, cwd=REPOSITORY, timeout=900)


def options_of(step, *words):
    return [f"++chain.steps.{step}.options.{word}" for word in words if not word.startswith("model=")]


@pytest.mark.full  # two minutes of two cores
def test_the_demo_compares_its_three_arms_and_a_second_start_finds_it_complete(tmp_path):
    models = ["reverse", "forward", "bitext_only", "mass", "mass_then_bitext"]
    small = [word for step in models for word in options_of(step, *TINY)]
    small += [
        "chain.steps.data.options.job.bitext_pairs=600",
        "chain.steps.data.options.job.monolingual_sentences=600",
        "++chain.steps.data.options.job.test_pairs=60",
        "++chain.steps.data.options.job.validation_pairs=20",
        # A model of so few steps says the same over and over.
        "++chain.steps.pairs.options.job.max_repeats=null",
        "++chain.steps.pairs.options.job.max_ratio=null",
        "++chain.steps.pairs.options.job.language_confidence=null",
        "++chain.steps.pairs.options.job.direction_check=off",
        "++chain.steps.pairs.options.job.deduplicate=false",
    ]
    words = ["chain=demo_translation", f"run_dir={tmp_path / 'run'}", *small]
    done = start(*words)
    assert done.returncode == 0, done.stderr
    scores = json.loads((tmp_path / "run" / "compare" / "scores.json").read_text())
    assert {score["arm"] for score in scores["scores"]} == {
        "bitext_only",
        "back_translation",
        "mass_then_bitext",
        "lookup",
    }
    assert {score["group"] for score in scores["scores"]} == {"all", "names seen in bitext", "only in monolingual"}
    again = start(*words)
    assert again.returncode == 0 and "nothing to do" in again.stdout, again.stderr


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    """English and German sentences: a bitext, monolingual text of each side, and a test set."""
    folder = tmp_path_factory.mktemp("sentences") / "data"
    words = ["job=cldr_bitext", f"output={folder}", "job.source=en", "job.target=de", "job.bitext_pairs=600"]
    words += ["job.monolingual_sentences=300", "job.test_pairs=40", "job.validation_pairs=20"]
    subprocess.run([sys.executable, "-m", "pipeline", *words], cwd=REPOSITORY, check=True, timeout=300)
    return folder


LENIENT = [  # a model of so few steps says the same over and over
    "max_repeats=null",
    "max_ratio=null",
    "language_confidence=null",
    "direction_check=off",
    "deduplicate=false",
]


@pytest.mark.full  # two minutes of two cores
def test_a_second_round_of_back_translation_learns_from_the_first_rounds_translations(tmp_path, sentences):
    run = tmp_path / "run"
    models = ["reverse", "reverse_again", "forward", "bitext_only"]
    small = [word for step in models for word in options_of(step, *FEW)]
    small += [f"++chain.steps.{step}.options.job.{word}" for step in ("pairs", "back_pairs") for word in LENIENT]
    for step in ("text", "back_text", "test_bitext_only", "test_forward"):
        small += options_of(step, "decoding.maximum_length=8", "decoding.maximum_ratio=0")
        small.append(f"++chain.steps.{step}.groups.decoding=greedy")
    done = start(
        "chain=back_translation",
        f"run_dir={run}",
        "chain.source_language=en",
        "chain.target_language=de",
        "chain.experiment=translation_small",
        "chain.vocab_size=600",
        "chain.rounds=2",
        "corpus=tsv",
        f"corpus.paths=[{sentences / 'bitext.tsv'}]",
        f"chain.monolingual.source={sentences / 'monolingual.en'}",
        f"chain.monolingual.target={sentences / 'monolingual.de'}",
        f"chain.test.input={sentences / 'test.jsonl'}",
        f"chain.test.reference={sentences / 'test.jsonl'}",
        *small,
    )
    assert done.returncode == 0, done.stderr
    direction = {
        step: json.loads((run / step / "manifest.json").read_text())["direction"] for step in ("text_2", "back_text_2")
    }
    assert direction["text_2"] == {"source_language": "de", "target_language": "en"}
    assert direction["back_text_2"] == {"source_language": "en", "target_language": "de"}
    scores = json.loads((run / "compare" / "scores.json").read_text())
    assert {score["arm"] for score in scores["scores"]} == {"bitext_only", "back_translation"}
    assert (run / "test_forward_2").is_dir() and not (run / "reverse_3").exists()


@pytest.mark.full  # two minutes of two cores
def test_a_model_without_a_pair_is_scored_in_both_directions(tmp_path, sentences):
    run = tmp_path / "run"
    tests = {}
    for side, key in (("en", "text"), ("de", "reference")):
        lines = [json.loads(line)[key] for line in (sentences / "test.jsonl").read_text().splitlines()]
        tests[side] = tmp_path / f"test.{side}"
        tests[side].write_text("\n".join(lines) + "\n")
    small = [word for step in ("mass", "back_translation") for word in options_of(step, *TINY)]
    small += [
        f"++chain.steps.{step}.options.{word}"
        for step in ("mass", "back_translation")
        for word in ("trainer.global_batch_size=16", "trainer.micro_batch_size=16", "trainer.max_steps=20")
    ]
    done = start(
        "chain=unsupervised",
        f"run_dir={run}",
        "chain.source_language=en",
        "chain.target_language=de",
        "chain.vocab_size=600",
        "chain.row_length=64",
        "++chain.steps.mass.groups.model=mass_tiny",
        "++chain.steps.back_translation.groups.model=mass_tiny",
        f"chain.monolingual.source={sentences / 'monolingual.en'}",
        f"chain.monolingual.target={sentences / 'monolingual.de'}",
        f"chain.test.source={tests['en']}",
        f"chain.test.target={tests['de']}",
        "++chain.steps.source_text.options.corpus.format=text",
        "++chain.steps.target_text.options.corpus.format=text",
        "++chain.steps.tokenizer.options.corpus.format=text",
        *small,
    )
    assert done.returncode == 0, done.stderr
    for side in ("target", "source"):
        scores = json.loads((run / f"score_into_{side}" / "scores.json").read_text())
        assert {score["arm"] for score in scores["scores"]} == {"unsupervised"}
        assert all(score["items"] == 40 for score in scores["scores"])
