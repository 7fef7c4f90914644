"""The whole command, preempted, stopped, starved and poisoned: real processes, what they say, and when they end."""

import json
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from pretrain.data.mixture import open_mixture
from pretrain.launch import EXIT_HANG, EXIT_PREEMPTED
from tests.helpers.shard_directory import sentences, write_shards
from tests.helpers.warm_python import run_module
from tests.integration.test_resume import REPOSITORY, TIMEOUT, command, environment, run, wait_for_step

HANG = 5
SLACK = 12.0  # the launcher's grace for the ranks, and what busy cores add
HOST = re.escape(socket.gethostname())
ENDLESS = ("trainer.max_steps=1000000", "trainer.validation_every=0", "trainer.checkpoint_every=0", "ranks=2")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("health") / "shards", sentences(300))


class Started:
    """The command in the background; `rank` finds the process of a rank."""

    def __init__(self, shards, run_dir, *overrides, **extra):
        self.run_dir = run_dir
        self.process = subprocess.Popen(
            command(shards, run_dir, *ENDLESS, *overrides),
            cwd=REPOSITORY,
            env=environment(**extra),
            stderr=subprocess.PIPE,
            text=True,
        )

    def rank(self, number):
        children = psutil.Process(self.process.pid).children()
        return next(child for child in children if child.environ().get("RANK") == str(number))

    def until_step(self, step):
        wait_for_step(self.run_dir, step, self.process)
        return self

    def end(self):
        _, errors = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, errors


@pytest.fixture
def start(shards, tmp_path):
    started = []

    def begin(*overrides, **extra):
        started.append(Started(shards, tmp_path / "run", *overrides, **extra))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.wait()


def last_step(run_dir):
    return max(json.loads(line)["step"] for line in (run_dir / "metrics.jsonl").read_text().splitlines())


def assert_saved_for_a_requeue(run_dir, code, errors):
    assert code == EXIT_PREEMPTED, errors
    step = last_step(run_dir)
    assert (run_dir / "requeue").read_text() == f"step {step}\n"
    assert (run_dir / "checkpoints" / "latest").read_text() == f"step-{step:08d}"
    assert not list((run_dir / "checkpoints").glob(".*.tmp"))


