"""What a run may change when it goes on, and how one begins as a fork of another."""

from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from conf.command import compose
from conf.errors import InputError
from pretrain.__main__ import PretrainOptions
from pretrain.budget import Budget
from pretrain.checkpoints import Checkpoint, CheckpointFolder, Keep, RunState
from pretrain.resuming import (
    MAY_CHANGE,
    Change,
    changes,
    flatten,
    may_change,
    open_fork,
    require_budget_left,
    require_fork_fits,
    require_resumable,
)

MODEL = {"hidden_size": 64, "num_layers": 2, "attention_kernel": "auto"}
CONFIG = {
    "run_dir": "runs/a",
    "data": "shards/wiki",
    "seed": 0,
    "ranks": 1,
    "resume": True,
    "init_from": None,
    "fork": None,
    "fork_optimizer": "keep",
    "fork_progress": "keep",
    "stages": None,
    "model": {"_target_": "pretrain.models.encoder.EncoderConfig", **MODEL},
    "optimizer": {"_target_": "pretrain.optim.adamw.adamw", "lr": 1e-3, "betas": [0.9, 0.98]},
    "schedule": {"warmup": 10},
    "deepspeed": {"stage": 1, "precision": "bf16"},
    "trainer": {"max_steps": 100, "micro_batch_size": 4, "log_every": 10, "keep_last": 2},
}


def state(**changed):
    values = {
        "step": 7,
        "samples": 56,
        "tokens": 700,
        "elapsed": 1.5,
        "updates": 6,
        "model": MODEL,
        "vocab_size": 200,
        "tokenizer_hash": "sha256:t",
        "data_hash": "sha256:d",
        "config": CONFIG,
        "skipped": 1,
        "consumed": {"key": 56},
        "recent_norms": [1.0, 2.0],
        "wandb_id": "w",
        "validation": 3.0,
    }
    return RunState(**(values | changed))


def checkpoint(**changed):
    return Checkpoint(Path("runs/a/checkpoints/step-00000007"), state(**changed))


def resume(config, saved=None, **facts):
    now = {"model": MODEL, "vocab_size": 200, "tokenizer_hash": "sha256:t", "data_hash": "sha256:d"} | facts
    return require_resumable(saved or checkpoint(), config, **now)


def with_option(option, value):
    """CONFIG with one option set, "a.b=value"."""
    group, _, name = option.partition(".")
    return CONFIG | {group: CONFIG[group] | {name: value} if name else value}


def test_the_same_command_goes_on():
    assert resume(CONFIG) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("run_dir", "/moved/a"),
        ("ranks", 4),
        ("deepspeed.stage", 3),
        ("deepspeed.precision", "fp32"),
        ("trainer.micro_batch_size", 2),
        ("trainer.log_every", 1),
        ("trainer.keep_last", 5),
        ("data", "/moved/shards"),
    ],
)
def test_what_may_change_is_returned_with_old_and_new_value(option, value):
    group, _, name = option.partition(".")
    old = CONFIG[group][name] if name else CONFIG[group]
    assert resume(with_option(option, value)) == [Change(option, old, value)]
    assert str(Change(option, old, value)) == f"{option} {old!r} -> {value!r}"


@pytest.mark.parametrize(
    ("option", "value", "old"),
    [
        ("seed", 1, "0"),
        ("optimizer.lr", 2e-3, "0.001"),
        ("optimizer.betas", [0.9, 0.999], r"\[0.9, 0.98\]"),
        ("schedule.warmup", 20, "10"),
        ("trainer.max_steps", 200, "100"),
        ("stages", [{"share": 1.0}], "null"),
    ],
)
def test_any_other_change_is_refused_naming_option_old_new_and_the_way_out(option, value, old):
    with pytest.raises(InputError, match=f"option '{option}.*' must stay {old} while the run in 'runs/a' goes on") as e:
        resume(with_option(option, value))
    assert "fork=runs/a/checkpoints/step-00000007 and another run_dir" in str(e.value)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"model": MODEL | {"hidden_size": 128}}, "hidden_size=64, but model.hidden_size is 128: .* fork="),
        ({"model": MODEL | {"dropout": 0.1}}, "dropout=null, but model.dropout is 0.1"),
        ({"tokenizer_hash": "sha256:u"}, "another tokenizer"),
        ({"vocab_size": 300}, "vocabulary of 200, but the shards have 300"),
        ({"data_hash": "sha256:e"}, "content hash sha256:d, but the data now has sha256:e"),
    ],
)
def test_what_the_run_was_made_of_is_compared_by_content(facts, sentence):
    with pytest.raises(InputError, match=sentence):
        resume(CONFIG, **facts)


