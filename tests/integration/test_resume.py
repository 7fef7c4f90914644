"""The whole command, killed, damaged, interrupted and misled: real processes, real DeepSpeed, gloo ranks."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pretrain.launch import free_port
from tests.helpers.ranks import REPOSITORY
from tests.helpers.shard_directory import sentences, write_shards
from tests.helpers.warm_python import run_module

TIMEOUT = 120


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    # Too few rows for 30 steps of 16: the run goes through several epochs.
    return write_shards(tmp_path_factory.mktemp("resume") / "shards", sentences(500))


def command(shards, run_dir, *overrides):
    return [
        sys.executable,
        "-m",
        "pretrain",
        "experiment=tiny",
        f"data={shards}",
        f"run_dir={run_dir}",
        "deepspeed.precision=fp32",
        "trainer.max_steps=30",
        "trainer.global_batch_size=16",
        "trainer.micro_batch_size=4",
        "trainer.checkpoint_every=5",
        "model.dropout=0.1",
        *overrides,
    ]


def environment(**extra):
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE") and not k.startswith("SLURM")}
    return clean | {"OMP_NUM_THREADS": "1"} | extra


def run(arguments, **extra):
    return run_module(arguments, cwd=REPOSITORY, env=environment(**extra), timeout=TIMEOUT)


def losses(run_dir):
    lines = [json.loads(line) for line in (Path(run_dir) / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: (line["loss"], line["gradient_norm"]) for line in lines if "loss" in line}


def validation(run_dir):
    lines = [json.loads(line) for line in (Path(run_dir) / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["validation_loss"] for line in lines if "validation_loss" in line}


def wait_for_step(run_dir, step, process):
    deadline, path = time.monotonic() + TIMEOUT, Path(run_dir) / "metrics.jsonl"
    while time.monotonic() < deadline:
        if path.exists() and f'"step": {step},' in path.read_text():
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.001)
    raise AssertionError(f"step {step} was not reached in {TIMEOUT} s")


def resumed_step(log):
    return int(re.search(r"resumed \S*step-(\d+)", log).group(1))


def state(run_dir, step):
    return json.loads((Path(run_dir) / "checkpoints" / f"step-{step:08d}" / "state.json").read_text())


@pytest.fixture(scope="module")
def undisturbed(shards, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("undisturbed") / "run"
    done = run(command(shards, run_dir, "ranks=2"))
    assert done.returncode == 0, done.stderr
    return run_dir


def test_a_run_killed_at_step_17_and_started_again_is_the_undisturbed_run_to_the_last_digit(
    shards, undisturbed, tmp_path
):
    run_dir = tmp_path / "run"
    process = subprocess.Popen(
        command(shards, run_dir, "ranks=2"), cwd=REPOSITORY, env=environment(), stderr=subprocess.PIPE, text=True
    )
    wait_for_step(run_dir, 17, process)
    process.kill()  # only the launcher: its ranks must not outlive it
    process.wait()
    time.sleep(0.5)
    last = max(losses(run_dir))
    assert 17 <= last < 30
    time.sleep(0.5)
    assert max(losses(run_dir)) == last
    again = run(command(shards, run_dir, "ranks=2"))
    assert again.returncode == 0, again.stderr
    # The save of the last fifth step may have been under way.
    assert resumed_step(again.stderr) in (last // 5 * 5, last // 5 * 5 - 5)
    expected = losses(undisturbed)
    assert list(expected) == list(range(1, 31))
    assert losses(run_dir) == expected
    assert validation(run_dir) == validation(undisturbed)

    # A damaged newest checkpoint: the one before it is used, with a word on it, to the same end.
    newest = run_dir / "checkpoints" / "step-00000030" / "model.safetensors"
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    repaired = run(command(shards, run_dir, "ranks=2"))
    assert repaired.returncode == 0, repaired.stderr
    assert "step-00000030 is damaged" in repaired.stderr and "does not match its checksum" in repaired.stderr
    assert "trying the one before it" in repaired.stderr and resumed_step(repaired.stderr) == 25
    assert losses(run_dir) == expected

    # A finished run does no more work, at another number of ranks too.
    before = (run_dir / "metrics.jsonl").read_bytes()
    finished = run(command(shards, run_dir))
    assert finished.returncode == 0, finished.stderr
    assert (run_dir / "metrics.jsonl").read_bytes() == before


def test_what_does_not_belong_to_the_checkpoint_is_one_sentence_on_exit_2(shards, undisturbed, tmp_path):
    wider = run(command(shards, undisturbed, "model.hidden_size=128"))
    assert wider.returncode == 2
    assert "hidden_size=64, but model.hidden_size is 128" in wider.stderr and "Traceback" not in wider.stderr

    other = write_shards(tmp_path / "other", sentences(400, seed=5), vocab_size=120)
    retokenized = run(command(other, undisturbed))
    assert retokenized.returncode == 2 and "another tokenizer" in retokenized.stderr
    assert retokenized.stderr.count("error:") == 1

    changed = run(command(shards, undisturbed, "optimizer.lr=0.002"))
    assert changed.returncode == 2 and changed.stderr.count("error:") == 1
    assert "option 'optimizer.lr' must stay 0.001 while" in changed.stderr and "but is 0.002" in changed.stderr
    assert f"fork={undisturbed}/checkpoints/step-00000030 and another run_dir" in changed.stderr

    with (undisturbed / ".lock").open("a+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        locked = run(command(shards, undisturbed, "ranks=2"))
    assert locked.returncode == 2 and "in use by another run" in locked.stderr
    assert locked.stderr.count("error:") == 1


def test_what_may_change_is_said_and_the_run_goes_on(shards, undisturbed, tmp_path):
    moved = shutil.copytree(shards, tmp_path / "moved")
    done = run(command(moved, undisturbed, "trainer.keep_last=5", "deepspeed.stage=3"))
    assert done.returncode == 0, done.stderr
    for change in (f"data '{shards}' -> '{moved}'", "trainer.keep_last 2 -> 5", "deepspeed.stage 1 -> 3"):
        assert f"changed since: {change}" in done.stderr


@pytest.mark.full  # test_elastic.py has all pairs of both, at the level of the engine
def test_a_run_goes_on_at_another_number_of_ranks_and_stage_on_the_same_curve(shards, tmp_path):
    whole = run(command(shards, tmp_path / "whole", "ranks=2", "model.dropout=0"))
    assert whole.returncode == 0, whole.stderr
    for number, layout in enumerate((("ranks=2", "deepspeed.stage=2"), ("ranks=1", "deepspeed.stage=3"))):
        process = subprocess.Popen(
            command(shards, tmp_path / "run", "model.dropout=0", *layout),
            cwd=REPOSITORY,
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for_step(tmp_path / "run", 8 * (number + 1), process)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 85, errors
    last = ("ranks=2", "deepspeed.stage=0", "trainer.micro_batch_size=2")
    done = run(command(shards, tmp_path / "run", "model.dropout=0", *last))
    assert done.returncode == 0, done.stderr
    ours, theirs = losses(tmp_path / "run"), losses(tmp_path / "whole")
    assert list(ours) == list(theirs) == list(range(1, 31))
    for step, (loss, _) in theirs.items():
        assert ours[step][0] == pytest.approx(loss, rel=1e-5)


def test_a_fork_goes_on_with_all_of_its_source(shards, undisturbed, tmp_path):
    source = undisturbed / "checkpoints" / "step-00000025"
    same = command(shards, tmp_path / "same", "ranks=2", f"fork={source}")
    done = run(same)
    assert done.returncode == 0, done.stderr
    assert losses(tmp_path / "same") == {step: v for step, v in losses(undisturbed).items() if step > 25}
    record = state(tmp_path / "same", 30)["fork"]
    assert record["checkpoint"] == str(source.resolve()) and record["step"] == 25
    assert record["weights"] == f"sha256:{state(undisturbed, 25)['files']['model.safetensors']['sha256']}"
    # The same command again goes on with the fork, and needs its source no more; no other run becomes one.
    assert run(same).returncode == 0
    refused = run(command(shards, undisturbed, f"fork={tmp_path / 'same'}"))
    assert refused.returncode == 2 and "already holds a run that is no fork" in refused.stderr


@pytest.mark.full  # test_resuming.py and test_beginning.py have the rules, and a fork by the command
def test_a_fork_begins_anew_with_the_weights(shards, undisturbed, tmp_path):
    options = ("optimizer.lr=1e-4", "trainer.max_steps=4", "schedule.warmup=0", "trainer.checkpoint_every=0")
    anew = command(
        shards, tmp_path / "anew", f"fork={undisturbed}/last", *options, "fork_progress=restart", "fork_optimizer=fresh"
    )
    done = run(anew)
    assert done.returncode == 0, done.stderr
    expected = losses(tmp_path / "anew")
    assert list(expected) == [1, 2, 3, 4] and expected[1][0] < losses(undisturbed)[1][0]
    # Killed before its first save, it goes on from what it saved of its source at the start.
    shutil.rmtree(tmp_path / "anew" / "checkpoints" / "step-00000004")
    again = run(anew)
    assert again.returncode == 0 and resumed_step(again.stderr) == 0, again.stderr
    assert losses(tmp_path / "anew") == expected


def test_training_on_from_the_weights_of_another_run_needs_its_shape_and_tokenizer(shards, undisturbed, tmp_path):
    short = ("trainer.max_steps=1", "schedule.warmup=0", "optimizer.lr=0", f"init_from={undisturbed}")
    done = run(command(shards, tmp_path / "run", *short))
    assert done.returncode == 0, done.stderr
    assert validation(tmp_path / "run")[1] == pytest.approx(validation(undisturbed)[30], rel=1e-6)
    other = run(command(shards, tmp_path / "other", *short, "model.num_layers=1"))
    assert other.returncode == 2 and "the shape that the model options describe" in other.stderr


def test_a_run_that_diverges_ends_with_a_sentence_and_keeps_no_checkpoint_of_it(shards, tmp_path):
    done = run(command(shards, tmp_path / "run", "optimizer.lr=1e30", "trainer.gradient_clipping=0"))
    assert done.returncode == 2 and "the last 20 steps were all skipped" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "run").glob("checkpoints/step-*"))


@pytest.mark.full  # test_health.py has signals, the test of step 17 how a run goes on
def test_sigterm_saves_and_exits_85_with_a_marker_and_the_run_goes_on(shards, undisturbed, tmp_path):
    run_dir = tmp_path / "run"
    process = subprocess.Popen(
        command(shards, run_dir, "ranks=2"), cwd=REPOSITORY, env=environment(), stderr=subprocess.PIPE, text=True
    )
    wait_for_step(run_dir, 7, process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 85, errors
    assert (run_dir / "requeue").exists()
    stopped_at = max(losses(run_dir))
    assert (run_dir / "checkpoints" / "latest").read_text() == f"step-{stopped_at:08d}"
    again = run(command(shards, run_dir, "ranks=2"))
    assert again.returncode == 0, again.stderr
    assert not (run_dir / "requeue").exists()
    assert losses(run_dir) == losses(undisturbed)


def test_ranks_with_different_configs_stop_at_once_naming_ranks_and_option(shards, tmp_path):
    port = str(free_port())
    start = time.monotonic()
    processes = [
        subprocess.Popen(
            command(shards, tmp_path / "run", f"optimizer.lr={rate}"),
            cwd=REPOSITORY,
            env=environment(
                RANK=str(rank),
                WORLD_SIZE="2",
                LOCAL_RANK=str(rank),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
                GLOO_SOCKET_IFNAME="lo",
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, rate in enumerate(("1e-3", "2e-3"))
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert time.monotonic() - start < 60
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 2, output
        assert "'optimizer.lr' is 0.001 on rank 0 and 0.002 on rank 1" in output
    assert not (tmp_path / "run").exists()


def test_spikes_are_skipped_and_a_resumed_run_knows_the_norms_and_losses_before_it(shards, tmp_path):
    def lines():
        found = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
        return [[line[key] for key in ("step", "loss", "gradient_norm", "skipped")] for line in found if "loss" in line]

    words = command(
        shards,
        tmp_path / "run",
        *("trainer.max_steps=150", "trainer.log_every=7", "trainer.checkpoint_every=72", "trainer.validation_every=0"),
        *("trainer.skip_sigmas=0.01", "trainer.max_skips_in_a_row=1000", "trainer.global_batch_size=4"),
    )
    done = run(words)
    assert done.returncode == 0, done.stderr
    expected = lines()
    assert [skipped for step, _, _, skipped in expected if step <= 126] == [0] * 18  # 128 norms make the rule
    # A step that is skipped takes nothing off the budget.
    assert expected[-1][3] > 0 and expected[-1][0] == 150 + expected[-1][3]
    steps = [int(step) for step in re.findall(r"step (\d+) was skipped: gradient norm", done.stderr)]
    assert len(steps) == expected[-1][3] and min(steps) > 128

    shutil.rmtree(max((tmp_path / "run" / "checkpoints").glob("step-*")))
    again = run(words)
    # Where it goes on, the last line is some steps old.
    assert again.returncode == 0 and resumed_step(again.stderr) >= 144 and resumed_step(again.stderr) % 7, again.stderr
    assert lines() == expected


def test_a_full_disk_is_one_sentence_and_the_run_goes_on_when_there_is_room(shards, small_disk, undisturbed):
    done = run(command(shards, small_disk / "run", "ranks=2"))
    assert done.returncode not in (0, 85)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ") and "free" in last and "Traceback" not in done.stderr, done.stderr
    subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
    assert run(command(shards, small_disk / "run", "ranks=2")).returncode == 0
    assert losses(small_disk / "run") == losses(undisturbed)
