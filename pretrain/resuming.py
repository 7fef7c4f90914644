"""What a run may change when it goes on from a checkpoint, and how a run begins as a fork of another one.

What may change is one list, `MAY_CHANGE`: options that alter how the run is computed, watched or kept, and none that
alter what is computed. Everything else is another run, and a fork is how to start that. Pure rules, but for
`open_fork`, which reads. Must not import deepspeed, Hydra or the trainer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from conf.checks import as_yaml
from conf.errors import InputError
from pretrain.budget import Budget
from pretrain.checkpoints import WEIGHTS, Checkpoint, RunState, open_checkpoint

# Patterns of options (`*` spans dots). Which rows are read is compared by content hash, so paths of data may move.
MAY_CHANGE = (
    "run_dir",
    "resume",
    "ranks",
    "dry_run",
    "deepspeed.*",
    "trainer._target_",  # how it is computed: where the code of it is, and Hydra's own marks
    "*._partial_",
    "model.attention_kernel",
    "wandb*",
    "data",
    "data.*",
    "languages.*",  # the numbers of languages are part of the data's hash
    "stages.*.data",
    "stages.*.data.*",
    "stages.*.micro_batch_size",
    "trainer.micro_batch_size",
    "trainer.threads",
    "trainer.loader_workers",
    "trainer.log_every",
    "trainer.checkpoint_*",
    "trainer.keep_*",
    "trainer.validation_*",
    "trainer.max_seconds",
    "trainer.time_limit_minutes",
    "trainer.save_before_end_seconds",
    "trainer.max_skips_in_a_row",
    "trainer.stall_seconds",
    "trainer.hang_seconds",
    "trainer.collective_timeout_seconds",
    "trainer.gradient_noise",
    "trainer.find_nonfinite",
    "trainer.peak_flops",
)
# Options that say how a run begins: given again they must be the same, and they may be left away.
_OF_THE_START = ("init_from", "fork", "fork_optimizer", "fork_progress")
_MODEL_MAY_CHANGE = ("attention_kernel",)
_NOT_SET = None


@dataclass(frozen=True)
class Change:
    """An option that is not what it was; None stands for null and for an option that is not there."""

    option: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.option} {as_yaml(self.before)} -> {as_yaml(self.now)}"


def flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return "a.b.0.c" -> value for every leaf of nested mappings and lists of mappings (JSON's view of them)."""
    flat: dict[str, Any] = {}

    def walk(node: Any, name: str) -> None:
        if isinstance(node, dict) and node:
            for key, value in node.items():
                walk(value, f"{name}.{key}" if name else key)
        elif isinstance(node, list) and any(isinstance(value, dict) for value in node):
            for number, value in enumerate(node):
                walk(value, f"{name}.{number}")
        else:
            flat[name] = node

    walk(json.loads(json.dumps(config, default=str)), "")
    return flat


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Return every option that differs between two resolved configurations, by name."""
    old, new = flatten(before), flatten(now)
    found = (Change(name, old.get(name, _NOT_SET), new.get(name, _NOT_SET)) for name in sorted({*old, *new}))
    return [change for change in found if change.before != change.now]


def may_change(option: str) -> bool:
    """Whether a run may go on with another value of an option."""
    return any(fnmatchcase(option, pattern) for pattern in MAY_CHANGE)


def require_resumable(
    checkpoint: Checkpoint,
    config: Mapping[str, Any],
    *,
    model: Mapping[str, Any],
    vocab_size: int,
    tokenizer_hash: str,
    data_hash: str,
) -> list[Change]:
    """Check that the run of `config` (resolved, plain) may go on from a checkpoint of its own run_dir; return what
    changed that may change, to be logged.

    `model` holds the fields of the architecture. Raises InputError naming what differs, old and new, and the way out.
    """
    state, run_dir = checkpoint.state, config.get("run_dir", checkpoint.path.parent.parent)
    if config.get("resume") is False:
        raise InputError(
            f"'{run_dir}' already holds a run (its last checkpoint is {checkpoint.path.name}), and resume=false "
            "would overwrite it: choose another run_dir, or resume=true."
        )
    _require_same_start(checkpoint, config)
    way_out = (
        f"give the options the run was started with, or start another run from it with fork={checkpoint.path} and "
        "another run_dir"
    )
    for name in sorted({*state.model, *model} - {*_MODEL_MAY_CHANGE}):
        old, new = (json.loads(json.dumps(fields.get(name), default=str)) for fields in (state.model, model))
        if old != new:
            raise InputError(
                f"the checkpoint {checkpoint.path} holds a model with {name}={as_yaml(old)}, but model.{name} is "
                f"{as_yaml(new)}: "
                f"{way_out}"
            )
    if state.tokenizer_hash != tokenizer_hash:
        raise InputError(
            f"the shards were made with another tokenizer ({tokenizer_hash}) than the model of the checkpoint "
            f"{checkpoint.path} ({state.tokenizer_hash}): give the shards the run was started with, or another run_dir"
        )
    if state.vocab_size != vocab_size:
        raise InputError(
            f"the checkpoint {checkpoint.path} has a vocabulary of {state.vocab_size}, but the shards have "
            f"{vocab_size}: give the shards the run was started with, or another run_dir"
        )
    if state.data_hash != data_hash:
        raise InputError(
            f"the checkpoint {checkpoint.path} was trained on data with content hash {state.data_hash}, but the data "
            f"now has {data_hash}: {way_out}"
        )
    found = [change for change in changes(state.config, config) if change.option not in _OF_THE_START]
    for change in found:
        if not may_change(change.option):
            raise InputError(
                f"option '{change.option}' must stay {as_yaml(change.before)} while the run in '{run_dir}' goes on "
                f"from {checkpoint.path.name}, but is {as_yaml(change.now)}: give the old value, or "
                f"{_other_run(change, checkpoint)}"
            )
    return found


def _other_run(change: Change, checkpoint: Checkpoint) -> str:
    """Return the way to have the change after all. What a row taught is in every checkpoint after it."""
    if change.option == "skip_rows":
        return (
            f"start another run with fork=CHECKPOINT, the last of '{checkpoint.path.parent}' before the rows in "
            "question, and another run_dir"
        )
    return f"start another run from it with fork={checkpoint.path} and another run_dir"


def _require_same_start(checkpoint: Checkpoint, config: Mapping[str, Any]) -> None:
    """Raise InputError if the run is asked to begin anew, other than it once did."""
    before, record = checkpoint.state.config, checkpoint.state.fork
    run_dir = config.get("run_dir", checkpoint.path.parent.parent)
    asked = config.get("fork")
    if asked is not None and (record is None or not _is_fork_of(str(asked), before, record)):
        what = f"a fork of '{record['checkpoint']}'" if record is not None else "a run that is no fork"
        raise InputError(
            f"'{run_dir}' already holds {what} (its last checkpoint is {checkpoint.path.name}), so it cannot begin as "
            f"a fork of '{asked}': choose another run_dir, or leave fork away to go on with what is there."
        )
    given = ["init_from", *(["fork_optimizer", "fork_progress"] if asked is not None else [])]
    for name in given:
        if config.get(name) not in (None, before.get(name)):
            raise InputError(
                f"option '{name}' must stay {as_yaml(before.get(name))} while the run in '{run_dir}' goes on from "
                f"{checkpoint.path.name}, but is {as_yaml(config[name])}: leave it away, or choose another run_dir"
            )


def _is_fork_of(asked: str, before: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    return asked == before.get("fork") or str(Path(asked).resolve()) in (record["asked"], record["checkpoint"])


@dataclass(frozen=True)
class Fork:
    """The beginning of a run in a checkpoint of another one.

    `state` is the source's with what the new run counts anew set to 0; `record` goes into `RunState.fork`.
    """

    checkpoint: Checkpoint
    state: RunState
    record: dict[str, Any]

    @property
    def keeps_optimizer(self) -> bool:
        """Whether the optimiser's state goes on."""
        return bool(self.record["optimizer"] == "keep")


