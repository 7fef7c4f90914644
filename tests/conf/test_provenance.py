"""When the provenance of a run is written anew, and when it stays as it is."""

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from conf.provenance import write_provenance

CONFIG = OmegaConf.create({"output": "x", "seed": 1})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_provenance(tmp_path, CONFIG, inputs={"data": "a"}, seeds={"seed": 1})
    record = json.loads((tmp_path / "provenance.json").read_text())
    (tmp_path / "provenance.json").write_text(json.dumps({**record, "started": "before", "command": "earlier"}))
    return tmp_path


def started(folder: Path) -> str:
    return json.loads((folder / "provenance.json").read_text())["started"]


def test_the_same_run_started_again_keeps_what_was_written_first(folder: Path) -> None:
    stamps = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    write_provenance(folder, CONFIG, inputs={"data": "a"}, seeds={"seed": 1})
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == stamps
    assert started(folder) == "before"


@pytest.mark.parametrize(
    "change",
    [
        {"config": OmegaConf.create({"output": "x", "seed": 2})},
        {"inputs": {"data": "b"}},
        {"seeds": {"seed": 2}},
    ],
)
def test_another_run_writes_its_own(folder: Path, change: dict) -> None:
    write_provenance(folder, **{"config": CONFIG, "inputs": {"data": "a"}, "seeds": {"seed": 1}, **change})
    assert started(folder) != "before"


@pytest.mark.parametrize("damage", ["provenance.json", "config.yaml"])
def test_a_damaged_or_missing_file_is_written_anew(folder: Path, damage: str) -> None:
    for spoil in (lambda path: path.write_text("{"), Path.unlink):
        spoil(folder / damage)
        write_provenance(folder, CONFIG, inputs={"data": "a"}, seeds={"seed": 1})
        assert started(folder) != "before"
        assert OmegaConf.load(folder / "config.yaml") == CONFIG