@pytest.mark.parametrize("number", [signal.SIGUSR2, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
def test_a_signal_to_one_rank_alone_even_twice_saves_all_and_exits_85(start, number):
    running = start().until_step(5)
    other = running.rank(1)
    for _ in range(3):
        other.send_signal(number)
        time.sleep(0.02)
    code, errors = running.end()
    assert_saved_for_a_requeue(running.run_dir, code, errors)
    assert f"received {number.name}: saved and stopped at step" in errors


def test_the_end_of_a_slurm_job_is_kept_with_time_to_spare(start):
    end = time.time() + 60
    running = start(
        "trainer.time_limit_minutes=100", "trainer.save_before_end_seconds=47", SLURM_JOB_END_TIME=str(int(end))
    )
    code, errors = running.end()
    assert time.time() < end, errors
    assert_saved_for_a_requeue(running.run_dir, code, errors)
    assert "the time of this job is nearly over: saved and stopped" in errors


def test_a_time_limit_without_time_for_the_save_is_refused(shards, tmp_path):
    refused = run(command(shards, tmp_path / "other", "trainer.time_limit_minutes=1"))
    assert refused.returncode == 2 and "must be longer than trainer.save_before_end_seconds=120" in refused.stderr


@pytest.mark.parametrize("culprit", [0, pytest.param(1, marks=pytest.mark.full)])  # test_watchdog.py has both
def test_a_stopped_rank_is_named_with_host_step_and_phase_and_the_run_ends_in_time(start, culprit):
    running = start(f"trainer.hang_seconds={HANG}").until_step(5)
    running.rank(culprit).send_signal(signal.SIGSTOP)
    since = time.monotonic()
    code, errors = running.end()
    assert time.monotonic() - since < HANG + SLACK
    assert code == EXIT_HANG, errors
    assert re.search(
        rf"error: rank {culprit} on {HOST} has given no sign of life for \d s; it was last seen at step \d+ in '",
        errors,
    ), errors


def test_a_loader_that_stalls_is_named_as_such(start):
    running = start(f"trainer.hang_seconds={HANG}", "trainer.stall_seconds=2", "trainer.loader_workers=1")
    running.until_step(5)
    workers = [child for child in running.rank(1).children(recursive=True) if "spawn_main" in " ".join(child.cmdline())]
    assert workers
    for worker in workers:
        worker.send_signal(signal.SIGSTOP)
    code, errors = running.end()
    assert code == EXIT_HANG, errors
    assert re.search(
        rf"error: rank 1 on {HOST} has been 'waiting for data' since step \d+ for \d s while the others wait for it: "
        "its data loader stalls",
        errors,
    ), errors
    assert "the stack of rank 1:" in errors and "loader.py" in errors
    assert not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers)


def test_a_killed_rank_is_named_with_its_step(start):
    running = start("trainer.hang_seconds=60").until_step(5)
    running.rank(1).kill()
    since = time.monotonic()
    code, errors = running.end()
    assert time.monotonic() - since < SLACK and code == 137, errors
    assert re.search(rf"error: rank 1 on {HOST} has died at step \d+ in '", errors), errors
    assert "rank 1 of 2 was killed by signal 9" in errors


def test_a_loss_that_is_not_finite_is_traced_to_a_module_on_request(shards, tmp_path):
    poison = ("optimizer.lr=1e30", "trainer.gradient_clipping=0", "trainer.max_skips_in_a_row=3")
    done = run(command(shards, tmp_path / "run", *poison, "trainer.find_nonfinite=true"))
    assert done.returncode == 2, done.stderr
    assert re.search(
        r"step \d+: on rank 0, the first non-finite activation is that of module '[a-z_.0-9]+' \(", done.stderr
    )
    assert "Traceback" not in done.stderr


def test_the_lines_have_the_figures_that_are_asked_for(shards, tmp_path):
    done = run(command(shards, tmp_path / "run", "trainer.gradient_noise=true", "trainer.max_steps=20", "ranks=2"))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if "loss" in line][-1]
    assert {
        "loss",
        "learning_rate",
        "gradient_norm",
        "tokens_per_second",
        "tokens",
        "elapsed",
        "mfu",
        "data_wait",
        "memory_gib",
        "skipped",
    } <= set(last)
    assert 0 < last["mfu"] < 1 and 0 <= last["data_wait"] <= 1 and last["memory_gib"] > 0.05
    noise = [line["gradient_noise"] for line in lines if "gradient_noise" in line]
    assert noise and all(value > 0 for value in noise)
    assert re.search(r"all-reduce over gloo on 2 ranks: right, \d+\.\d\d GB/s", done.stderr)


def test_a_dry_run_prints_the_cost_and_writes_nothing(shards, tmp_path):
    done = run_module(command(shards, tmp_path / "run", "dry_run=true"), REPOSITORY, environment(), TIMEOUT)
    assert done.returncode == 0, done.stderr
    for words in ("Parameters: ", "peak rate", "Memory per rank", "FLOPs per token", "tokens/s", "global batch"):
        assert words in done.stdout
    assert not (tmp_path / "run").exists()


def test_a_disk_without_room_for_the_checkpoints_is_refused_before_the_first_step(shards, small_disk):
    done = run(command(shards, Path(small_disk) / "run"))
    assert done.returncode == 2, done.stderr
    assert re.search(r"error: .*needs room for 3 checkpoints of .* but only .* are free", done.stderr)


def test_a_step_of_rows_that_are_all_skipped_changes_nothing_and_has_no_loss(shards, tmp_path):
    rows = open_mixture(str(shards)).pick(0, 4, 4).rows.tolist()  # of the second step
    lines = [json.dumps({"data": str(shards), "row": row}) for row in rows]
    (tmp_path / "skip.jsonl").write_text("\n".join(lines))
    sizes = ("trainer.max_steps=2", "schedule.warmup=1", "trainer.global_batch_size=4", "trainer.micro_batch_size=4")
    logged = ("trainer.log_every=1", "trainer.validation_every=0", "seed=0")
    done = run(command(shards, tmp_path / "run", *sizes, *logged, f"skip_rows={tmp_path / 'skip.jsonl'}"))
    assert done.returncode == 0, done.stderr
    assert "step 2 was skipped: none of its rows has a target (rows of skip_rows have none)" in done.stderr
    found = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = {line["step"]: line for line in found if "learning_rate" in line}
    assert [("loss" in line, line["skipped"]) for line in steps.values()] == [(True, 0), (False, 1), (True, 1)]
