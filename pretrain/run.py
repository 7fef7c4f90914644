"""From a configuration to a run: every piece is built here once, checked, and handed to the trainer.

The order matters: nothing is written before the ranks agree, nothing is trained before the shards verify. Must not
hold any rule of training itself.
"""

import contextlib
import copy
import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import hydra
import torch
from omegaconf import DictConfig, OmegaConf

from conf.errors import InputError
from conf.files import atomic_write_bytes, sha256_file
from conf.provenance import write_provenance
from pretrain import dry_run, preflight, stage_data
from pretrain.beginning import Beginning, begin
from pretrain.callbacks.checkpointing import Checkpointing
from pretrain.callbacks.gradient_noise import GradientNoise
from pretrain.callbacks.metrics import Metrics, MetricsFile
from pretrain.callbacks.nonfinite import FindNonFinite
from pretrain.callbacks.preemption import Preemption
from pretrain.callbacks.stages import StageLog
from pretrain.callbacks.throughput import Clock
from pretrain.callbacks.validation import Validation
from pretrain.callbacks.wandb import RUN_ID, WandbRun, require_wandb
from pretrain.checkpoints import CheckpointFolder, RunState
from pretrain.data.pair_origins import doubts
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group, threads_of_a_rank
from pretrain.engine import TrainingEngine
from pretrain.freed_memory import keep_freed_memory
from pretrain.loss_sums import LossSums
from pretrain.models.config import ConvSeq2SeqConfig
from pretrain.models.trained_languages import TrainedLanguages
from pretrain.options import TrainerOptions
from pretrain.peak_flops import device_peak
from pretrain.precision import Precision, resolve_precision, warn_of_slow_bf16
from pretrain.ranks import Ranks
from pretrain.resuming import flatten
from pretrain.run_directory import only_writer
from pretrain.spikes import SpikeRule
from pretrain.stage_data import OpenStage, StageData
from pretrain.stages import StagePlan, check_ranks
from pretrain.trainer import Ending, Trainer
from pretrain.watchdog import watch

logger = logging.getLogger(__name__)

# Options that may differ between ranks without changing the run.
_OF_ONE_RANK = ("ranks",)


def train(config: DictConfig, ranks: Ranks) -> Ending:
    """Train as this rank, from the start or from the last good checkpoint, until the budget or a signal ends it."""
    options: TrainerOptions = hydra.utils.instantiate(config.trainer, _convert_="all")
    plans = stage_data.stage_plans(config, options)
    check_ranks(plans, ranks.world_size)
    keep_freed_memory()
    torch.set_num_threads(options.threads or threads_of_a_rank(os.environ, ranks.local_world_size))
    group = Group(ranks, options.collective_timeout_seconds)
    try:
        config = _with_precision(config, group)
        facts = {name: value for name, value in flatten(_plain(config)).items() if name not in _OF_ONE_RANK}
        group.agree({**facts, "SLURM_JOB_ID": os.environ.get("SLURM_JOB_ID")})
        with contextlib.nullcontext() if config.dry_run else _as_only_writer(group, Path(config.run_dir)):
            return _train(config, options, plans, group)
    finally:
        group.close()


def _plain(config: DictConfig) -> dict[str, Any]:
    return cast(dict[str, Any], OmegaConf.to_container(config, resolve=True))


def _with_precision(config: DictConfig, group: Group) -> DictConfig:
    """Return the options with deepspeed.precision=auto as what it means here, by which the run is then known.

    A collective call. Raises InputError on every rank where ranks would compute in different precisions.
    """
    device_type = "cuda" if torch.cuda.is_available() else "cpu"
    if group.ranks.is_main:
        warn_of_slow_bf16(config.deepspeed.precision, device_type)
    found = group.gather(resolve_precision(config.deepspeed.precision, device_type))
    for rank, other in enumerate(found):
        if other != found[0]:
            raise InputError(
                f"deepspeed.precision=auto is {found[0]} on rank 0 and {other} on rank {rank}, whose hardware differs: "
                "set deepspeed.precision to what both can compute"
            )
    config = copy.deepcopy(config)
    config.deepspeed.precision = found[0]
    return config


def _identity(config: DictConfig) -> dict[str, Any]:
    """Return the options by which a checkpoint knows its run: of a list of rows to skip, the content counts too."""
    options = _plain(config)
    if options["skip_rows"] is not None:
        path = Path(options["skip_rows"])
        options["skip_rows"] = f"{path.name}, sha256 {sha256_file(path)[:16]}"
    return options