def test_the_kernel_may_change_for_it_is_a_choice_of_the_machine():
    config = with_option("model.attention_kernel", "sdpa")
    assert [c.option for c in resume(config, model=MODEL | {"attention_kernel": "sdpa"})] == ["model.attention_kernel"]


def test_resume_false_refuses_a_run_dir_that_holds_a_run():
    with pytest.raises(InputError, match=r"already holds a run .* resume=false"):
        resume(CONFIG | {"resume": False})


def test_a_mixture_may_move_too_and_its_weights_are_part_of_the_content_hash():
    before = CONFIG | {"data": {"/a/wiki": 0.7, "/a/books": 0.3}}
    now = CONFIG | {"data": {"/b/wiki": 0.7, "/b/books": 0.3}}
    found = resume(now, checkpoint(config=before))
    assert {change.option for change in found} == {"data./a/books", "data./a/wiki", "data./b/books", "data./b/wiki"}


def test_an_option_that_a_later_version_adds_does_not_stop_a_run_while_it_is_off():
    assert resume(with_option("optimizer.amsgrad", None)) == []
    with pytest.raises(InputError, match=r"option 'optimizer.amsgrad' must stay null"):
        resume(with_option("optimizer.amsgrad", True))


def test_a_start_that_is_left_away_or_given_again_is_no_change_but_another_one_is():
    begun = checkpoint(config=CONFIG | {"init_from": "models/x"})
    assert resume(CONFIG | {"init_from": "models/x"}, begun) == resume(CONFIG, begun) == []
    with pytest.raises(InputError, match=r"'init_from' must stay 'models/x' .* but is 'models/y'"):
        resume(CONFIG | {"init_from": "models/y"}, begun)


def test_a_fork_goes_on_by_the_same_command_and_no_other_run_becomes_one(tmp_path):
    record = {"asked": str(tmp_path / "old"), "checkpoint": str(tmp_path / "old" / "step"), "step": 3}
    forked = CONFIG | {"fork": "old", "fork_progress": "restart"}
    begun = checkpoint(config=forked, fork=record)
    assert resume(forked, begun) == resume(CONFIG, begun) == []
    assert resume(forked | {"fork": str(tmp_path / "old" / "step")}, begun) == []
    with pytest.raises(InputError, match=r"already holds a fork of .* cannot begin as a fork of 'other'"):
        resume(forked | {"fork": "other"}, begun)
    with pytest.raises(InputError, match=r"'fork_progress' must stay 'restart' .* but is 'keep'"):
        resume(forked | {"fork_progress": "keep"}, begun)
    with pytest.raises(InputError, match="already holds a run that is no fork"):
        resume(CONFIG | {"fork": "old"})


scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
trees = st.recursive(scalars, lambda node: st.dictionaries(st.sampled_from("abc"), node) | st.lists(node, max_size=3))


@given(st.dictionaries(st.sampled_from("abc"), trees), st.dictionaries(st.sampled_from("abc"), trees))
def test_changes_are_those_leaves_that_differ(before, now):
    assert changes(before, before) == []
    found = changes(before, now)
    old, new = flatten(before), flatten(now)
    for change in found:
        assert old.get(change.option) == change.before != change.now == new.get(change.option)
    named = {change.option for change in found}
    assert all(old.get(name) == new.get(name) for name in {*old, *new} - named)
    assert changes(now, before) == [Change(c.option, c.now, c.before) for c in found]


def test_every_pattern_of_what_may_change_names_an_option_that_exists():
    stages = "stages={long: {micro_batch_size: 1, data: {s: 1.0}}}"
    config = compose("pretrain", ["run_dir=r", "data={s: 1.0}", "languages={en: s}", stages])
    options = [*flatten(OmegaConf.to_container(config, resolve=True)), "data", "stages.long.data"]
    for pattern in MAY_CHANGE:
        assert any(fnmatchcase(option, pattern) for option in options), pattern


def test_what_decides_the_numbers_is_not_on_the_list():
    config = compose("pretrain", ["run_dir=r", "data=s"], PretrainOptions)
    fixed = {name for name in flatten(OmegaConf.to_container(config, resolve=True)) if not may_change(name)}
    assert {
        "seed",
        "optimizer.lr",
        "trainer.max_steps",
        "trainer.max_tokens",
        "trainer.max_hours",
        "trainer.global_batch_size",
        "trainer.gradient_clipping",
        "trainer.skip_sigmas",
        "model.hidden_size",
        "objective.mask_probability",
        "schedule.warmup",
        "sampling_exponent",
        "languages",
        "stages",
    } <= fixed


def save_run(run_dir, **changed):
    weights = {"a.weight": torch.ones(2, 3), "b.bias": torch.zeros(3)}
    moments = {f"exp_avg/{name}": torch.ones_like(value) for name, value in weights.items()}
    return CheckpointFolder(run_dir).save(state(**changed), weights, moments, Keep(5))


