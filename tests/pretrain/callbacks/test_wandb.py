"""W&B is no dependency: where it is installed its offline mode is run, elsewhere the sentence is what a user gets."""

import importlib.util
import subprocess
import sys

import pytest

from conf.errors import InputError
from pretrain.callbacks.wandb import WandbRun, require_wandb

INSTALLED = importlib.util.find_spec("wandb") is not None


def test_nothing_is_needed_where_it_is_not_asked_for():
    require_wandb(None)


def test_without_the_package_asking_for_it_is_one_sentence():
    code = """
import sys
sys.modules["wandb"] = None  # as if it were not installed
from conf.errors import InputError
from pretrain.callbacks.wandb import require_wandb
try:
    require_wandb("encoders")
except InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("wandb.project=encoders needs the package wandb, but it cannot be imported")
    assert "pip install wandb" in done.stdout


def test_offline_a_resumed_run_keeps_its_id(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    if not INSTALLED:
        with pytest.raises(InputError, match="needs the package wandb"):
            WandbRun(tmp_path, {}, "encoders")
        return
    ids = []
    for first in (1, 3):
        run = WandbRun(tmp_path, {"seed": 1, "trainer": {"max_steps": 4}}, "encoders")
        ids.append(run.run_id)
        for step in (first, first + 1):
            run.write(step, {"loss": 1.0 / step})
        run.close()
    assert ids[0] == ids[1] == (tmp_path / "wandb_id").read_text().strip()
    assert list(tmp_path.glob(f"wandb/offline-run-*-{ids[0]}/run-{ids[0]}.wandb"))
    (tmp_path / "wandb_id").unlink()
    adopted = WandbRun(tmp_path, {}, "encoders", run_id="ofacheckpoint")
    adopted.close()
    assert adopted.run_id == "ofacheckpoint"
