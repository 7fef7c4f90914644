"""One lab for all tests of this folder that a worker runs, tiny shards, and the run that nothing disturbs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.ranks import REPOSITORY
from tests.helpers.shard_directory import sentences, write_shards
from tests.helpers.slurm_lab import SlurmLab, reason_to_skip

STEPS = 30


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    file = tmp_path_factory.mktemp("environment") / "cluster.env"
    python = f"cluster.setup=['export PATH={Path(sys.executable).parent}:$PATH']"
    words = ["-m", "slurm.submit", "cluster=slurm", f"render={file}", python]
    subprocess.run([sys.executable, *words], cwd=REPOSITORY, check=True)
    with SlurmLab(nodes=2) as lab:
        lab.environment |= {"CLUSTER_ENV": str(file), "PYTHONDONTWRITEBYTECODE": "1"}
        # The jobs find python and this checkout by themselves.
        lab.environment.pop("PYTHONPATH", None)
        lab.environment["PATH"] = os.defpath + ":/usr/sbin:/sbin"
        yield lab


@pytest.fixture
def folder(lab: SlurmLab, tmp_path: Path) -> Iterator[Path]:
    """Where a test submits from; what still runs at its end is cancelled."""
    yield tmp_path
    subprocess.run(["scancel", "--user=root"], env=lab.environment, check=False)
    deadline = time.monotonic() + 30
    while lab.run("squeue", "--noheader") and time.monotonic() < deadline:
        time.sleep(0.2)


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shards(tmp_path_factory.mktemp("data") / "shards", sentences(500))


def options(shards: Path, run_dir: Path | str, *overrides: str) -> list[str]:
    """What every run of these tests is given."""
    return [
        "experiment=tiny",
        f"data={shards}",
        f"run_dir={run_dir}",
        "deepspeed.precision=fp32",
        f"trainer.max_steps={STEPS}",
        "trainer.global_batch_size=16",
        "trainer.micro_batch_size=4",
        "trainer.checkpoint_every=5",
        "model.dropout=0.1",
        *overrides,
    ]


@pytest.fixture(scope="session")
def undisturbed(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of four ranks on this machine, without Slurm."""
    run_dir = tmp_path_factory.mktemp("undisturbed") / "run"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    done = subprocess.run(
        [sys.executable, "-m", "pretrain", *options(shards, run_dir, "ranks=4")],
        cwd=REPOSITORY,
        env=clean | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return run_dir
