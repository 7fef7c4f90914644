"""A preflight of a real Slurm: two nodes that pass, and what can really be wrong with one."""

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers.ranks import REPOSITORY
from tests.helpers.slurm_lab import SlurmLab


def preflight(lab: SlurmLab, folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    options = ["cluster=slurm", "cluster.nodes=2", "cluster.gpus_per_node=0", "cluster.cpus_per_task=2", "run_dir=runs"]
    environment = os.environ | {"SLURM_CONF": str(lab.folder / "slurm.conf"), "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, "-m", "slurm.submit", "preflight=true", *options, *overrides],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The verdict of each check."""
    lines = done.stdout.partition("runs/preflight:\n")[2].splitlines()
    return {line[2:].split("  ")[0]: line[2:].split("  ", 1)[1].split()[0] for line in lines}


def test_two_nodes_pass_and_a_folder_that_one_does_not_share_is_named(lab: SlurmLab, folder: Path) -> None:
    done = preflight(lab, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = {
        "partition",
        "resources",
        "job",
        "shared files",
        "atomic rename",
        "space",
        "versions",
        "network",
        "clocks",
    }
    assert rows(done) == dict.fromkeys(passed, "ok") | {"account": "-", "GPUs": "-"}
    assert "gloo, 2 ranks" in done.stdout and lab.nodes[1] not in done.stdout

    lab.hide(lab.nodes[1], folder / "runs")
    try:
        done = preflight(lab, folder)
    finally:
        lab.unhide(lab.nodes[1], folder / "runs")
    assert done.returncode == 1
    assert rows(done)["shared files"] == "FAILED" and rows(done)["network"] == "FAILED", done.stdout + done.stderr
    assert f"error: '{folder}/runs/preflight' must lie on a file system that all nodes" in done.stderr
    assert "of 2 nodes 1 left nothing there" in done.stderr


def test_what_slurm_would_refuse_is_said_before_there_is_a_job(lab: SlurmLab, folder: Path) -> None:
    done = preflight(lab, folder, "cluster.partition=gpu")
    assert done.returncode == 1
    assert "cluster.partition is 'gpu', which this cluster does not have: choose one of high, low, main" in done.stderr
    assert rows(done)["partition"] == "FAILED" and rows(done)["network"] == "-"
    assert lab.run("squeue", "--noheader") == ""
    done = preflight(lab, folder, "cluster.gpus_per_node=4")  # the lab's nodes have two
    assert done.returncode == 1 and rows(done)["resources"] == "FAILED"
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1
