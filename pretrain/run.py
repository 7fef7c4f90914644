"""From a configuration to a run: every piece is built here once, checked, and handed to the trainer.

The order matters: nothing is written before the ranks agree, nothing is trained before the shards verify. Must not
hold any rule of training itself.
"""

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import hydra
import torch
from omegaconf import DictConfig, OmegaConf

from conf.errors import InputError
from conf.files import atomic_write_bytes, directory_lock
from conf.provenance import write_provenance
from pretrain import stage_data
from pretrain.beginning import Beginning, begin
from pretrain.budget import Progress
from pretrain.callbacks.checkpointing import Checkpointing
from pretrain.callbacks.metrics import Metrics, MetricsFile
from pretrain.callbacks.preemption import Preemption
from pretrain.callbacks.stages import StageLog
from pretrain.callbacks.throughput import Clock
from pretrain.callbacks.validation import Validation
from pretrain.checkpoints import CheckpointFolder, RunState
from pretrain.distributed import Group, Ranks, threads_of_a_rank
from pretrain.engine import TrainingEngine
from pretrain.options import TrainerOptions
from pretrain.resuming import flatten
from pretrain.spikes import SpikeRule
from pretrain.stage_data import StageData
from pretrain.stages import StagePlan, check_ranks
from pretrain.trainer import Ending, Trainer

logger = logging.getLogger(__name__)

# Options that may differ between ranks without changing the run.
_OF_ONE_RANK = ("ranks",)


def train(config: DictConfig, ranks: Ranks) -> Ending:
    """Train as this rank, from the start or from the last good checkpoint, until the budget or a signal ends it."""
    options: TrainerOptions = hydra.utils.instantiate(config.trainer, _convert_="all")
    plans = stage_data.stage_plans(config, options)
    check_ranks(plans, ranks.world_size)
    torch.set_num_threads(options.threads or threads_of_a_rank(os.environ, ranks.local_world_size))
    group = Group(ranks, options.collective_timeout_seconds)
    try:
        facts = {name: value for name, value in flatten(_plain(config)).items() if name not in _OF_ONE_RANK}
        group.agree({**facts, "SLURM_JOB_ID": os.environ.get("SLURM_JOB_ID")})
        with _as_only_writer(group, Path(config.run_dir)):
            return _train(config, options, plans, group)
    finally:
        group.close()


def _plain(config: DictConfig) -> dict[str, Any]:
    return cast(dict[str, Any], OmegaConf.to_container(config, resolve=True))


@contextlib.contextmanager
def _as_only_writer(group: Group, run_dir: Path) -> Iterator[None]:
    """Hold the lock of the run directory on rank 0; every rank raises if it is taken."""
    with contextlib.ExitStack() as stack:

        def lock() -> None:
            stack.enter_context(directory_lock(run_dir))

        group.from_main(lock)
        yield


def _train(config: DictConfig, options: TrainerOptions, plans: Sequence[StagePlan], group: Group) -> Ending:
    run_dir = Path(config.run_dir)
    with contextlib.ExitStack() as stack:
        preemption = Preemption(run_dir)
        stack.callback(preemption.restore)
        data = stage_data.open_data(config, plans, group)
        architecture = hydra.utils.instantiate(config.model, _convert_="all")
        _require_positions(data, architecture)
        torch.manual_seed(config.seed)
        model = data[0].objective.build_model(architecture, data[0].manifest.vocab_size)
        data_hash = stage_data.content_hash(data)
        beginning = begin(_plain(config), model, architecture, data[0].manifest, data_hash, data[0].directory, group)
        spikes = None
        if options.skip_sigmas is not None:
            spikes = SpikeRule(options.skip_sigmas, recent=beginning.state.recent_norms if beginning.state else ())
        engine = TrainingEngine(
            model,
            data[0].objective.loss,
            hydra.utils.instantiate(config.optimizer, _convert_="all")(model),
            hydra.utils.instantiate(config.deepspeed, _convert_="all"),
            group.ranks,
            micro_batch_size=plans[0].micro_batch_size,
            gradient_clipping=options.gradient_clipping,
            judge=spikes.judge if spikes is not None else None,
        )
        stack.callback(engine.close)
        if beginning.optimizer is not None:
            engine.load_optimizer_state(beginning.optimizer)
        trainer = Trainer(
            options=options,
            engine=engine,
            stages=[stage.open(options, config.seed, group.ranks) for stage in data],
            loss_names=data[0].objective.loss_names,
            schedule=hydra.utils.instantiate(config.schedule, _convert_="all"),
            group=group,
            seed=config.seed,
            wants_stop=preemption.requested,
            spikes=spikes,
            **_counts(beginning),
        )
        total = trainer.budget.total
        trainer.schedule(total, 1.0, total)  # impossible options fail here and not after hours
        if beginning.saved_step >= 0 and trainer.is_finished:
            # What is complete stays as it is, to the byte.
            if group.ranks.is_main:
                logger.info("the run in %s is complete: %d steps, nothing to do", run_dir, trainer.progress.step)
            return "finished"
        file = None
        if group.ranks.is_main:
            _write_head(config, run_dir, data)
            file = MetricsFile(run_dir, trainer.progress.step)
            stack.callback(file.close)
            _announce(trainer, model, data)
        saving = Checkpointing(
            CheckpointFolder(run_dir),
            _run_state(config, architecture, data, data_hash, beginning),
            beginning.saved_step,
            save_at_start=beginning.is_new_fork,
        )
        stack.callback(saving.close)
        trainer.callbacks = (
            StageLog(file),
            Metrics(file),
            Validation(file, measured_step=beginning.saved_step),
            saving,
            preemption,
        )
        return trainer.fit()


