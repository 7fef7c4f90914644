"""What a checkpoint folder promises: whole or not there, checked, and no more on disk than is to be kept."""

import itertools
import json
import math
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from conf.errors import InputError
from pretrain.checkpoints import (
    CheckpointFolder,
    Keep,
    OtherFormat,
    RunState,
    by_loss,
    open_checkpoint,
    write_tensors,
)


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
    }
    return RunState(**(values | changes))


def save(folder, step, keep_last=2, keep_best=0, keep_every=None, **changes):
    weights, moments = {"w": torch.full((3,), float(step))}, {"exp_avg/w": torch.ones(3)}
    return folder.save(state(step, **changes), weights, moments, Keep(keep_last, keep_best, keep_every))


def names(folder):
    return [path.name for path in folder.steps()]


def test_what_is_saved_comes_back(tmp_path):
    folder = CheckpointFolder(tmp_path)
    norms = [0.1 + 0.2, 1e-300, 3.0]
    save(folder, 3, consumed={"key": 24}, recent_norms=norms, skipped=1, wandb_id="run", validation=2.5)
    found = folder.last_good()
    assert found.state.step == 3 and found.state.config == {"seed": 0} and found.state.model["hidden_size"] == 64
    assert found.state.consumed == {"key": 24} and found.state.recent_norms == norms
    assert found.state.skipped == 1 and found.state.wandb_id == "run" and found.state.validation == 2.5
    assert torch.equal(found.weights()["w"], torch.full((3,), 3.0))
    assert torch.equal(found.optimizer()["exp_avg/w"], torch.ones(3))
    assert found.shapes() == {"w": (3,)}
    assert (folder.path / "latest").read_text() == "step-00000003"


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
        st.tuples(
            st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.uint8]),
            st.lists(st.integers(0, 3), max_size=3),
        ),
        max_size=5,
    )
)
def test_a_tensor_file_is_what_safetensors_reads_and_its_hash_is_of_the_memory(tmp_path_factory, layout):
    path = tmp_path_factory.mktemp("tensors") / "file"
    generator = np.random.default_rng(0)
    tensors = {
        name: torch.from_numpy(generator.integers(0, 2, shape)).to(dtype) for name, (dtype, shape) in layout.items()
    }
    record = write_tensors(path, tensors)
    found = load_file(path)
    assert found.keys() == tensors.keys()
    assert all(
        found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) for name, tensor in tensors.items()
    )
    assert record["bytes"] == path.stat().st_size


def test_tensors_that_do_not_lie_in_one_piece_are_written_as_they_read(tmp_path):
    tensor = torch.arange(12.0).reshape(3, 4).T
    write_tensors(tmp_path / "file", {"t": tensor})
    assert torch.equal(load_file(tmp_path / "file")["t"], tensor)


def test_only_the_last_ones_are_kept(tmp_path):
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2, 3, 4):
        save(folder, step, keep_last=2)
    assert names(folder) == ["step-00000003", "step-00000004"]
    save(folder, 5, keep_last=1)
    assert names(folder) == ["step-00000005"]


def test_the_best_by_validation_loss_and_every_so_many_steps_are_kept_besides(tmp_path):
    folder = CheckpointFolder(tmp_path)
    losses = {1: 3.0, 2: 1.0, 3: None, 4: 2.0, 5: 4.0, 6: math.nan, 7: None, 8: None, 9: None}
    for step, loss in losses.items():
        save(folder, step, keep_last=1, keep_best=2, keep_every=5, validation=loss)
    assert [int(name[-1]) for name in names(folder)] == [2, 4, 5, 9]
    assert folder.losses() == {2: 1.0, 4: 2.0, 5: 4.0, 9: None}
    assert folder.best().state.step == 2


def test_what_was_due_at_a_skipped_step_is_kept_for_good_under_the_number_of_the_next():
    steps = {4: None, 9: None, 12: None, 15: None, 16: None, 21: None, 25: None, 26: None}
    # 5 and 10 and 20 were skipped: 9, 12 and 21 come first after them.
    assert Keep(last=1, every=5).of(steps) == {9, 12, 15, 21, 25, 26}


