"""A chain as jobs of a real Slurm: the toy project of tests/helpers/toy_chain.py on two nodes."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.slurm_lab import SlurmLab
from tests.helpers.toy_chain import Toy

SLURM = ("cluster=slurm", "cluster.partition=main", "cluster.cpus_per_task=2", "cluster.time='10:00'")


class SlurmToy(Toy):
    """The toy chain on a cluster."""

    def __init__(self, folder: Path, lab: SlurmLab) -> None:
        super().__init__(folder)
        self.lab = lab

    def environment(self) -> dict[str, str]:
        return super().environment() | {"SLURM_CONF": str(self.lab.folder / "slurm.conf")}

    def submit(self, *overrides: str) -> subprocess.CompletedProcess[str]:
        return super().submit(*SLURM, *overrides)

    def command(self, module: str, *overrides: str) -> subprocess.CompletedProcess[str]:
        """Run one of the commands that take a run directory."""
        words = [sys.executable, "-m", module, f"run_dir={self.run_dir}", *overrides]
        return subprocess.run(
            words, cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=120, check=False
        )

    def jobs(self) -> dict[str, int]:
        """The jobs of the last submission by step."""
        found = json.loads((self.run_dir / "steps/slurm/submission.json").read_text())["jobs"]
        return {step: job["job"] for step, job in found.items()}

    def ran(self, *overrides: str) -> dict[str, str]:
        """Submit, wait for the end, and return the state that each job ended in."""
        done = self.submit(*overrides)
        assert done.returncode == 0, done.stdout + done.stderr
        return {step: self.lab.wait(job) for step, job in self.jobs().items()}


@pytest.fixture
def toy(tmp_path: Path, lab: SlurmLab) -> Iterator[SlurmToy]:
    toy = SlurmToy(tmp_path, lab)
    yield toy
    subprocess.run(["scancel", "--me"], env=toy.environment(), check=False)


def test_a_chain_runs_as_jobs_and_only_what_changed_runs_again(toy: SlurmToy) -> None:
    assert set(toy.ran().values()) == {"COMPLETED"}
    assert (toy.run_dir / "last/text").read_text() == "A-B.-E.."
    before, jobs = toy.runs(), toy.jobs()
    done = toy.submit()
    assert "nothing to do: all 3 steps of runs/toy are complete" in done.stdout
    assert toy.jobs() == jobs
    table = toy.command("slurm.status").stdout
    assert [re.search(rf"{step} .*complete", table) is not None for step in before] == [True] * 3, table
    # Where a step ran does not count.
    done = Toy.submit(toy, "cluster=local")
    assert "nothing to do" in done.stdout, done.stdout + done.stderr
    option = "+chain.steps.middle.options.mark=+"
    assert toy.ran(option) == {"middle": "COMPLETED", "last": "COMPLETED"}
    after = toy.runs()
    assert {step for step in after if after[step] != before[step]} == {"middle", "last"}
    assert "nothing to do" in toy.submit(option).stdout


def test_a_failed_step_leaves_the_rest_cancelled_with_the_reason_and_the_chain_goes_on_there(toy: SlurmToy) -> None:
    toy.fail.touch()
    assert toy.ran() == {"first": "COMPLETED", "middle": "FAILED", "last": "CANCELLED"}
    done = toy.command("slurm.status")
    assert done.returncode == 1
    assert re.search(r"middle .*failed .*step 'middle' failed: exit code 7", done.stdout), done.stdout
    assert re.search(r"last .*cancelled .*middle, which it needs, failed", done.stdout), done.stdout
    assert "a line before the end" in toy.command("slurm.logs", "step=middle").stdout
    toy.fail.unlink()
    assert toy.ran() == {"middle": "COMPLETED", "last": "COMPLETED"}


def test_a_job_that_is_refused_takes_those_before_it_back(toy: SlurmToy) -> None:
    done = toy.submit("+cluster.steps.last.partition=nowhere")
    assert done.returncode == 2
    assert "step 'last' was refused: sbatch: " in done.stderr and "nvalid partition" in done.stderr
    assert "no job of the chain is left in the queue" in done.stderr and len(done.stderr.splitlines()) <= 2
    assert toy.lab.run("squeue", "--noheader") == ""
    assert not (toy.run_dir / "first").exists(), "a job that could start was held until all were taken"
    assert not (toy.run_dir / "steps/slurm/submission.json").exists()


def test_a_chain_under_way_is_not_submitted_twice_and_can_be_cancelled(toy: SlurmToy) -> None:
    toy.go.unlink()
    assert toy.submit().returncode == 0
    toy.wait_for(toy.run_dir / "middle/waiting", 60)
    done = toy.submit()
    assert done.returncode == 2
    assert f"have not ended: last ({toy.jobs()['last']}, PENDING), middle" in done.stderr
    table = toy.command("slurm.status").stdout
    assert re.search(r"middle .*running", table) and re.search(r"last .*waits for middle", table), table
    done = toy.command("slurm.cancel")
    assert "cancelled 2 jobs: " in done.stdout, done.stdout + done.stderr
    assert [toy.lab.wait(job) for step, job in toy.jobs().items() if step != "first"] == ["CANCELLED"] * 2
    toy.go.touch()
    assert toy.ran() == {"middle": "COMPLETED", "last": "COMPLETED"}


def test_a_submission_that_was_killed_half_way_is_taken_back_by_the_next(toy: SlurmToy) -> None:
    assert toy.submit("cluster.extra=['--begin=now+1hour']").returncode == 0
    jobs = toy.jobs()
    path = toy.run_dir / "steps/slurm/submission.json"
    torn = json.loads(path.read_text())
    del torn["jobs"]["last"]  # taken by Slurm, but killed before it was written down
    path.write_text(json.dumps(torn | {"whole": False}))
    assert set(toy.ran().values()) == {"COMPLETED"}
    assert toy.lab.state(jobs["last"]) == "CANCELLED"


def test_a_job_asked_to_save_near_its_end_is_requeued_and_goes_on(toy: SlurmToy) -> None:
    toy.go.unlink()
    assert toy.submit().returncode == 0
    middle = toy.jobs()["middle"]
    toy.wait_for(toy.run_dir / "middle/waiting", 60)
    toy.go.touch()
    (toy.run_dir / "middle/waiting").unlink()
    toy.lab.run("scancel", "--signal=USR2", str(middle))
    toy.lab.start_requeued(middle)
    assert [toy.lab.wait(job) for job in toy.jobs().values()] == ["COMPLETED"] * 3
    log = next((toy.run_dir / "logs/jobs").glob("middle-*.log")).read_text()
    assert "requeued, to go on from there" in log and "goes on where it was interrupted" in log


def test_a_controller_that_is_away_for_a_while_is_waited_for(toy: SlurmToy) -> None:
    toy.lab.kill_controller()
    submitting = toy.start(*SLURM)
    time.sleep(6)
    toy.lab.start_controller()
    output = submitting.communicate(timeout=120)[0]
    assert submitting.returncode == 0, output
    assert [toy.lab.wait(job) for job in toy.jobs().values()] == ["COMPLETED"] * 3


def test_a_firing_is_skipped_while_jobs_run_and_the_next_one_tells_how_they_ended(toy: SlurmToy) -> None:
    words = ("--config-dir", "conf", "chain=toy", *SLURM, f"run_dir={toy.run_dir}")
    schedule = {"format": 1, "expression": "* * * * *", "words": words, "notify": f"cat >{toy.folder}/told"}
    (toy.run_dir / "schedule").mkdir(parents=True)
    (toy.run_dir / "schedule/schedule.json").write_text(json.dumps(schedule))
    toy.go.unlink()
    assert toy.command("slurm.scheduled").returncode == 0
    toy.wait_for(toy.run_dir / "middle/waiting", 60)
    assert toy.command("slurm.scheduled").returncode == 0
    toy.command("slurm.cancel")
    assert [toy.lab.wait(job) for step, job in toy.jobs().items() if step != "first"] == ["CANCELLED"] * 2
    toy.go.touch()
    done = toy.command("slurm.scheduled")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "middle cancelled" in (toy.folder / "told").read_text()
    assert [toy.lab.wait(job) for job in toy.jobs().values()] == ["COMPLETED"] * 2
    log = (toy.run_dir / "schedule/log.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in log] == ["submitted", "skipped", "failed", "submitted"]
