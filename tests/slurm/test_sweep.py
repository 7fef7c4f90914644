"""The table of a sweep: its rows by what jobs left on disk, and a sweep by Hydra's own launcher."""

import json
import subprocess
import sys
from pathlib import Path

from conf.sweep_record import Sweep, SweepJob, read_jobs, read_sweep, write_sweep
from slurm.scheduler import JobState
from slurm.sweep_table import as_text, differing, rows_of
from tests.helpers.toy_chain import Toy

SWEEP = Sweep("python -m pretrain", (("seed=0", "lr=1"), ("seed=0", "lr=2"), ("seed=0", "lr=3")), "x", "then")


def job(number: int, state: str, why: str = "", slurm_job: int | None = None) -> SweepJob:
    return SweepJob(number, state, why, SWEEP.jobs[number], "then", None, "host", 1, slurm_job)


def metrics(directory: Path, number: int, *losses: float) -> None:
    (directory / str(number)).mkdir()
    lines = [{"step": step, "validation_loss": loss, "tokens_per_second": 9.0} for step, loss in enumerate(losses, 1)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / str(number) / "metrics.jsonl").write_text(text + '{"step": 99, "valid')


def test_only_overrides_that_differ_are_shown() -> None:
    found = differing({0: ["a=1", "+b.c=x=y"], 1: ["a=1", "b.c=z", "~d"]})
    assert found == {0: {"b.c": "x=y", "d": ""}, 1: {"b.c": "z", "d": "~d"}}


def test_rows_are_sorted_by_the_best_figure_and_jobs_without_one_come_last(tmp_path: Path) -> None:
    metrics(tmp_path, 0, 5.0, 4.0, 4.5)
    metrics(tmp_path, 2, 3.0, float("nan"))
    begun = {0: job(0, "complete"), 1: job(1, "failed", "no room"), 2: job(2, "running")}
    rows = rows_of(tmp_path, SWEEP, begun, {}, False, "validation_loss", highest=False)
    assert [(row.job, row.state, row.steps, row.last, row.best) for row in rows] == [
        (2, "running", 2, 3.0, 3.0),
        (0, "complete", 3, 4.5, 4.0),
        (1, "failed", None, None, None),
    ]
    assert [row.job for row in rows_of(tmp_path, SWEEP, begun, {}, False, "validation_loss", True)] == [0, 2, 1]
    text = as_text(rows, "validation_loss")
    assert "lr" in text and "seed" not in text and "no room" in text.splitlines()[-1]


def test_what_slurm_knows_of_a_job_that_left_no_word(tmp_path: Path) -> None:
    begun = {0: job(0, "running", slurm_job=7), 1: job(1, "saved", slurm_job=8)}
    states = {7: JobState("TIMEOUT", "TimeLimit"), 8: JobState("PENDING")}
    rows = rows_of(tmp_path, SWEEP, begun, states, True, "validation_loss", False)
    assert [row.state for row in rows] == ["lost", "waiting", "waiting"] and "TIMEOUT" in rows[0].why
    rows = rows_of(tmp_path, SWEEP, begun, {}, False, "validation_loss", False)
    assert [row.state for row in rows] == ["lost", "saved", "not started"]


def test_another_sweep_in_the_same_directory_forgets_the_jobs_that_are_others(tmp_path: Path) -> None:
    write_sweep(tmp_path, SWEEP)
    for number in range(2):
        record = job(number, "complete").__dict__
        (tmp_path / f"sweep/{number}.json").write_text(json.dumps({"format": 1, **record}))
    other = Sweep(SWEEP.command, (SWEEP.jobs[0], ("seed=0", "lr=9")), "x", "now")
    write_sweep(tmp_path, other)
    assert read_sweep(tmp_path) == other and list(read_jobs(tmp_path)) == [0]


def test_a_sweep_by_hydras_own_launcher_has_a_table_with_the_job_that_failed(tmp_path: Path) -> None:
    toy = Toy(tmp_path)
    words = ["-m", "toy.join", "-m", "output=out", "files=[raw/a.txt],[nowhere],[raw/b.txt]"]
    (tmp_path / "src/toy/join.py").write_text(
        (tmp_path / "src/toy/join.py").read_text().replace(
            "import os, sys, time", "import os, sys, time\nimport conf.command\nfrom pathlib import Path as P"
            "\nconf.command.CONFIG_DIRECTORY = P('conf').resolve()"
        )
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=toy.environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "a sweep of 3 jobs in out" in done.stderr, done.stderr
    table = subprocess.run(
        [sys.executable, "-m", "slurm.sweep", "run_dir=out"],
        cwd=tmp_path, env=toy.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert table.returncode == 1, table.stderr
    rows = [line.split() for line in table.stdout.splitlines()[1:]]
    assert [row[2] for row in rows] == ["complete", "failed", "not"] and "there is no file nowhere" in table.stdout
