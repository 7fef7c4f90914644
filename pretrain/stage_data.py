"""From shard directories to the stages of a run: verified, mixed, and read by one rank.

Must not import deepspeed; what a stage is, is in `stages.py`, which rows it reads in `data/`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import hydra
from omegaconf import DictConfig, OmegaConf

from conf.errors import InputError
from pipeline.shards import Manifest, verify
from pretrain.batch_shape import BatchShape, batch_shape
from pretrain.data.directories import directories_of, languages_of
from pretrain.data.loader import Layout, Loader, validation_batches
from pretrain.data.mixture import Mixture, open_mixture
from pretrain.data.skip_list import require_known
from pretrain.distributed import Group
from pretrain.objectives import DataFacts, Objective
from pretrain.options import TrainerOptions
from pretrain.ranks import Ranks
from pretrain.stages import StagePlan, plan
from pretrain.trainer import Stage


@dataclass(frozen=True)
class StageData:
    """The rows of one stage, and the objective that makes batches of them."""

    plan: StagePlan
    train: Mixture
    held_out: Mixture | None
    objective: Objective[Any]
    facts: DataFacts

    @property
    def manifest(self) -> Manifest:
        """The manifest of the stage's first shard directory; tokenizer and vocabulary are alike in all."""
        return self.train.manifest

    @property
    def directory(self) -> Path:
        """The stage's first shard directory."""
        return self.train.sources[0].directory

    def open(self, options: TrainerOptions, seed: int, ranks: Ranks, architecture: Any) -> "OpenStage":
        """Return the stage as this rank reads it, and what its batches look like (from its first one)."""
        layout = Layout(
            self.plan.global_batch_size, self.plan.micro_batch_size, rank=ranks.rank, world_size=ranks.world_size
        )
        loader = Loader(
            self.train,
            self.objective,
            seed,
            layout,
            workers=options.loader_workers,
            stall_seconds=options.stall_seconds,
        )
        validation = None
        if self.held_out is not None and options.validation_rows:
            rows = min(options.validation_rows, len(self.held_out))
            validation = partial(validation_batches, self.held_out, self.objective, rows, layout)
        shape = batch_shape(loader.step(0), self.objective.loss_names)
        flops = shape.flops_per_token(architecture, self.facts.vocab_size)
        return OpenStage(Stage(self.plan, layout, loader, self.train.key, validation, flops), shape)


@dataclass(frozen=True)
class OpenStage:
    """A stage in use, with the shape of its batches."""

    stage: Stage
    shape: BatchShape


def stage_plans(config: DictConfig, options: TrainerOptions) -> list[StagePlan]:
    """Return the run's stages. Raises InputError where the option `stages` makes none."""
    plain: Any = OmegaConf.to_container(config, resolve=True)
    sizes = options.global_batch_size, options.micro_batch_size
    return plan(plain["stages"], plain["data"], *sizes, plain["sampling_exponent"])


def open_data(config: DictConfig, plans: Sequence[StagePlan], group: Group) -> list[StageData]:
    """Verify all shards (rank 0 reads them), check that all ranks see the same, and build each stage's objective.

    A collective call. Raises InputError on every rank for damaged shards, a stage without rows or without the columns
    that its objective needs, a skip list that names other shards, languages that the model does not have, and for
    stages whose tokenizers differ.
    """
    directories = list(dict.fromkeys(name for stage in plans for name in directories_of(stage.data)))
    numbers = _numbers_of_languages(config, directories)
    for directory in directories:
        group.from_main(partial(verify, Path(directory)))
    opened: list[StageData] = []
    mixtures: dict[str, tuple[Mixture, Mixture | None]] = {}
    for stage in plans:
        name = json.dumps([stage.data, stage.sampling_exponent])
        if name not in mixtures:
            read = partial(open_mixture, stage.data, sampling_exponent=stage.sampling_exponent, languages=numbers)
            train, held_out = read(split="train", skip=config.skip_rows), read(split="validation")
            mixtures[name] = (train, held_out if len(held_out) else None)
        train, validation = mixtures[name]
        manifest = train.manifest
        facts = DataFacts(manifest.vocab_size, manifest.special_ids, manifest.row_length, numbers is not None)
        objective: Objective[Any] = hydra.utils.instantiate(config.objective, _convert_="all")(facts)
        opened.append(StageData(stage, train, validation, objective, facts))
    if config.skip_rows is not None:
        sources = [source for stage in opened for source in stage.train.sources]
        require_known(config.skip_rows, [(source.directory, source.reader.content_hash) for source in sources])
    for data in opened:
        if data.held_out is not None:
            data.held_out.require(data.objective.columns, data.objective.needs_partners)
    group.agree({f"content of the shards of stage {data.plan.number}": data.train.key for data in opened})
    _require_one_tokenizer(opened)
    return opened


def _numbers_of_languages(config: DictConfig, directories: Sequence[str]) -> dict[str, int] | None:
    """Return the number of each directory's language, as the model counts them; None where none are named."""
    named = None if config.languages is None else OmegaConf.to_container(config.languages, resolve=True)
    return languages_of(directories, cast(Any, named), list(config.model.get("languages") or ()))


def _require_one_tokenizer(opened: Sequence[StageData]) -> None:
    first = opened[0]
    for other in opened[1:]:
        if other.manifest.tokenizer_hash != first.manifest.tokenizer_hash:
            raise InputError(
                f"all stages must have shards of one tokenizer, but '{first.directory}' has "
                f"{first.manifest.tokenizer_hash} and '{other.directory}' has {other.manifest.tokenizer_hash}: make "
                "them with the same one."
            )


def content_hash(opened: Sequence[StageData]) -> str:
    """Return one hash of the data of all stages in their order; where all have the same, the key of its mixture."""
    keys = [data.train.key for data in opened]
    return keys[0] if len(set(keys)) == 1 else "sha256:" + hashlib.sha256(json.dumps(keys).encode()).hexdigest()


def describe(opened: Sequence[StageData], total: float, unit: str) -> list[Mapping[str, Any]]:
    """Return one row a stage for the start's log and the dry run: until when, data, rows and batch sizes."""
    return [
        {
            "stage": data.plan.name,
            "until": f"{data.plan.end * total:,.10g} {unit}",
            "data": ", ".join(str(source.directory) for source in data.train.sources),
            "rows": len(data.train),
            "held out": len(data.held_out) if data.held_out is not None else 0,
            "row length": data.facts.row_length,
            "global batch": data.plan.global_batch_size,
            "micro-batch": data.plan.micro_batch_size,
        }
        for data in opened
    ]
