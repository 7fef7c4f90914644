"""MASS by the whole command: it learns, a run that is stopped goes on as if it had not been, ranks change nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pretrain.models.conv_seq2seq import ConvSeq2SeqModel
from pretrain.models.load import load_model
from tests.helpers.ranks import REPOSITORY
from tests.helpers.shard_directory import sentences, write_shards
from tests.helpers.warm_python import run_module

TIMEOUT = 240  # for each start of the command: a busy machine needs ten times as long as an idle one


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Two "languages" of one tokenizer, the second with fewer rows."""
    folder, texts = tmp_path_factory.mktemp("mass"), sentences(500)
    return write_shards(folder / "en", texts), write_shards(folder / "de", texts[::-1], held_out=0.4)


def command(shards, run_dir, *overrides):
    en, de = shards
    return [
        sys.executable,
        "-m",
        "pretrain",
        "experiment=tiny",
        "model=mass_tiny",
        "objective=mass",
        f"data=[{en},{de}]",
        "sampling_exponent=0.5",
        f"languages={{en: {en}, de: {de}}}",
        "model.languages=[en,de]",
        f"run_dir={run_dir}",
        "deepspeed.precision=fp32",
        "trainer.max_steps=30",
        "trainer.global_batch_size=16",
        "trainer.micro_batch_size=4",
        "trainer.checkpoint_every=5",
        *overrides,
    ]


def environment():
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE") and not k.startswith("SLURM")}
    return clean | {"OMP_NUM_THREADS": "1"}


def run(arguments):
    return run_module(arguments, cwd=REPOSITORY, env=environment(), timeout=TIMEOUT)


def figures(run_dir, name):
    lines = [json.loads(line) for line in (Path(run_dir) / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line[name] for line in lines if name in line}


@pytest.fixture(scope="module")
def undisturbed(shards, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("undisturbed") / "run"
    done = run(command(shards, run_dir))
    assert done.returncode == 0, done.stderr
    return run_dir


def test_it_learns_what_it_is_shown(undisturbed):
    losses, validation = figures(undisturbed, "loss"), figures(undisturbed, "validation_loss")
    assert losses[1] > 4.0 and losses[30] < losses[1] - 1.0
    assert validation[30] < validation[10] < losses[1]


def test_a_run_that_is_stopped_and_started_again_is_the_undisturbed_run_to_the_last_digit(
    shards, undisturbed, tmp_path
):
    run_dir = tmp_path / "run"
    process = subprocess.Popen(
        command(shards, run_dir), cwd=REPOSITORY, env=environment(), stderr=subprocess.PIPE, text=True
    )
    deadline, metrics = time.monotonic() + TIMEOUT, run_dir / "metrics.jsonl"
    while not (metrics.exists() and '"step": 7,' in metrics.read_text()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 85, errors
    assert 7 <= max(figures(run_dir, "loss")) < 30
    again = run(command(shards, run_dir))
    assert again.returncode == 0, again.stderr
    for name in ("loss", "gradient_norm", "validation_loss"):
        assert figures(run_dir, name) == figures(undisturbed, name)


@pytest.mark.full  # test_under_deepspeed.py trains it on two ranks
def test_two_ranks_train_as_one_does(shards, tmp_path):
    """At dropout 0; the micro-batches differ in their number of targets."""
    plain = ("model.dropout=0", "model.attention_dropout=0", "trainer.max_steps=10", "trainer.validation_every=10")
    found = []
    for ranks in (1, 2):
        done = run(command(shards, tmp_path / str(ranks), f"ranks={ranks}", *plain))
        assert done.returncode == 0, done.stderr
        found.append([figures(tmp_path / str(ranks), name) for name in ("loss", "gradient_norm", "validation_loss")])
    assert found[0][0].keys() == set(range(1, 11)) and found[0][2].keys() == {10}
    for one, two in zip(*found, strict=True):
        assert one == pytest.approx(two, rel=1e-5)


def test_a_convolutional_model_trains_by_its_own_recipe_on_two_ranks_and_loads_again(shards, tmp_path):
    en, _ = shards
    words = ["model=conv_s2s_tiny", "optimizer=nesterov", "schedule=constant", "deepspeed=zero2"]
    options = ["deepspeed.precision=fp32", "trainer.gradient_clipping=0.1", "trainer.max_steps=20", "ranks=2"]
    start = [sys.executable, "-m", "pretrain", "experiment=tiny", "objective=mass", f"data={en}"]
    done = run([*start, f"run_dir={tmp_path / 'run'}", *words, *options])
    assert done.returncode == 0, done.stderr
    assert "convolutions see 7 tokens of the source and 7 of the target" in done.stderr
    losses = figures(tmp_path / "run", "loss")
    assert losses[1] > 4.0 and min(losses[step] for step in (18, 19, 20)) < losses[1] - 0.5
    model = load_model(tmp_path / "run").model
    assert isinstance(model, ConvSeq2SeqModel) and model.config.receptive_fields == (7, 7)


@pytest.mark.full  # test_directories.py has the rule, test_mixture.py the order
def test_masked_lm_mixes_by_the_exponent_too_and_keeps_it_when_it_goes_on(shards, tmp_path):
    en, de = shards
    fixed = ["experiment=tiny", f"run_dir={tmp_path / 'run'}", "deepspeed.precision=fp32"]

    def start(*overrides):
        return run([sys.executable, "-m", "pretrain", *fixed, *overrides])

    first = start(f"data=[{en},{de}]", "sampling_exponent=0.5", "trainer.checkpoint_every=5")
    assert first.returncode == 0, first.stderr
    same = start(f"data=[{de},{en}]", "sampling_exponent=0.5")
    assert same.returncode == 0 and "is complete" in same.stderr, same.stderr
    other = start(f"data=[{en},{de}]", "sampling_exponent=0.7")
    assert other.returncode == 2 and "was trained on data with content hash" in other.stderr, other.stderr


def test_languages_that_change_places_are_other_data(shards, undisturbed):
    en, de = shards
    swapped = [
        f"languages={{en: {de}, de: {en}}}" if "languages={" in word else word for word in command(shards, undisturbed)
    ]
    done = run(swapped)
    assert done.returncode == 2 and "was trained on data with content hash" in done.stderr, done.stderr
