"""The chains of translation from nothing to their tables, small: each step's output fits the next."""

import json
import subprocess
import sys

import pytest

from tests.helpers.ranks import REPOSITORY

TINY = ["model=mass_tiny", "trainer.max_steps=90", "trainer.validation_every=0", "schedule.warmup=20", "ranks=1"]


def start(*words):
    command = [sys.executable, "-m", "slurm.submit", "cluster=local", *words]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=900)


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
