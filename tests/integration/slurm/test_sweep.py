"""A sweep through submitit on a real Slurm, and its table."""

import csv
import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.ranks import REPOSITORY
from tests.helpers.slurm_lab import SlurmLab

KEY = "a-key-that-nobody-may-read"


def test_a_sweep_of_four_jobs_runs_as_an_array_and_its_table_has_the_failed_one_too(
    lab: SlurmLab, shards: Path, folder: Path
) -> None:
    words = [
        "-m", "pretrain", "-m", "hydra/launcher=submitit_slurm", "experiment=tiny", f"data={shards}", "run_dir=runs/lr",
        "optimizer.lr=1e-3,2e-3,4e-3,-1", "deepspeed.precision=fp32", "schedule.warmup=1", "trainer.max_steps=3",
        "trainer.validation_every=1", "hydra.launcher.cpus_per_task=1",
    ]  # fmt: skip
    environment = lab.environment | {"PYTHONPATH": str(REPOSITORY), "WANDB_API_KEY": KEY, "AWS_SECRET_ACCESS_KEY": KEY}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 1, done.stderr
    said = [line for line in done.stderr.splitlines() if line != "Slurm accounting storage is disabled"]
    assert len(said) <= 3, done.stderr
    assert "a sweep of 4 jobs in runs/lr" in done.stderr and "error: job 3 of the sweep failed: " in done.stderr
    table = subprocess.run(
        [sys.executable, "-m", "slurm.sweep", "run_dir=runs/lr"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert table.returncode == 1, table.stdout + table.stderr
    rows = list(csv.DictReader((folder / "runs/lr/sweep_table.csv").open()))
    assert [row["state"] for row in rows] == ["complete"] * 3 + ["failed"], table.stdout
    assert {row["job"]: row["optimizer.lr"] for row in rows} == {"0": "0.001", "1": "0.002", "2": "0.004", "3": "-1"}
    best = [float(row["best"]) for row in rows[:3]]
    assert best == sorted(best) and {row["steps"] for row in rows[:3]} == {"3"}
    assert "optimizer.lr" in rows[3]["why"] and "Traceback" not in table.stdout
    command = (folder / "runs/lr/1/provenance.json").read_text()
    assert "python -m pretrain " in command and "run_dir=runs/lr/1" in command
    assert_nowhere(KEY, folder)


def assert_nowhere(secret: str, folder: Path) -> None:
    """No file below a folder holds it."""
    for path in (Path(where) / name for where, _, names in os.walk(folder) for name in names):
        assert secret.encode() not in path.read_bytes(), path
