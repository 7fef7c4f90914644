"""Stages and budgets through the whole command: a length curriculum, a batch-size warm-up, tokens instead of steps."""

import json
import subprocess
import time

import pytest

from pretrain.stages import StageEntry, entries
from tests.helpers.shard_directory import sentences, write_shards
from tests.integration.test_resume import REPOSITORY, TIMEOUT, command, environment, losses, run


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stages")
    texts = sentences(300)
    return {length: write_shards(folder / str(length), texts, row_length=length) for length in (16, 32)}


def records(run_dir, key):
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line[key] for line in lines if key in line}


def stages_of(shards):
    short, long = shards[16], shards[32]
    return (
        "stages={"
        "warm: {share: 0.2, global_batch_size: 4}, "
        "short: {share: 0.5}, "
        f"long: {{share: 0.3, data: '{long}', micro_batch_size: 2}}"
        "}"
    ), short


@pytest.fixture(scope="module")
def undisturbed(shards, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("curriculum") / "run"
    stages, data = stages_of(shards)
    done = run(command(data, run_dir, "trainer.max_steps=10", "trainer.global_batch_size=8", stages))
    assert done.returncode == 0, done.stderr
    return run_dir


def test_each_stage_takes_its_share_of_the_steps_with_its_batch_and_goes_on_in_the_order_of_its_data(undisturbed):
    # Two steps of 4 rows, five of 8 from the same shards, three of 8 from the longer ones, which start at their first.
    assert entries(undisturbed) == [StageEntry(0, 0, 0, 1, 4), StageEntry(2, 1, 8, 1, 4), StageEntry(7, 2, 0, 1, 2)]
    state = json.loads((undisturbed / "checkpoints" / "step-00000010" / "state.json").read_text())
    assert state["samples"] == 2 * 4 + 5 * 8 + 3 * 8
    assert sorted(state["consumed"].values()) == [24, 48]


@pytest.mark.parametrize("last", [pytest.param(2, marks=pytest.mark.full), 8])  # between two stages, in the last one
def test_a_run_stopped_in_any_stage_goes_on_as_if_it_had_not_been(last, undisturbed, shards, tmp_path):
    stages, data = stages_of(shards)
    words = ("trainer.max_steps=10", "trainer.global_batch_size=8", "trainer.checkpoint_every=1", stages)
    run_dir = tmp_path / "run"
    process = subprocess.Popen(
        command(data, run_dir, *words), cwd=REPOSITORY, env=environment(), stderr=subprocess.PIPE, text=True
    )
    path = run_dir / "checkpoints" / f"step-{last:08d}"
    deadline = time.monotonic() + TIMEOUT
    while not path.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    again = run(command(data, run_dir, *words))
    assert again.returncode == 0, again.stderr
    assert losses(run_dir) == losses(undisturbed)


def test_a_budget_in_tokens_ends_with_the_batch_that_reaches_it_and_the_schedule_runs_in_tokens(shards, tmp_path):
    done = run(
        command(
            shards[16],
            tmp_path / "run",
            "trainer.max_steps=null",
            "trainer.max_tokens=1000",
            "trainer.global_batch_size=8",
            "schedule.warmup=0",
            "optimizer.lr=1e-3",
        )
    )
    assert done.returncode == 0, done.stderr
    tokens, rates = records(tmp_path / "run", "tokens"), records(tmp_path / "run", "learning_rate")
    last = max(tokens)
    assert tokens[last] >= 1000 > tokens[last - 1]
    for step in range(2, last + 1):
        assert rates[step] == pytest.approx(1e-3 * (1 - tokens[step - 1] / 1000), rel=1e-6)


def test_a_budget_in_hours_ends_by_the_clock(shards, tmp_path):
    done = run(
        command(shards[16], tmp_path / "run", "trainer.max_steps=null", "trainer.max_hours=0.0005", "schedule.warmup=0")
    )
    assert done.returncode == 0, done.stderr
    elapsed = records(tmp_path / "run", "elapsed")
    last = max(elapsed)
    assert last > 1 and elapsed[last - 1] < 1.8
    rates = records(tmp_path / "run", "learning_rate")
    assert 0 < rates[last] < rates[1]


def test_shares_that_do_not_add_up_are_one_sentence(shards, tmp_path):
    shares = run(command(shards[16], tmp_path / "run", "stages={a: {share: 0.5}}"))
    assert shares.returncode == 2 and "must add up to 1, but add up to 0.5" in shares.stderr
    assert "Traceback" not in shares.stderr
    assert not (tmp_path / "run").exists()
