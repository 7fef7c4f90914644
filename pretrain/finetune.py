"""`python -m pretrain.finetune`: fine-tunes a checkpoint on one task over several seeds.

Writes into `output` what `python -m pretrain.evaluate` writes, for this one task.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import MISSING, DictConfig

from conf.command import command
from conf.errors import InputError
from pretrain.rank_command import run_on_ranks, starts_ranks
from pretrain.ranks import Ranks, from_environment

if TYPE_CHECKING:
    from pretrain.evaluation.finetuning_ranks import FinetuningRanks

COLLECTIVE_TIMEOUT_SECONDS = 1800.0  # the first rank writes results, and saves encoders, while the others wait


@dataclass
class FinetuneOptions:
    """Options of `conf/finetune.yaml`."""

    checkpoint: str = MISSING
    output: str = MISSING
    task: Any = MISSING
    tasks: str | None = None
    seeds: list[int] = field(default_factory=list)
    initialisations: list[int] = field(default_factory=list)
    sizes: list[int | str] | None = None
    save: bool = False
    workers: int | None = None
    ranks: int = 1
    deepspeed: Any = None


@command("finetune", schema=FinetuneOptions, directory="output", only_starts=starts_ranks)
def main(config: DictConfig) -> None:
    """Fine-tune `config.checkpoint` on `config.task`; see `conf/finetune.yaml`."""
    if config.ranks < 1:
        raise InputError(f"option 'ranks' must be at least 1, but is {config.ranks}")
    launched = from_environment(os.environ)
    if config.get("deepspeed") is None:  # the group is not there unless it was given
        several = config.ranks if launched is None else launched.world_size
        if several > 1:
            raise InputError(
                f"{several} ranks fine-tune one model together, under DeepSpeed: add deepspeed=zero1, or give "
                f"workers={several} for runs side by side"
            )
        _finetune(config, None)
        return
    if config.workers is not None:
        raise InputError("workers runs side by side and deepspeed all ranks together: give one of them")
    run_on_ranks(config, "pretrain.finetune", "output", _work)


def _work(config: DictConfig, ranks: Ranks) -> str:
    """What one rank does."""
    import hydra
    import torch

    from pretrain.distributed import Group, threads_of_a_rank
    from pretrain.evaluation.finetuning_ranks import FinetuningRanks
    from pretrain.freed_memory import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(threads_of_a_rank(os.environ, ranks.local_world_size))
    options = hydra.utils.instantiate(config.deepspeed, _convert_="all")
    group = Group(ranks, COLLECTIVE_TIMEOUT_SECONDS)
    try:
        _finetune(config, FinetuningRanks(group, options))
    finally:
        group.close()
    return "done"


def _finetune(config: DictConfig, ranks: FinetuningRanks | None) -> None:
    # Imported late: `--cfg job` and a mistyped option need no torch.
    import hydra
    import torch
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from pretrain.evaluation.command import run
    from pretrain.evaluation.sweep import best_sentences, write_sweep
    from pretrain.evaluation.tasks.finetuned import Finetuned
    from pretrain.precision import warn_of_slow_bf16

    task = hydra.utils.instantiate(config.task, _convert_="all")
    if not isinstance(task, Finetuned):
        raise InputError(f"task '{config.task.get('name')}' needs no fine-tuning: score it with `pretrain.evaluate`")
    if ranks is None or ranks.group.ranks.is_main:
        on_gpu = ranks is not None and torch.cuda.is_available()
        warn_of_slow_bf16(task.recipe.precision, "cuda" if on_gpu else "cpu")
    task = replace(task, only_with_tasks=False)  # a suite may leave a task out; one that is named by itself is run
    if config.sizes is not None:
        task = replace(task, sizes=list(config.sizes))
    if config.save:
        task = replace(task, save_to=str(Path(config.output) / "encoders"))
    directory = None if config.tasks is None else Path(config.tasks)
    run(config, {"task": task}, list(config.seeds), list(config.initialisations), directory, ranks=ranks)
    if ranks is not None and not ranks.group.ranks.is_main:
        return
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        for sentence in best_sentences(write_sweep(Path(config.output).parent)):
            print(sentence)


if __name__ == "__main__":
    main()
