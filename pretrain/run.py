"""From a configuration to a run: every piece is built here once, checked, and handed to the trainer.

The order matters: nothing is written before the ranks agree, nothing is trained before the shards verify. Must not
hold any rule of training itself.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import hydra
import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from conf.errors import InputError
from conf.files import atomic_write_bytes, directory_lock
from conf.provenance import write_provenance
from pipeline.shards import Manifest, ShardReader, verify
from pipeline.tokenizer import tokenizer_hash
from pretrain.callbacks.checkpointing import Checkpointing
from pretrain.callbacks.metrics import Metrics, MetricsFile
from pretrain.callbacks.preemption import Preemption
from pretrain.callbacks.validation import Validation
from pretrain.checkpoints import Checkpoint, CheckpointFolder, RunState, require_same_run
from pretrain.data.loader import Layout, Loader, validation_batches
from pretrain.distributed import Group, Ranks, threads_of_a_rank
from pretrain.engine import FullState, TrainingEngine
from pretrain.objectives import DataFacts, Objective
from pretrain.trainer import Ending, Progress, Trainer, TrainerOptions

logger = logging.getLogger(__name__)

# Options that decide what the run computes at a given sample: another value would not be the same run.
FIXED_ON_RESUME = ("seed", "objective")
# Options that may differ between ranks without changing the run.
_OF_ONE_RANK = ("ranks",)


def train(config: DictConfig, ranks: Ranks) -> Ending:
    """Train as this rank, from the start or from the last good checkpoint, until the budget or a signal ends it."""
    options: TrainerOptions = hydra.utils.instantiate(config.trainer, _convert_="all")
    options.check_ranks(ranks.world_size)
    torch.set_num_threads(options.threads or threads_of_a_rank(os.environ, ranks.local_world_size))
    group = Group(ranks, options.collective_timeout_seconds)
    try:
        group.agree(_facts(config))
        with _as_only_writer(group, Path(config.run_dir)):
            return _train(config, options, group)
    finally:
        group.close()


def _facts(config: DictConfig) -> dict[str, Any]:
    """Return what must be alike on all ranks: every resolved option, and the job they belong to."""
    flat: dict[str, Any] = {"SLURM_JOB_ID": os.environ.get("SLURM_JOB_ID")}

    def walk(node: Any, prefix: str) -> None:
        for key, value in node.items():
            if isinstance(value, dict):
                walk(value, f"{prefix}{key}.")
            elif f"{prefix}{key}" not in _OF_ONE_RANK:
                flat[f"{prefix}{key}"] = value

    walk(OmegaConf.to_container(config, resolve=True), "")
    return flat


@contextlib.contextmanager
def _as_only_writer(group: Group, run_dir: Path) -> Iterator[None]:
    """Hold the lock of the run directory on rank 0; every rank raises if it is taken."""
    with contextlib.ExitStack() as stack:

        def lock() -> None:
            stack.enter_context(directory_lock(run_dir))

        group.from_main(lock)
        yield


@dataclass(frozen=True)
class _Data:
    """A verified shard directory and the objective that reads it."""

    directory: Path
    train: ShardReader
    held_out: ShardReader
    objective: Objective

    @property
    def manifest(self) -> Manifest:
        return self.train.manifest


def _train(config: DictConfig, options: TrainerOptions, group: Group) -> Ending:
    run_dir = Path(config.run_dir)
    with contextlib.ExitStack() as stack:
        preemption = Preemption(run_dir)
        stack.callback(preemption.restore)
        data = _open_data(config, group)
        architecture = hydra.utils.instantiate(config.model, _convert_="all")
        folder = CheckpointFolder(run_dir)
        checkpoint = group.from_main(folder.last_good)
        if checkpoint is not None:
            _require_resumable(checkpoint, config, architecture, data.manifest)
        model = _build_model(config, architecture, data, checkpoint)
        layout = Layout(options.global_batch_size, options.micro_batch_size, group.ranks.rank, group.ranks.world_size)
        engine = TrainingEngine(
            model,
            data.objective.loss,
            hydra.utils.instantiate(config.optimizer, _convert_="all")(model),
            hydra.utils.instantiate(config.deepspeed, _convert_="all"),
            group.ranks,
            micro_batch_size=options.micro_batch_size,
            accumulation=layout.accumulation,
            gradient_clipping=options.gradient_clipping,
        )
        stack.callback(engine.close)
        trainer = Trainer(
            options=options,
            engine=engine,
            loader=Loader(data.train, data.objective, config.seed, layout),
            schedule=hydra.utils.instantiate(config.schedule, _convert_="all"),
            group=group,
            seed=config.seed,
            wants_stop=preemption.requested,
        )
        trainer.schedule(options.max_steps - 1)  # impossible options fail here and not after hours
        if checkpoint is not None:
            _resume(trainer, checkpoint)
        done = trainer.progress.step if checkpoint is not None else -1  # measured and saved by an earlier session
        rows = min(options.validation_rows, len(data.held_out))
        file = None
        if group.ranks.is_main:
            _write_head(config, run_dir, data)
            file = MetricsFile(run_dir, trainer.progress.step)
            stack.callback(file.close)
            _announce(trainer, model, len(data.train), rows)
        batches = partial(validation_batches, data.held_out, data.objective, rows, layout)
        trainer.callbacks = (
            Metrics(file),
            *([Validation(batches, file, measured_step=done)] if rows else []),
            Checkpointing(folder, _run_state(config, architecture, data.manifest), saved_step=done),
            preemption,
        )
        return trainer.fit()


def _open_data(config: DictConfig, group: Group) -> _Data:
    """Verify the shards (rank 0 reads them all), check that all ranks see the same, and build the objective."""
    directory = Path(config.data)
    group.from_main(partial(verify, directory))
    train, held_out = (ShardReader(directory, split, verify=False) for split in ("train", "validation"))
    group.agree({"content hash of the shards": train.content_hash})
    if not len(train):
        raise InputError(f"the shards in '{directory}' hold no rows to train on: give the pipeline more text.")
    facts = DataFacts(
        vocab_size=train.manifest.vocab_size,
        special_ids=train.manifest.special_ids,
        row_length=train.row_length,
        content_hash=train.content_hash,
        seed=config.seed,
    )
    objective: Objective = hydra.utils.instantiate(config.objective, _convert_="all")(facts)
    return _Data(directory, train, held_out, objective)


def _require_resumable(checkpoint: Checkpoint, config: DictConfig, architecture: Any, manifest: Manifest) -> None:
    """Raise InputError unless this run may go on from `checkpoint`, naming what differs."""
    if not config.resume:
        raise InputError(
            f"'{config.run_dir}' already holds a run (its last checkpoint is {checkpoint.path.name}), and resume=false "
            "would overwrite it: choose another run_dir, or resume=true."
        )
    require_same_run(
        checkpoint, asdict(architecture), manifest.vocab_size, manifest.tokenizer_hash, manifest.content_hash
    )
    now = OmegaConf.to_container(config, resolve=True)
    assert isinstance(now, dict)
    for name in FIXED_ON_RESUME:
        if checkpoint.state.config.get(name) != now[name]:
            raise InputError(
                f"'{name}' must stay {checkpoint.state.config.get(name)} while the run of {checkpoint.path} goes on, "
                f"but is {now[name]}: give the old value, or choose another run_dir."
            )


def _build_model(config: DictConfig, architecture: Any, data: _Data, checkpoint: Checkpoint | None) -> nn.Module:
    """Build the model and set its weights: from the seed, `init_from`, or the checkpoint."""
    torch.manual_seed(config.seed)
    model = data.objective.build_model(architecture, data.manifest.vocab_size)
    if checkpoint is not None:
        _load_weights(model, checkpoint.weights())
    elif config.init_from is not None:
        _initialize_from(model, str(config.init_from), data.manifest.tokenizer_hash)
    return model


def _run_state(config: DictConfig, architecture: Any, manifest: Manifest) -> RunState:
    """Return what every checkpoint of this run says of it; the counts are filled in at each save."""
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return RunState(
        step=0,
        samples=0,
        tokens=0,
        elapsed=0.0,
        updates=0,
        model=asdict(architecture),
        vocab_size=manifest.vocab_size,
        tokenizer_hash=manifest.tokenizer_hash,
        data_hash=manifest.content_hash,
        config={str(name): value for name, value in plain.items()},
        files={},
    )


def _write_head(config: DictConfig, run_dir: Path, data: _Data) -> None:
    """Write what makes the run directory stand alone: tokenizer, resolved options, provenance."""
    atomic_write_bytes(run_dir / "tokenizer.json", (data.directory / "tokenizer.json").read_bytes())
    inputs = {"shards": data.manifest.content_hash, "tokenizer": data.manifest.tokenizer_hash}
    write_provenance(run_dir, config, inputs, {"seed": config.seed})


def _load_weights(model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    """Copy saved weights in; what they lack may only be another name of a parameter that they hold."""
    incomplete = model.load_state_dict(weights, strict=False)
    lacking = set(incomplete.missing_keys) & {name for name, _ in model.named_parameters()}
    if lacking or incomplete.unexpected_keys:
        raise InputError(f"the checkpoint does not hold this model: {sorted(lacking) or incomplete.unexpected_keys}.")


def _initialize_from(model: nn.Module, path: str, hash_of_shards: str) -> None:
    """Start from the weights of another run or of a Hugging Face folder."""
    from pretrain.models.load import load_model

    loaded = load_model(path)
    found = tokenizer_hash(loaded.tokenizer_path)
    if found != hash_of_shards:
        raise InputError(
            f"the shards were made with another tokenizer ({hash_of_shards}) than the model in '{path}' ({found}): "
            "run the pipeline with the model's tokenizer."
        )
    mine, theirs = model.state_dict(), loaded.model.state_dict()
    for name in sorted({*mine, *theirs}):
        shapes = [tuple(state[name].shape) if name in state else "missing" for state in (mine, theirs)]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"the model of init_from='{path}' must have the shape that the model options describe, but its "
                f"'{name}' is {shapes[1]} instead of {shapes[0]}: choose the model options it was made with."
            )
    model.load_state_dict(theirs)


def _resume(trainer: Trainer, checkpoint: Checkpoint) -> None:
    state = checkpoint.state
    trainer.progress = Progress(state.step, state.samples, state.tokens)
    trainer.clock = type(trainer.clock)(earlier=state.elapsed)
    batches = [micro_batch.batch for micro_batch in trainer.loader.step(state.samples)]
    trainer.engine.load_optimizer_state(FullState({}, checkpoint.optimizer(), state.updates), batches)
    if trainer.group.ranks.is_main:
        logger.info("resumed %s: %d steps, %d rows consumed", checkpoint.path, state.step, state.samples)


def _announce(trainer: Trainer, model: nn.Module, train_rows: int, validation_rows: int) -> None:
    options, engine, world = trainer.options, trainer.engine, trainer.group.ranks.world_size
    parameters = sum(getattr(p, "ds_numel", p.numel()) for p in model.parameters())
    logger.info(
        "%s parameters on %d %s rank%s, ZeRO stage %d, %s; batches of %d rows out of %d, %d held out for validation",
        f"{parameters:,}",
        world,
        engine.device.type,
        "s" if world > 1 else "",
        engine.options.stage,
        engine.options.precision,
        options.global_batch_size,
        train_rows,
        validation_rows,
    )
