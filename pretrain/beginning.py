"""How a run begins: anew from its seed, from other weights, as a fork of another run, or where it stopped.

What is allowed is decided in `resuming.py`; here weights and optimiser state are read and put into the model. Must not
import deepspeed or the trainer.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from conf.errors import InputError
from pipeline.shards import Manifest
from pipeline.tokenizer import load_tokenizer, tokenizer_hash
from pretrain import resuming
from pretrain.budget import Budget
from pretrain.checkpoints import Checkpoint, CheckpointFolder, RunState
from pretrain.distributed import Group
from pretrain.engine_state import FullState
from pretrain.models.adopt import adopt_weights
from pretrain.models.config import adopted_differences
from pretrain.models.language_model import LanguageModel
from pretrain.models.load import load_model
from pretrain.models.resize import resize_optimizer_state, resize_weights

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Beginning:
    """Where a run goes on from; the defaults are a new run.

    `state` has the counts to go on with, `optimizer` the optimiser's state (None: fresh), `saved_step` the step that
    already lies in this run_dir as a checkpoint (-1: none).
    """

    state: RunState | None = None
    optimizer: FullState | None = None
    saved_step: int = -1

    @property
    def is_new_fork(self) -> bool:
        """Whether this session is the first of a fork."""
        return self.state is not None and self.saved_step < 0


def begin(
    config: Mapping[str, Any],
    model: nn.Module,
    architecture: Any,
    manifest: Manifest,
    data_hash: str,
    shards: Path,
    group: Group,
    budget: Budget,
) -> Beginning:
    """Set the weights of `model` (built from the seed) and return where the run goes on from. A collective call.

    `config` holds the plain options, `manifest` and `shards` one directory of the data; of the
    `budget` a fork must leave something. Raises InputError, on all ranks, naming what does not fit.
    """
    checkpoint = group.from_main(CheckpointFolder(config["run_dir"]).last_good)
    if checkpoint is not None:
        return _resume(config, model, architecture, manifest, data_hash, checkpoint, group)
    for option in ("fork_optimizer", "fork_progress"):
        if config["fork"] is None and config[option] != "keep":
            raise InputError(f"{option}={config[option]} is for a fork, but no fork is given: set fork=CHECKPOINT.")
    if config["fork"] is not None and config["init_from"] is not None:
        raise InputError("a run begins either as a fork or from init_from, but both are given: leave one of them away.")
    if config["fork"] is not None:
        return _fork(config, model, architecture, manifest, shards, group, budget)
    if config["init_from"] is not None:
        _initialize_from(model, str(config["init_from"]), shards, config["seed"], group)
    return Beginning()


def _resume(
    config: Mapping[str, Any],
    model: nn.Module,
    architecture: Any,
    manifest: Manifest,
    data_hash: str,
    checkpoint: Checkpoint,
    group: Group,
) -> Beginning:
    changed = resuming.require_resumable(
        checkpoint,
        config,
        model=asdict(architecture),
        vocab_size=manifest.vocab_size,
        tokenizer_hash=manifest.tokenizer_hash,
        data_hash=data_hash,
    )
    state = checkpoint.state
    load_weights(model, checkpoint.weights())
    if group.ranks.is_main:
        logger.info("resumed %s: %d steps, %d rows consumed", checkpoint.path, state.step, state.samples)
        for change in changed:
            logger.info("changed since: %s", change)
    optimizer = checkpoint.optimizer()  # empty: a fork with a fresh optimiser that made no update yet
    return Beginning(state, FullState({}, optimizer, state.updates) if optimizer else None, state.step)


def _fork(
    config: Mapping[str, Any],
    model: nn.Module,
    architecture: Any,
    manifest: Manifest,
    shards: Path,
    group: Group,
    budget: Budget,
) -> Beginning:
    open_it = partial(resuming.open_fork, config["fork"], config["fork_optimizer"], config["fork_progress"])
    fork = group.from_main(open_it)
    resuming.require_budget_left(fork, budget)
    source, run_dir = fork.checkpoint.state, fork.checkpoint.path.parent.parent
    grows = _grows(run_dir / "tokenizer.json", shards, str(config["fork"]))
    old, new = source.vocab_size, manifest.vocab_size
    weights = fork.checkpoint.weights()
    optimizer = fork.checkpoint.optimizer() if fork.keeps_optimizer else {}
    if grows:
        weights = resize_weights(weights, architecture, old, new, _generator(config["seed"]))
        optimizer = resize_optimizer_state(optimizer, architecture, old, new)
        fork = replace(fork, state=replace(fork.state, tokenizer_hash=manifest.tokenizer_hash, vocab_size=new))
    resuming.require_fork_fits(
        fork,
        _shapes(model.state_dict()),
        found=_shapes(weights),
        tokenizer_hash=manifest.tokenizer_hash,
        optimizer=config["optimizer"],
    )
    notes = adopted_differences(source.model, asdict(architecture), str(fork.checkpoint.path))
    load_weights(model, weights)
    if group.ranks.is_main:
        for note in notes:
            logger.info(note)
        logger.info("began as a fork of %s, at step %d", fork.checkpoint.path, fork.state.step)
    return Beginning(
        fork.state, FullState({}, optimizer, fork.state.updates) if fork.keeps_optimizer else None, saved_step=-1
    )


def _initialize_from(model: nn.Module, path: str, shards: Path, seed: int, group: Group) -> None:
    """Start from the weights of another run or of a Hugging Face folder; heads and tokens it lacks start fresh."""
    assert isinstance(model, LanguageModel)  # as every objective builds it
    loaded = load_model(path)
    _grows(loaded.tokenizer_path, shards, path)
    for note in adopt_weights(model, loaded.model, path, seed):
        if group.ranks.is_main:
            logger.info(note)


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _grows(old_tokenizer: Path, shards: Path, source: str) -> bool:
    """Whether the shards' tokenizer is the model's with tokens added behind (False: it is the same one).

    Raises InputError for any other tokenizer.
    """
    hashes = tokenizer_hash(old_tokenizer), tokenizer_hash(shards)
    if hashes[0] == hashes[1]:
        return False
    old, new = load_tokenizer(old_tokenizer).get_vocab(), load_tokenizer(shards).get_vocab()
    if len(new) > len(old) and all(new.get(token) == number for token, number in old.items()):
        return True
    raise InputError(
        f"the shards were made with another tokenizer ({hashes[1]}) than the model in '{source}' ({hashes[0]}), and it "
        "is not that one with tokens added: run the pipeline with the model's tokenizer."
    )


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Copy saved weights in; what they lack may only be another name of a parameter that they hold."""
    incomplete = model.load_state_dict(weights, strict=False)
    lacking = set(incomplete.missing_keys) & {name for name, _ in model.named_parameters()}
    if lacking or incomplete.unexpected_keys:
        raise InputError(f"the checkpoint does not hold this model: {sorted(lacking) or incomplete.unexpected_keys}.")