@contextlib.contextmanager
def _as_only_writer(group: Group, run_dir: Path) -> Iterator[None]:
    """Hold the run directory on rank 0; every rank raises if it is taken or no run's."""
    with contextlib.ExitStack() as stack:

        def lock() -> None:
            stack.enter_context(only_writer(run_dir))

        group.from_main(lock)
        yield


def _train(config: DictConfig, options: TrainerOptions, plans: Sequence[StagePlan], group: Group) -> Ending:
    run_dir = Path(config.run_dir)
    with contextlib.ExitStack() as stack:
        preemption = Preemption(run_dir, options.time_limit_minutes, options.save_before_end_seconds)
        stack.callback(preemption.restore)
        data = stage_data.open_data(config, plans, group)
        if group.ranks.is_main:
            for sentence in doubts([stage.train for stage in data]):
                logger.warning("%s", sentence)
        pieces = _build(config, options, data, group)
        if group.ranks.is_main and _lacks_trained_weights(config, data, pieces):
            logger.warning(
                "this objective learns from the model's own translations, but the run starts from random weights, "
                "whose translations say nothing: set init_from to a run of objective=mass on both languages"
            )
        if config.dry_run:
            if group.ranks.is_main:
                dry_run.report(_dry_run(config, options, data, pieces, group))
            return "finished"
        if pieces.deepspeed.stage == 3 and getattr(data[0].objective, "reads_whole_weights", False):
            raise InputError(
                "this objective translates in the middle of a step, which needs whole weights on every rank, but "
                "deepspeed=zero3 splits them: choose deepspeed=zero2."
            )
        engine = TrainingEngine(
            pieces.model,
            data[0].objective.loss,
            pieces.optimizer,
            pieces.deepspeed,
            group.ranks,
            micro_batch_size=plans[0].micro_batch_size,
            gradient_clipping=options.gradient_clipping,
            judge=pieces.spikes.judge if pieces.spikes is not None else None,
        )
        stack.callback(engine.close)
        if pieces.beginning.optimizer is not None:
            engine.load_optimizer_state(pieces.beginning.optimizer)
        losses = LossSums()
        if pieces.beginning.saved_step >= 0 and pieces.beginning.state is not None:
            losses.restore(pieces.beginning.state.losses, group.ranks.rank, group.ranks.world_size)
        trainer = Trainer(
            options=options,
            engine=engine,
            stages=[opened.stage for opened in pieces.stages],
            loss_names=data[0].objective.loss_names,
            schedule=pieces.schedule,
            group=group,
            seed=config.seed,
            wants_stop=preemption.requested,
            spikes=pieces.spikes,
            losses=losses,
            **_counts(pieces.beginning),
        )
        if pieces.beginning.saved_step >= 0 and trainer.is_finished:
            # What is complete stays as it is, to the byte.
            if group.ranks.is_main:
                logger.info("the run in %s is complete: %d steps, nothing to do", run_dir, trainer.progress.step)
            return "finished"
        _preflight(run_dir, options, data, pieces, group, engine.device)
        peak, _ = _peak_flops(options, engine.device, pieces.deepspeed.resolved_precision)
        (trainer.peak_flops,) = group.sum([peak])
        file: MetricsFile | None = None

        def open_files() -> None:
            nonlocal file
            file = _open_files(config, run_dir, data, trainer, pieces, stack)

        group.from_main(open_files)
        saving = Checkpointing(
            CheckpointFolder(run_dir),
            _run_state(config, data, pieces),
            pieces.beginning.saved_step,
            save_at_start=pieces.beginning.is_new_fork,
        )
        stack.callback(saving.close)
        trainer.callbacks = (
            StageLog(file),
            *([FindNonFinite()] if options.find_nonfinite else []),
            *([GradientNoise(file)] if options.gradient_noise else []),
            Metrics(file),
            Validation(file, measured_step=pieces.beginning.saved_step),
            saving,
            preemption,
        )
        with watch(group, group.ranks.rank, lambda: trainer.status, options.hang_seconds):
            return trainer.fit()


@dataclass(frozen=True)
class _Pieces:
    """What the options describe, built; no file of the run is written yet."""

    architecture: Any
    model: torch.nn.Module
    data_hash: str
    beginning: Beginning
    optimizer: torch.optim.Optimizer
    optimizer_states: float
    schedule: Callable[[float, float, float], float]
    deepspeed: DeepSpeedOptions
    stages: list[OpenStage]
    spikes: SpikeRule | None

    @property
    def parameters(self) -> int:
        """Numbers that are trained, the rows that pad the vocabulary included."""
        # (ZeRO stage 3 leaves a parameter without elements of its own.)
        return sum(getattr(parameter, "ds_numel", parameter.numel()) for parameter in self.model.parameters())