def open_fork(
    path: str | Path, optimizer: Literal["keep", "fresh"] = "keep", progress: Literal["keep", "restart"] = "keep"
) -> Fork:
    """Read where a run is to begin: a checkpoint folder, a run_dir (its last good checkpoint), or `best` or `last`
    under a run_dir.

    `optimizer`: keep the optimiser's state and counter or begin with none. `progress`: keep the counts of steps, rows
    and tokens and the time, on which schedule and order of rows depend, or begin at 0. Raises InputError if there is
    no whole checkpoint, or for another value.
    """
    choices: tuple[tuple[str, str, Sequence[str]], ...] = (
        ("fork_optimizer", optimizer, ("keep", "fresh")),
        ("fork_progress", progress, ("keep", "restart")),
    )
    for name, value, allowed in choices:
        if value not in allowed:
            raise InputError(f"option '{name}' must be {' or '.join(allowed)}, but is '{value}'.")
    checkpoint = open_checkpoint(path)
    source = checkpoint.state
    record = {
        "asked": str(Path(path).resolve()),
        "checkpoint": str(checkpoint.path.resolve()),
        "step": source.step,
        "weights": f"sha256:{source.files[WEIGHTS]['sha256']}",
        "optimizer": optimizer,
        "progress": progress,
    }
    state = replace(source, fork=record, wandb_id=None, validation=None)
    if progress == "restart":
        state = replace(
            state, step=0, skipped=0, skipped_tokens=0, samples=0, tokens=0, elapsed=0.0, consumed={}, recent_norms=[]
        )
    if optimizer == "fresh":
        state = replace(state, updates=0)
    return Fork(checkpoint, state, record)


