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
from pretrain.budget import Budget, Progress
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
from pretrain.translation_scores import TranslationScores

_LOOKED_AHEAD = 1 << 22  # samples; a few seconds


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
        scores = None
        if self.is_scored and self.held_out is not None:
            wanted = cast(Any, self.objective)
            scores = TranslationScores(
                self.held_out,
                wanted.scored_sentences,
                wanted.scored_beams,
                self.directory,
                self.facts.direction,
            )
        return OpenStage(Stage(self.plan, layout, loader, self.train.key, validation, flops, scores), shape)

    @property
    def is_scored(self) -> bool:
        """Whether held-out sentences are translated at each validation."""
        return self.held_out is not None and getattr(self.objective, "scored_sentences", 0) > 0


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
    build = hydra.utils.instantiate(config.objective, _convert_="all")
    pairs = build.func.reading(**build.keywords)
    opened: list[StageData] = []
    mixtures: dict[str, tuple[Mixture, Mixture | None]] = {}
    for stage in plans:
        name = json.dumps([stage.data, stage.sampling_exponent])
        if name not in mixtures:
            read = partial(
                open_mixture,
                stage.data,
                sampling_exponent=stage.sampling_exponent,
                languages=numbers,
                pairs=pairs,
            )
            train, held_out = read(split="train", skip=config.skip_rows), read(split="validation")
            mixtures[name] = (train, held_out if len(held_out) else None)
        train, validation = mixtures[name]
        manifest = train.manifest
        facts = DataFacts(
            manifest.vocab_size,
            manifest.special_ids,
            manifest.row_length,
            numbers is not None,
            _direction(config, train),
        )
        objective: Objective[Any] = build(facts)
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


def _direction(config: DictConfig, mixture: Mixture) -> tuple[int, int] | None:
    """Return the numbers of the languages of pairs, as the model counts them; None for rows, or no languages there.

    Raises InputError for a language that the model does not know.
    """
    known = list(config.model.get("languages") or ())
    if not known or mixture.direction is None:
        return None
    for side, name in zip(("source", "target"), mixture.direction, strict=True):
        if name not in known:
            raise InputError(
                f"the {side}s of the pairs in '{mixture.sources[0].directory}' are in '{name}', but model.languages is "
                f"{known}: name it there, or set model.languages=[]."
            )
    source, target = mixture.direction
    return known.index(source), known.index(target)


def _require_one_tokenizer(opened: Sequence[StageData]) -> None:
    first = opened[0]
    for other in opened[1:]:
        if other.manifest.tokenizer_hash != first.manifest.tokenizer_hash:
            raise InputError(
                f"all stages must have shards of one tokenizer, but '{first.directory}' has "
                f"{first.manifest.tokenizer_hash} and '{other.directory}' has {other.manifest.tokenizer_hash}: make "
                "them with the same one."
            )


def skips_ahead(opened: Sequence[StageData], progress: Progress, budget: Budget, seed: int) -> str | None:
    """Say how many of the rows to skip a run is still to read; None without any on the list.

    Of a run with one stage and a budget in steps all that it will read is looked at (as far as some seconds go), else
    as many rows as there are.
    """
    listed = ahead = seen = 0
    for data in {data.train.key: data for data in opened}.values():
        mixture = data.train
        listed += sum(len(source.skipped_rows) for source in mixture.sources)
        count = len(mixture)
        if len(opened) == 1 and budget.unit == "steps":
            count = int(budget.total - progress.updates) * data.plan.global_batch_size
        count = min(count, _LOOKED_AHEAD)
        ahead += mixture.skipped_visits(seed, progress.consumed.get(mixture.key, 0), count)
        seen += count
    if not listed:
        return None
    if not ahead:
        return (
            f"none of the {listed} rows of skip_rows is among the {seen:,} that come next: what they taught stays, "
            "unless the run begins as a fork of a checkpoint before them"
        )
    return f"{listed} rows are skipped, {ahead} times among the {seen:,} that come next"


def content_hash(opened: Sequence[StageData]) -> str:
    """Return one hash of the data of all stages in their order; where all have the same, the key of its mixture."""
    keys = [data.train.key for data in opened]
    return keys[0] if len(set(keys)) == 1 else "sha256:" + hashlib.sha256(json.dumps(keys).encode()).hexdigest()


def describe(opened: Sequence[StageData], total: float, unit: str) -> list[Mapping[str, Any]]:
    """Return one row a stage for the dry run: until when, data with its shares, rows, how often the stage visits each
    row (of each directory; as if all rows were full; of a budget in hours unknown), and batch sizes."""
    ends = [0.0, *(data.plan.end for data in opened)]
    return [
        {
            "stage": data.plan.name,
            "until": f"{data.plan.end * total:,.10g} {unit}",
            "data": ", ".join(_named_with_shares(data.train)),
            "rows": len(data.train),
            "visits of a row": ", ".join(_visits(data, (data.plan.end - end) * total, unit)),
            "held out": len(data.held_out) if data.held_out is not None else 0,
            "row length": data.train.tokens_per_row,
            "global batch": data.plan.global_batch_size,
            "micro-batch": data.plan.micro_batch_size,
        }
        for end, data in zip(ends, opened, strict=False)
    ]


def _named_with_shares(mixture: Mixture) -> list[str]:
    if len(mixture.sources) == 1:
        return [str(mixture.sources[0].directory)]
    parts = zip(mixture.sources, mixture.shares, strict=True)
    return [f"{source.directory} {share / sum(mixture.shares):.1%}" for source, share in parts]


def _visits(data: StageData, amount: float, unit: str) -> list[str]:
    """Return how often `amount` of the budget reads a row of each directory."""
    if unit == "hours":
        return ["unknown"]
    read = amount * data.plan.global_batch_size if unit == "steps" else amount / data.train.tokens_per_row
    mixture = data.train
    parts = zip(mixture.sources, mixture.shares, strict=True)
    return [f"{read * share / sum(mixture.shares) / len(source.reader):.2f}" for source, share in parts]
