"""The project as an installed wheel: no checkout beside it, another working directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # Built from a copy: building in place would leave build/ in the checkout.
    source = folder / "source"
    source.mkdir()
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in filter(None, tracked.decode().split("\0")):
        if (REPOSITORY / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((REPOSITORY / name).read_bytes())
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("palimpsest-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder / "site"), str(wheel)], check=True)
    return folder


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    elsewhere = installed / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(installed / "site")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
    )


def test_commands_find_their_configuration_in_the_wheel(installed: Path) -> None:
    where = run(installed, "-c", "import conf; print(conf.__file__)")
    assert where.stdout.startswith(str(installed / "site"))
    for module, options in {
        "pipeline": ["job=masked_lm"],
        "pretrain": ["experiment=demo"],
        "pretrain.evaluate": [],
        "pretrain.finetune": [],
        "pretrain.compare": [],
        "pretrain.export": [],
        "pretrain.translate": [],
        "pretrain.report": [],
        "slurm.submit": ["chain=demo"],
    }.items():
        done = run(installed, "-m", module, *options, "--cfg", "job")
        assert done.returncode == 0, f"{module}: {done.stderr}"


def test_a_chain_is_planned_from_the_wheel(installed: Path) -> None:
    done = run(installed, "-m", "slurm.submit", "chain=demo", "cluster=local", "dry_run=true")
    assert done.returncode == 0, done.stderr
    assert "experiment=demo" in done.stdout


def test_templates_of_the_html_pages_are_in_the_wheel(installed: Path) -> None:
    checkout = {
        path.relative_to(REPOSITORY)
        for package in ("pipeline", "pretrain")
        for path in (REPOSITORY / package).rglob("*.j2")
    }
    assert checkout
    assert all((installed / "site" / path).is_file() for path in checkout)


def test_a_folder_named_like_a_package_does_not_hide_it(installed: Path, tmp_path: Path) -> None:
    """Every run of a chain has a folder `pretrain`, and users start commands in there."""
    (tmp_path / "pretrain" / "checkpoints").mkdir(parents=True)
    for environment in (dict(os.environ), {**os.environ, "PYTHONPATH": str(installed / "site")}):
        words = [sys.executable, "-m", "pretrain", "experiment=demo", "--cfg", "job"]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