def require_budget_left(fork: Fork, budget: Budget) -> None:
    """Raise InputError if the steps that the fork keeps (with their time) have used up the new run's `budget`: they
    count in it, so that the run would end before its first step."""
    used = budget.schedule_position(fork.state.progress, fork.state.elapsed)
    if used >= budget.total:
        spent = "" if budget.unit == "steps" else f" after {used:.10g} {budget.unit}"
        raise InputError(
            f"the fork begins at step {fork.state.step}{spent}, but trainer.max_{budget.unit} is {budget.total:.10g}: "
            "give a larger budget, or fork_progress=restart"
        )


def require_fork_fits(
    fork: Fork,
    shapes: Mapping[str, Sequence[int]],
    *,
    tokenizer_hash: str,
    optimizer: Mapping[str, Any],
    found: Mapping[str, Sequence[int]] | None = None,
) -> None:
    """Check that a model with tensors of `shapes` (name -> shape, of its state_dict) can begin as `fork`, and, if the
    optimiser's state is kept, that `optimizer` (the plain group, with `_target_`) is of the same kind.

    `found` are the shapes of the fork's weights where they are not the checkpoint's any more (tokens were added; then
    `fork.state` has the new tokenizer). Raises InputError naming what does not fit.
    """
    where, source = f"fork '{fork.checkpoint.path}'", fork.state
    if source.tokenizer_hash != tokenizer_hash:
        raise InputError(
            f"the shards were made with another tokenizer ({tokenizer_hash}) than the model of {where} "
            f"({source.tokenizer_hash}): run the pipeline with the model's tokenizer"
        )
    for name, shape in (fork.checkpoint.shapes() if found is None else found).items():
        expected = tuple(shapes[name]) if name in shapes else None
        if expected != tuple(shape):
            raise InputError(
                f"the model of {where} must have the shape that the model options describe, but its '{name}' is "
                f"{shape} instead of {expected or 'absent'}: choose the model options it was made with"
            )
    if not fork.keeps_optimizer:
        return
    before, now = (source.config.get("optimizer") or {}).get("_target_"), optimizer.get("_target_")
    if before != now:
        raise InputError(
            f"fork_optimizer=keep needs the optimiser that {where} was trained with ({before}), but optimizer is "
            f"{now}: choose that one, or fork_optimizer=fresh"
        )