def test_a_loss_measured_after_the_save_counts_too(tmp_path):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1, validation=2.0)
    save(folder, 2)
    folder.note_validation(2, 1.0)
    folder.note_validation(9, 0.0)  # of no checkpoint
    assert folder.best().state.step == 2 and folder.last_good().state.validation == 1.0


def test_without_any_loss_there_is_no_best_one(tmp_path):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    with pytest.raises(InputError, match="has a validation loss to choose"):
        folder.best()


losses_of_steps = st.dictionaries(
    st.integers(1, 60), st.none() | st.floats(0, 10) | st.just(math.nan), min_size=1, max_size=20
)


@given(losses_of_steps, st.integers(1, 5), st.integers(0, 4), st.none() | st.integers(1, 20))
def test_the_rule_of_what_is_kept(losses, last, best, every):
    kept = Keep(last, best, every).of(losses)
    steps = sorted(losses)
    assert set(steps[-last:]) <= kept <= set(steps)
    ranked = by_loss(losses)
    assert set(ranked[:best]) <= kept
    assert all(losses[a] <= losses[b] for a, b in itertools.pairwise(ranked))
    multiples = range(every, steps[-1] + 1, every) if every else ()
    lasting = {min(step for step in steps if step >= multiple) for multiple in multiples}
    assert kept == lasting | {*steps[-last:], *ranked[:best]}


@given(losses_of_steps, st.integers(1, 5), st.integers(0, 4), st.none() | st.integers(1, 20))
def test_pruning_step_by_step_keeps_the_same_as_pruning_once(losses, last, best, every):
    """So the best ones are still there when they are asked for."""
    keep, held = Keep(last, best, every), {}
    for step in sorted(losses):
        held[step] = losses[step]
        kept = keep.of(held)
        held = {s: loss for s, loss in held.items() if s in kept}
    assert held.keys() == keep.of(losses)


def test_old_ones_go_before_the_new_one_is_written_but_never_the_last_good_one(tmp_path, monkeypatch):
    folder = CheckpointFolder(tmp_path)
    for step in (1, 2, 3):
        save(folder, step, keep_last=3)
    seen = []
    real = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: (seen.append(names(folder)), real(path))[1])
    save(folder, 4, keep_last=1)
    assert seen == [["step-00000003"]]
    assert names(folder) == ["step-00000004"]


def test_the_last_good_one_stays_until_the_next_is_verified_even_if_damaged_ones_are_newer(tmp_path):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1, keep_last=3)
    for step in (2, 3):
        (save(folder, step, keep_last=3) / "model.safetensors").write_bytes(b"")
    resumed = CheckpointFolder(tmp_path)
    assert resumed.last_good().state.step == 1
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        real = shutil.disk_usage
        patch.setattr(shutil, "disk_usage", lambda path: (seen.append(names(resumed)), real(path))[1])
        save(resumed, 2, keep_last=1)
    assert seen == [["step-00000001", "step-00000002"]]  # 3, which resuming stepped over, is gone
    assert names(resumed) == ["step-00000002"] and resumed.last_good().state.step == 2


def test_other_folders_are_left_alone(tmp_path):
    folder = CheckpointFolder(tmp_path)
    shutil.copytree(save(folder, 1), folder.path / "step-00000001.mine")
    (folder.path / "step-notes").mkdir()
    for step in (2, 3):
        save(folder, step, keep_last=1)
    assert names(folder) == ["step-00000003"]
    assert (folder.path / "step-00000001.mine").is_dir() and (folder.path / "step-notes").is_dir()


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
    assert "trying the one before it" in caplog.text


@pytest.mark.parametrize("text", ["", "{", "[]", "\0", '{"format": 99}', '{"format": 1}', '{"format": 2}'])
def test_a_damaged_state_file_is_noticed(tmp_path, text):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    (save(folder, 2) / "state.json").write_text(text)
    assert folder.last_good().state.step == 1


