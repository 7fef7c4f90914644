import json
import shutil

import pytest
import torch

from conf.errors import InputError
from pretrain.checkpoints import CheckpointFolder, RunState, require_same_run


def state(step, **changes):
    values = {
        "step": step,
        "samples": 8 * step,
        "tokens": 100 * step,
        "elapsed": 1.5,
        "updates": step,
        "model": {"hidden_size": 64, "num_layers": 2},
        "vocab_size": 200,
        "tokenizer_hash": "sha256:t",
        "data_hash": "sha256:d",
        "config": {"seed": 0},
        "files": {},
    }
    return RunState(**(values | changes))


def save(folder, step, keep_last=2):
    return folder.save(state(step), {"w": torch.full((3,), float(step))}, {"exp_avg/w": torch.ones(3)}, keep_last)


def test_what_is_saved_comes_back(tmp_path):
    folder = CheckpointFolder(tmp_path)
    save(folder, 3)
    found = folder.last_good()
    assert found.state.step == 3 and found.state.config == {"seed": 0} and found.state.model["hidden_size"] == 64
    assert torch.equal(found.weights()["w"], torch.full((3,), 3.0))
    assert torch.equal(found.optimizer()["exp_avg/w"], torch.ones(3))
    assert (folder.path / "latest").read_text() == "step-00000003"


def test_only_the_last_ones_are_kept(tmp_path):
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2, 3, 4):
        save(folder, step, keep_last=2)
    assert [path.name for path in folder.steps()] == ["step-00000003", "step-00000004"]
    save(folder, 5, keep_last=1)
    assert [path.name for path in folder.steps()] == ["step-00000005"]


def test_nothing_saved_is_none(tmp_path):
    assert CheckpointFolder(tmp_path).last_good() is None


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_newest_one_gives_way_to_the_one_before_it_and_says_so(tmp_path, file, damage, caplog):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    target = save(folder, 2) / file
    content = target.read_bytes()
    if damage == "remove":
        target.unlink()
    else:
        target.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage == "flip" else content[:-1])
    assert folder.last_good().state.step == 1
    assert "step-00000002 is damaged" in caplog.text and file in caplog.text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1}'])
def test_a_damaged_state_file_is_noticed(tmp_path, text):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    (save(folder, 2) / "state.json").write_text(text)
    assert folder.last_good().state.step == 1


def test_if_none_is_whole_nothing_is_trained_over_them(tmp_path):
    folder = CheckpointFolder(tmp_path)
    (save(folder, 1) / "state.json").unlink()
    with pytest.raises(InputError, match="none of the 1 checkpoints"):
        folder.last_good()


def test_a_kill_while_saving_leaves_nothing_that_counts_and_is_cleaned_up(tmp_path):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    half = folder.path / ".step-00000002.tmp"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert folder.last_good().state.step == 1
    save(folder, 2)
    assert not half.exists() and folder.last_good().state.step == 2


def test_a_damaged_checkpoint_is_replaced_when_its_step_comes_again(tmp_path):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    (save(folder, 2) / "model.safetensors").write_bytes(b"")
    save(folder, 2)
    assert folder.last_good().state.step == 2


def test_too_little_space_is_one_sentence_before_anything_is_written(tmp_path, monkeypatch):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(InputError, match=r"step-00000002 needs 16 MiB .* only 0 MiB are free"):
        save(folder, 2)
    assert [path.name for path in folder.path.iterdir() if path.name.startswith(".")] == []
    assert folder.last_good().state.step == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": {"hidden_size": 128, "num_layers": 2}}, "hidden_size=64, but model.hidden_size is 128"),
        ({"tokenizer_hash": "sha256:u"}, "another tokenizer"),
        ({"vocab_size": 300}, "vocabulary of 200, but the shards have 300"),
        ({"data_hash": "sha256:e"}, "content hash sha256:d"),
    ],
)
def test_what_differs_from_the_run_is_named(tmp_path, changes, sentence):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    expected = {
        "model": {"hidden_size": 64, "num_layers": 2},
        "vocab_size": 200,
        "tokenizer_hash": "sha256:t",
        "data_hash": "sha256:d",
    }
    require_same_run(folder.last_good(), **expected)
    with pytest.raises(InputError, match=sentence):
        require_same_run(folder.last_good(), **(expected | changes))


def test_the_state_file_is_plain_json_with_sizes_and_hashes(tmp_path):
    path = save(CheckpointFolder(tmp_path), 7)
    record = json.loads((path / "state.json").read_text())
    assert record["files"].keys() == {"model.safetensors", "optimizer.safetensors"}
    assert record["files"]["model.safetensors"]["bytes"] == (path / "model.safetensors").stat().st_size