def _lacks_trained_weights(config: DictConfig, data: Sequence[StageData], pieces: _Pieces) -> bool:
    """Whether a new run begins from its seed with an objective that cannot."""
    needs = getattr(data[0].objective, "needs_trained_weights", False)
    return bool(needs) and config.init_from is None and pieces.beginning.state is None


def _build(config: DictConfig, options: TrainerOptions, data: Sequence[StageData], group: Group) -> _Pieces:
    """Build model, optimiser, schedule and stages, and find where the run begins. A collective call."""
    require_wandb(config.wandb.project, config.wandb.entity, config.wandb.name)
    if options.keep_best and all(stage.held_out is None for stage in data):
        raise InputError(
            f"trainer.keep_best={options.keep_best} needs held-out rows, but the shards in '{data[0].directory}' have "
            "none: make them with job.held_out_share, or set trainer.keep_best=0"
        )
    if options.keep_best_by != "loss" and not all(stage.is_scored for stage in data):
        raise InputError(
            f"trainer.keep_best_by={options.keep_best_by} needs objective=translation, held-out pairs and "
            "objective.scored_sentences above 0; set it to loss, or give them"
        )
    architecture = hydra.utils.instantiate(config.model, _convert_="all")
    _require_positions(data, architecture)
    schedule = hydra.utils.instantiate(config.schedule, _convert_="all")
    schedule(options.budget.total, 1.0, options.budget.total)  # impossible options fail here and not after hours
    manifest, plain = data[0].manifest, _identity(config)
    torch.manual_seed(config.seed)
    model = data[0].objective.build_model(architecture, manifest.vocab_size)
    data_hash = stage_data.content_hash(data)
    beginning = begin(plain, model, architecture, manifest, data_hash, data[0].directory, group, options.budget)
    make = hydra.utils.instantiate(config.optimizer, _convert_="all")
    spikes = None
    if options.skip_sigmas is not None:
        spikes = SpikeRule(options.skip_sigmas, recent=beginning.state.recent_norms if beginning.state else ())
    return _Pieces(
        architecture,
        model,
        data_hash,
        beginning,
        make(model),
        preflight.optimizer_states(make),
        schedule,
        hydra.utils.instantiate(config.deepspeed, _convert_="all").on_ranks(group.ranks.world_size),
        [stage.open(options, config.seed, group.ranks, architecture) for stage in data],
        spikes,
    )


def _peak_flops(options: TrainerOptions, device: torch.device, precision: Precision) -> tuple[float, str]:
    """Return the FLOPs a second that an MFU of this rank is a share of, and where the figure is from."""
    if options.peak_flops is not None:
        return options.peak_flops, "trainer.peak_flops"
    return device_peak(device, precision)


def _preflight(
    run_dir: Path,
    options: TrainerOptions,
    data: Sequence[StageData],
    pieces: _Pieces,
    group: Group,
    device: torch.device,
) -> None:
    """Check before the first step what would end the run later. A collective call."""
    size = preflight.checkpoint_bytes(pieces.parameters, pieces.optimizer_states)
    for_good = 0
    if options.keep_every is not None and options.budget.unit == "steps":
        for_good = int(options.budget.total) // options.keep_every
    space = partial(preflight.check_space, run_dir, size, options.keep_last, options.keep_best, for_good)
    shards = [(source.directory, source.reader.manifest) for stage in data for source in stage.train.sources]
    preflight.check(group, device, shards, pieces.model.vocab_size, space)  # type: ignore[arg-type]


def _dry_run(
    config: DictConfig, options: TrainerOptions, data: Sequence[StageData], pieces: _Pieces, group: Group
) -> dry_run.Plan:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    peak, source = _peak_flops(options, device, pieces.deepspeed.resolved_precision)
    ends = [0.0, *(stage.plan.end for stage in data)]
    budget = options.budget
    return dry_run.Plan(
        architecture=pieces.architecture,
        vocab_size=data[0].manifest.vocab_size,
        optimizer=pieces.optimizer,
        optimizer_states=pieces.optimizer_states,
        world_size=group.ranks.world_size,
        zero_stage=pieces.deepspeed.stage,
        precision=pieces.deepspeed.resolved_precision,
        offload_optimizer=pieces.deepspeed.offload_optimizer,
        stages=stage_data.describe(data, budget.total, budget.unit),
        shapes=[opened.shape for opened in pieces.stages],
        shares=[end - start for start, end in itertools.pairwise(ends)],
        budget=budget.total,
        unit=budget.unit,
        peak_flops=peak,
        peak_source=source,
    )