def test_if_none_is_whole_nothing_is_trained_over_them(tmp_path, caplog):
    folder = CheckpointFolder(tmp_path)
    (save(folder, 1) / "state.json").unlink()
    with pytest.raises(InputError, match="none of the 1 checkpoints"):
        folder.last_good()
    assert "none before it" in caplog.text and "trying" not in caplog.text


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


@pytest.mark.parametrize(("before", "after"), [('"step": 2', '"step": 3'), ('"elapsed": 1.5', '"elapsed": 1.4')])
def test_a_state_file_that_still_reads_but_says_something_else_is_noticed(tmp_path, before, after, caplog):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    path = save(folder, 2) / "state.json"
    assert path.read_text().count(before) == 1
    path.write_text(path.read_text().replace(before, after))
    assert folder.last_good().state.step == 1 and "state.json does not match its checksum" in caplog.text


def test_every_flipped_bit_of_any_file_is_noticed(tmp_path):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    newest = save(folder, 2)
    generator = np.random.default_rng(0)
    for path in sorted(newest.iterdir()):
        content = path.read_bytes()
        text = json.loads(content) if path.suffix == ".json" else None
        for bit in generator.integers(0, 8 * len(content), 40):
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << (bit % 8)
            path.write_bytes(damaged)
            same = False
            if text is not None:  # a flip between blanks, or in an escape's letter case, says the same
                try:
                    same = json.loads(bytes(damaged)) == text
                except ValueError:
                    same = False
            assert folder.last_good().state.step == (2 if same else 1), (path.name, bit)
        path.write_bytes(content)
    assert folder.last_good().state.step == 2


def test_another_format_is_one_sentence_and_not_damage(tmp_path):
    folder = CheckpointFolder(tmp_path)
    save(folder, 1)
    path = save(folder, 2) / "state.json"
    record = json.loads(path.read_text())
    del record["checksum"]
    path.write_text(json.dumps(record | {"format": 1}))
    with pytest.raises(OtherFormat, match="step-00000002' is of format 1, but this version reads format 2: go on with"):
        folder.last_good()


def test_a_kill_while_pruning_leaves_nothing_that_counts_and_is_cleaned_up(tmp_path):
    folder = CheckpointFolder(tmp_path)
    half = save(folder, 1).rename(folder.path / ".step-00000001.old")
    (half / "model.safetensors").unlink()
    assert folder.last_good() is None
    save(folder, 2)
    assert not half.exists()


def test_a_full_disk_names_the_file_and_leaves_nothing_half_written(small_disk, monkeypatch):
    folder = CheckpointFolder(small_disk)
    usage = shutil.disk_usage(small_disk)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1 << 40))  # filled up since it was asked
    with pytest.raises(OSError) as caught:
        folder.save(state(1), {"w": torch.zeros(1 << 20)}, {}, Keep())
    assert caught.value.filename.endswith("model.safetensors")
    assert list(folder.path.iterdir()) == []


def test_a_path_names_a_checkpoint_a_run_or_its_best_one(tmp_path):
    folder = CheckpointFolder(tmp_path / "run")
    first = save(folder, 1, validation=1.0)
    save(folder, 2, validation=2.0)
    for path, step in (
        (first, 1),
        (tmp_path / "run", 2),
        (tmp_path / "run" / "best", 1),
        (tmp_path / "run" / "last", 2),
        (folder.path, 2),
        (folder.path / "best", 1),
    ):
        assert open_checkpoint(path).state.step == step
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "best"):
        with pytest.raises(InputError, match="must be a checkpoint"):
            open_checkpoint(path)
    (first / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"model.safetensors must have \d+ bytes, but has 0"):
        open_checkpoint(first)


def test_the_state_file_is_plain_json_with_sizes_and_hashes(tmp_path):
    path = save(CheckpointFolder(tmp_path), 7)
    record = json.loads((path / "state.json").read_text())
    assert record["files"].keys() == {"model.safetensors", "optimizer.safetensors"}
    assert record["files"]["model.safetensors"]["bytes"] == (path / "model.safetensors").stat().st_size
