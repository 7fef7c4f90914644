"""`make demo-translation FULL=1` from its first step to its tables, as it stands in the Makefile, at a tiny size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MODELS = ("reverse", "forward", "bitext_only", "mass", "mass_then_bitext", "sampled", "untagged", "both")
TRANSLATED = ("text", "sampled_text", *(f"test_{arm}" for arm in MODELS if arm not in ("reverse", "mass_then_bitext")))
SIZE = ("model.hidden_size=64", "ranks=1")
TRAINING = ("trainer.max_steps=20", "trainer.validation_every=0", "schedule.warmup=10", *SIZE)
DECODING = ("decoding.maximum_length=10", "decoding.maximum_ratio=0", "ranks=1")
# A model of so few steps says the same over and over.
LENIENT = ("max_repeats=null", "language_confidence=null", "direction_check=off", "deduplicate=false")


def options() -> list[str]:
    words = [
        "chain.steps.data.options.job.bitext_pairs=400",
        "chain.steps.data.options.job.monolingual_sentences=300",
        "++chain.steps.data.options.job.test_pairs=40",
        "++chain.steps.data.options.job.validation_pairs=20",
    ]
    for steps, given in ((MODELS, TRAINING), (TRANSLATED, DECODING)):
        words += [f"++chain.steps.{step}.options.{word}" for step in steps for word in given]
    for step in ("pairs", "sampled_pairs", "untagged_pairs"):
        words += [f"++chain.steps.{step}.options.job.{word}" for word in LENIENT]
    return words


@pytest.mark.full  # an hour of a core: six chains of 25 steps
@pytest.mark.timeout(7200)
def test_the_full_demo_ends_with_a_table_of_seeds_for_each_language(tmp_path):
    venv = Path(sys.prefix)
    done = subprocess.run(
        # -o: what is installed counts as up to date, whatever the checkout's times.
        [
            *("make", "-f", str(REPOSITORY / "Makefile"), "-o", str(venv / ".installed")),
            *("demo-translation", "FULL=1", f"VENV={venv}", f"OPTIONS={' '.join(options())}"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for language in ("de", "zh"):
        record = json.loads((tmp_path / "runs" / "demo_translation_full" / language / "scores.json").read_text())
        arms = {score["arm"]: score for score in record["scores"] if score["group"] == "all"}
        assert set(arms) == {"bitext_only", "forward_1", "untagged", "sampled", "mass", "both", "lookup"}
        assert all(score["runs"] == (1 if score["arm"] == "lookup" else 3) for score in arms.values())