def test_a_fork_keeps_progress_and_optimiser_as_asked(tmp_path):
    source = save_run(tmp_path / "a")
    kept = open_fork(tmp_path / "a")
    assert kept.checkpoint.path == source and kept.keeps_optimizer
    assert kept.state == replace(kept.checkpoint.state, fork=kept.record, wandb_id=None, validation=None)
    assert kept.record["checkpoint"] == str(source.resolve()) and kept.record["step"] == 7
    assert kept.record["asked"] == str((tmp_path / "a").resolve())

    anew = open_fork(source, "fresh", "restart")
    assert not anew.keeps_optimizer and anew.state.updates == 0
    counts = (anew.state.step, anew.state.skipped, anew.state.samples, anew.state.tokens, anew.state.elapsed)
    assert counts == (0, 0, 0, 0, 0.0) and anew.state.consumed == {} and anew.state.recent_norms == []

    assert open_fork(source, "keep", "restart").state.updates == 6  # bias correction belongs to the moments
    assert open_fork(source, "fresh", "keep").state.step == 7


def test_a_fork_begins_at_the_last_good_or_the_best_checkpoint(tmp_path):
    save_run(tmp_path / "a", step=1, validation=1.0)
    save_run(tmp_path / "a", step=2, validation=2.0)
    assert open_fork(tmp_path / "a" / "best").state.step == 1
    (save_run(tmp_path / "a", step=3) / "model.safetensors").write_bytes(b"")
    assert open_fork(tmp_path / "a").state.step == 2
    with pytest.raises(InputError, match="must have"):
        open_fork(tmp_path / "a" / "checkpoints" / "step-00000003")
    with pytest.raises(InputError, match="must be a checkpoint"):
        open_fork(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("arguments", "name"), [(("drop", "keep"), "fork_optimizer"), (("keep", "x"), "fork_progress")]
)
def test_other_ways_to_fork_are_refused(tmp_path, arguments, name):
    with pytest.raises(InputError, match=f"option '{name}' must be keep or"):
        open_fork(tmp_path, *arguments)


def test_a_fork_must_fit_the_model_the_tokenizer_and_the_optimiser_if_that_is_kept(tmp_path):
    save_run(tmp_path / "a")
    fork, shapes = open_fork(tmp_path / "a"), {"a.weight": (2, 3), "b.bias": (3,), "tied.name": (2, 3)}
    adamw, other = CONFIG["optimizer"], {"_target_": "pretrain.optim.lamb.lamb"}
    require_fork_fits(fork, shapes, tokenizer_hash="sha256:t", optimizer=adamw | {"lr": 5.0})
    with pytest.raises(InputError, match="another tokenizer"):
        require_fork_fits(fork, shapes, tokenizer_hash="sha256:u", optimizer=adamw)
    with pytest.raises(InputError, match=r"its 'a.weight' is \(2, 3\) instead of \(4, 3\)"):
        require_fork_fits(fork, shapes | {"a.weight": (4, 3)}, tokenizer_hash="sha256:t", optimizer=adamw)
    with pytest.raises(InputError, match=r"its 'b.bias' is \(3,\) instead of absent"):
        require_fork_fits(fork, {"a.weight": (2, 3)}, tokenizer_hash="sha256:t", optimizer=adamw)
    with pytest.raises(InputError, match=r"fork_optimizer=keep needs the optimiser .*adamw.* or fork_optimizer=fresh"):
        require_fork_fits(fork, shapes, tokenizer_hash="sha256:t", optimizer=other)
    fresh = open_fork(tmp_path / "a", "fresh")
    require_fork_fits(fresh, shapes, tokenizer_hash="sha256:t", optimizer=other)


def test_a_fork_must_leave_something_of_its_budget(tmp_path):
    save_run(tmp_path / "a", skipped_tokens=100)
    kept, anew = open_fork(tmp_path / "a"), open_fork(tmp_path / "a", progress="restart")
    for unit, used, words in (
        ("steps", 6, "begins at step 7, but trainer.max_steps is 6: .* or fork_progress=restart"),
        ("tokens", 600, "at step 7 after 600 tokens, but trainer.max_tokens is 600"),
        ("hours", 1.5 / 3600, "hours, but trainer.max_hours is"),
    ):
        require_budget_left(kept, Budget(unit, used * 1.01))
        require_budget_left(anew, Budget(unit, used))
        with pytest.raises(InputError, match=words):
            require_budget_left(kept, Budget(unit, used))


def test_rows_to_skip_are_no_reason_to_fork_where_they_were_learned_already():
    with pytest.raises(InputError, match="fork=CHECKPOINT, the last of 'runs/a/checkpoints' before the rows in") as e:
        resume(CONFIG | {"skip_rows": "skip.jsonl"})
    assert "step-00000007 and another" not in str(e.value)