def _counts(beginning: Beginning) -> dict[str, Any]:
    """Return the trainer's counts and clock as an earlier session left them."""
    state = beginning.state
    if state is None:
        return {}
    progress = Progress(
        step=state.step,
        skipped=state.skipped,
        samples=state.samples,
        tokens=state.tokens,
        skipped_tokens=state.skipped_tokens,
        consumed=dict(state.consumed),
    )
    return {"progress": progress, "clock": Clock(earlier=state.elapsed)}


def _require_positions(data: Sequence[StageData], architecture: Any) -> None:
    """Raise InputError if rows are longer than the positions the model has."""
    for stage in data:
        if stage.facts.row_length > architecture.max_positions:
            raise InputError(
                f"the rows in '{stage.directory}' have {stage.facts.row_length} tokens, but model.max_positions is "
                f"{architecture.max_positions}: choose a model with more positions, or make shorter rows."
            )


def _run_state(
    config: DictConfig, architecture: Any, data: Sequence[StageData], data_hash: str, beginning: Beginning
) -> RunState:
    """Return what every checkpoint of this run says of it; the counts are filled in at each save."""
    manifest, before = data[0].manifest, beginning.state
    return RunState(
        step=0,
        samples=0,
        tokens=0,
        elapsed=0.0,
        updates=0,
        model=asdict(architecture),
        vocab_size=manifest.vocab_size,
        tokenizer_hash=manifest.tokenizer_hash,
        data_hash=data_hash,
        config=_plain(config),
        wandb_id=before.wandb_id if before is not None else None,
        fork=before.fork if before is not None else None,
    )


def _write_head(config: DictConfig, run_dir: Path, data: Sequence[StageData]) -> None:
    """Write what makes the run directory stand alone: tokenizer, resolved options, provenance."""
    manifest = data[0].manifest
    atomic_write_bytes(run_dir / "tokenizer.json", (data[0].directory / "tokenizer.json").read_bytes())
    shards = {
        ("shards" if len(stage.train.sources) == len(data) == 1 else f"shards {source.directory}"): str(
            source.reader.manifest.content_hash
        )
        for stage in data
        for source in stage.train.sources
    }
    write_provenance(run_dir, config, shards | {"tokenizer": manifest.tokenizer_hash}, {"seed": config.seed})


def _announce(trainer: Trainer, model: torch.nn.Module, data: Sequence[StageData]) -> None:
    engine, world = trainer.engine, trainer.group.ranks.world_size
    parameters = sum(getattr(p, "ds_numel", p.numel()) for p in model.parameters())
    logger.info(
        "%s parameters on %d %s rank%s, ZeRO stage %d, %s; %s",
        f"{parameters:,}",
        world,
        engine.device.type,
        "s" if world > 1 else "",
        engine.options.stage,
        engine.options.precision,
        "; then ".join(
            f"batches of {stage.plan.global_batch_size} rows out of {len(stage.train)}, "
            f"{len(stage.held_out) if stage.held_out is not None else 0} held out for validation"
            for stage in data
        ),
    )
