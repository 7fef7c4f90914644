"""`compare_runs` tells runs that are the same from runs that are not."""

import json
import subprocess
import sys

import pytest

from tests.helpers.ranks import REPOSITORY


def write_run(folder, losses, weights="1234"):
    checkpoint = folder / "checkpoints" / "step-00000004"
    checkpoint.mkdir(parents=True)
    lines = [{"step": step, "loss": loss, "elapsed": loss * 7} for step, loss in losses.items()]
    lines.append({"step": 4, "validation_loss": 0.5})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (checkpoint / "state.json").write_text(json.dumps({"files": {"model.safetensors": {"sha256": weights}}}))
    return str(folder)


def compare(*runs):
    line = [sys.executable, "-m", "tests.integration.compare_runs", *runs]
    return subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True)


@pytest.fixture
def whole(tmp_path):
    return write_run(tmp_path / "whole", {2: 3.0, 4: 1.0})


def test_a_run_that_was_stopped_may_have_a_line_more(whole, tmp_path):
    done = compare(whole, write_run(tmp_path / "stopped", {2: 3.0, 3: 2.0, 4: 1.0}))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| 4 | 1.000000 | 0.500000 | 1.000000 | 0.500000 |" in done.stdout
    assert "figures of 2 steps: all equal" in done.stdout and "where it was stopped: steps [3]" in done.stdout
    assert "equal to the bit" in done.stdout


@pytest.mark.parametrize(
    ("losses", "weights", "words"),
    [
        ({2: 3.0, 4: 1.0000001}, "1234", "others at steps [4]"),
        ({4: 1.0}, "1234", "others at steps [2]"),
        ({2: 3.0, 4: 1.0}, "1235", "last checkpoint: not equal"),
    ],
)
def test_any_difference_is_named_and_ends_with_1(whole, tmp_path, losses, weights, words):
    done = compare(whole, write_run(tmp_path / "other", losses, weights))
    assert done.returncode == 1 and words in done.stdout, done.stdout + done.stderr
