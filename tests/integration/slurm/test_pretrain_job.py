"""slurm/pretrain.sbatch, unchanged, on a real Slurm: two nodes with two fake GPUs each."""

import re
import time
from pathlib import Path

import pytest

from tests.helpers.ranks import REPOSITORY
from tests.helpers.slurm_lab import SlurmLab
from tests.integration.compare_runs import figures, last_files
from tests.integration.slurm.conftest import options

SCRIPT = str(REPOSITORY / "slurm" / "pretrain.sbatch")
# One CPU for each task, as the local ranks have one thread.
RESOURCES = ("--nodes=2", "--gpus-per-node=2", "--cpus-per-gpu=1", "--time=10")


def log_of(folder: Path, job: int) -> str:
    path = folder / f"pretrain-{job}.log"
    return path.read_text() if path.exists() else ""


def wait_for_step(run_dir: Path, step: int, seconds: float = 90.0) -> None:
    deadline, path = time.monotonic() + seconds, run_dir / "metrics.jsonl"
    while not (path.exists() and f'"step": {step},' in path.read_text()):
        assert time.monotonic() < deadline, f"step {step} was not reached within {seconds:g} s"
        time.sleep(0.02)


def assert_same_run(run_dir: Path, undisturbed: Path) -> None:
    assert last_files(run_dir) == last_files(undisturbed)
    expected = figures(undisturbed)
    assert {step: values for step, values in figures(run_dir).items() if step in expected} == expected


def test_two_nodes_with_two_tasks_each_train_as_four_local_ranks_to_the_bit(
    lab: SlurmLab, shards: Path, undisturbed: Path, folder: Path
) -> None:
    job = lab.sbatch(*RESOURCES, SCRIPT, *options(shards, "run"), cwd=folder)
    state, log = lab.wait(job), log_of(folder, job)
    assert state == "COMPLETED", log
    assert_same_run(folder / "run", undisturbed)
    assert f"environment: {lab.environment['CLUSTER_ENV']}" in log
    assert re.search(r"4 tasks with 1 CPUs each on n\d+x\[1-2\]", log)
    assert "parameters on 4 cpu ranks" in log, "rank 0 writes to the job's log"
    others = sorted(path.name for path in (folder / f"pretrain-{job}.ranks").glob("*.log"))
    assert others == ["rank1.log", "rank2.log", "rank3.log"]


def test_a_job_asked_to_stop_saves_and_is_requeued_and_ends_as_the_undisturbed_run(
    lab: SlurmLab, shards: Path, undisturbed: Path, folder: Path
) -> None:
    job = lab.sbatch(*RESOURCES, SCRIPT, *options(shards, "run"), cwd=folder)
    wait_for_step(folder / "run", 7)
    lab.run("scancel", "--signal=USR2", str(job))
    lab.start_requeued(job)
    state, log = lab.wait(job), log_of(folder, job)
    assert state == "COMPLETED", log
    assert re.search(r"stopped at step (\d+); requeued, to go on from there", log), log
    assert "start 1:" in log and "start 2:" in log
    assert_same_run(folder / "run", undisturbed)


@pytest.mark.full
def test_a_job_whose_time_ends_is_requeued_and_ends_as_the_undisturbed_run(
    lab: SlurmLab, shards: Path, undisturbed: Path, folder: Path
) -> None:
    """Slurm's signal may come up to a minute early: before the first step, or in the midst of training."""
    limit = "--time=2", "--signal=USR2@90"
    job = lab.sbatch(*RESOURCES[:-1], *limit, SCRIPT, *options(shards, "run"), cwd=folder)
    lab.wait_for_state(job, "RUNNING")
    lab.wait_for_state(job, "PENDING", 120)
    lab.run("scontrol", "update", f"JobId={job}", "TimeLimit=10")
    lab.start_requeued(job)
    assert lab.wait(job) == "COMPLETED", log_of(folder, job)
    assert_same_run(folder / "run", undisturbed)


@pytest.mark.full
def test_a_cancelled_job_is_saved_and_not_requeued_and_goes_on_when_it_is_submitted_again(
    lab: SlurmLab, shards: Path, undisturbed: Path, folder: Path
) -> None:
    job = lab.sbatch(*RESOURCES, SCRIPT, *options(shards, "run"), cwd=folder)
    wait_for_step(folder / "run", 7)
    lab.run("scancel", str(job))
    assert lab.wait(job) == "CANCELLED"
    assert re.search(r"saved and stopped at step \d+", log_of(folder, job)), log_of(folder, job)
    again = lab.sbatch(*RESOURCES, SCRIPT, *options(shards, "run"), cwd=folder)
    assert lab.wait(again) == "COMPLETED", log_of(folder, again)
    assert re.search(r"resumed run/checkpoints/step-", log_of(folder, again))
    assert_same_run(folder / "run", undisturbed)


def test_a_job_without_progress_over_its_last_starts_stops_and_says_so(
    lab: SlurmLab, shards: Path, folder: Path
) -> None:
    # The time for each start is over before its first step.
    late = "trainer.time_limit_minutes=0.002", "trainer.save_before_end_seconds=0"
    one_gpu = "--cpus-per-gpu=1", "--time=10"
    job = lab.sbatch(*one_gpu, SCRIPT, *options(shards, "run", *late), cwd=folder, MAX_IDLE_STARTS="2")
    lab.wait_for_state(job, "RUNNING")
    lab.start_requeued(job)
    state, log = lab.wait(job), log_of(folder, job)
    assert state == "FAILED", log
    assert "error: no progress in the last 2 starts of this job, which all began and ended at step 0" in log


def test_the_first_rank_to_fail_is_shown_and_not_the_last_to_be_killed(
    lab: SlurmLab, shards: Path, folder: Path
) -> None:
    one_gpu_each = "--nodes=2", "--cpus-per-gpu=1", "--time=10"
    job = lab.sbatch(*one_gpu_each, SCRIPT, *options(shards, "run", "trainer.max_steps=100000"), cwd=folder)
    wait_for_step(folder / "run", 2)
    victim = lab.nodes[1]
    (pid,) = lab.ranks_on(victim, rank=1)
    lab.run("kill", "-SEGV", str(pid))
    state, log = lab.wait(job), log_of(folder, job)
    assert state == "FAILED", log
    assert f"error: rank 1 on {victim} was the first to fail, with exit code 139; its last lines:" in log


def test_bad_input_fails_the_job_with_its_sentence_on_top(lab: SlurmLab, folder: Path) -> None:
    job = lab.sbatch("--cpus-per-gpu=1", SCRIPT, "experiment=tiny", "data=nowhere", "run_dir=run", cwd=folder)
    assert lab.wait(job) == "FAILED"
    log = log_of(folder, job)
    assert "error: " in log and "nowhere" in log and "Traceback" not in log