def _open_files(
    config: DictConfig,
    run_dir: Path,
    data: Sequence[StageData],
    trainer: Trainer,
    pieces: _Pieces,
    stack: contextlib.ExitStack,
) -> MetricsFile:
    """Write the head of the run directory and open what figures go to (rank 0)."""
    _write_head(config, run_dir, data)
    _announce(trainer, pieces, data)
    listeners = []
    if config.wandb.project is not None:
        run_id = _wandb_id(pieces.beginning)
        remote = WandbRun(run_dir, _plain(config), config.wandb.project, config.wandb.entity, config.wandb.name, run_id)
        stack.callback(remote.close)
        listeners.append(remote.write)
    file = MetricsFile(run_dir, trainer.progress.step, listeners)
    stack.callback(file.close)
    return file


def _counts(beginning: Beginning) -> dict[str, Any]:
    """Return the trainer's counts and clock as an earlier session left them."""
    state = beginning.state
    if state is None:
        return {}
    return {"progress": state.progress, "clock": Clock(earlier=state.elapsed)}


def _require_positions(data: Sequence[StageData], architecture: Any) -> None:
    """Raise InputError if rows are longer than the positions the model has."""
    for stage in data:
        if stage.facts.row_length > architecture.max_positions:
            raise InputError(
                f"the rows in '{stage.directory}' have {stage.facts.row_length} tokens, but model.max_positions is "
                f"{architecture.max_positions}: choose a model with more positions, or make shorter rows."
            )


def _run_state(config: DictConfig, data: Sequence[StageData], pieces: _Pieces) -> RunState:
    """Return what every checkpoint of this run says of it; the counts are filled in at each save."""
    manifest, before, run_dir = data[0].manifest, pieces.beginning.state, Path(config.run_dir)
    return RunState(
        step=0,
        samples=0,
        tokens=0,
        elapsed=0.0,
        updates=0,
        model=asdict(pieces.architecture),
        vocab_size=manifest.vocab_size,
        tokenizer_hash=manifest.tokenizer_hash,
        data_hash=pieces.data_hash,
        config=_identity(config),
        wandb_id=(run_dir / RUN_ID).read_text().strip() if (run_dir / RUN_ID).exists() else None,
        fork=before.fork if before is not None else None,
        languages=_languages(config, data).record(),
    )


def _languages(config: DictConfig, data: Sequence[StageData]) -> TrainedLanguages:
    """Return the languages that the model has or its data are in, and the directions of the pairs of all stages."""
    directions = [stage.train.direction for stage in data if stage.train.direction is not None]
    return TrainedLanguages.of(list(config.model.get("languages") or ()), directions)


def _wandb_id(beginning: Beginning) -> str | None:
    """Return the id of this run at W&B, if an earlier session had one; a fork is another run there."""
    return None if beginning.state is None or beginning.is_new_fork else beginning.state.wandb_id


def _write_head(config: DictConfig, run_dir: Path, data: Sequence[StageData]) -> None:
    """Write what makes the run directory stand alone: tokenizer, resolved options, provenance."""
    manifest = data[0].manifest
    shards = {
        ("shards" if len(stage.train.sources) == len(data) == 1 else f"shards {source.directory}"): str(
            source.reader.manifest.content_hash
        )
        for stage in data
        for source in stage.train.sources
    }
    # The options come first: by them a run that is killed here is known to be one.
    write_provenance(run_dir, config, shards | {"tokenizer": manifest.tokenizer_hash}, {"seed": config.seed})
    atomic_write_bytes(run_dir / "tokenizer.json", (data[0].directory / "tokenizer.json").read_bytes())


def _announce(trainer: Trainer, pieces: _Pieces, data: Sequence[StageData]) -> None:
    engine, world = trainer.engine, trainer.group.ranks.world_size
    logger.info(
        "%s parameters on %d %s rank%s, ZeRO stage %d, %s; %s",
        f"{pieces.parameters:,}",
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
    if pieces.beginning.saved_step < 0 and (
        skips := stage_data.skips_ahead(data, trainer.progress, trainer.budget, trainer.seed)
    ):
        logger.log(logging.WARNING if skips.startswith("none") else logging.INFO, skips)
    if isinstance(pieces.architecture, ConvSeq2SeqConfig):
        fields = pieces.architecture.receptive_fields
        logger.info("convolutions see %d tokens of the source and %d of the target", *fields)
