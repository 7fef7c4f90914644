"""The command `python -m pretrain`: shards -> checkpoints. Starts the ranks where no launcher has."""

from dataclasses import dataclass, field
from typing import Any, Literal

from omegaconf import MISSING, DictConfig

from conf.command import command
from conf.errors import InputError
from pretrain.rank_command import run_on_ranks, starts_ranks
from pretrain.ranks import Ranks


@dataclass
class WandbOptions:
    """The `wandb` node: nothing is sent unless `project` is set."""

    project: str | None = None
    entity: str | None = None
    name: str | None = None


@dataclass
class PretrainOptions:
    """The options at the top level of `conf/pretrain.yaml`, where each is explained."""

    run_dir: str = MISSING
    data: str | list[str] | dict[str, float] | None = None
    sampling_exponent: float | None = None
    languages: dict[str, Any] | None = None
    stages: dict[str, dict[str, Any]] | None = None
    skip_rows: str | None = None
    seed: int = 0
    ranks: int = 1
    resume: bool = True
    init_from: str | None = None
    fork: str | None = None
    fork_optimizer: Literal["keep", "fresh"] = "keep"
    fork_progress: Literal["keep", "restart"] = "keep"
    dry_run: bool = False
    wandb: WandbOptions = field(default_factory=WandbOptions)
    model: Any = MISSING
    objective: Any = MISSING
    optimizer: Any = MISSING
    schedule: Any = MISSING
    deepspeed: Any = MISSING
    trainer: Any = MISSING


@command("pretrain", schema=PretrainOptions, directory="run_dir", only_starts=starts_ranks)
def main(config: DictConfig) -> None:
    """Run as the rank that a launcher made of this process, or start the ranks."""
    if not 0 <= config.seed < 2**63:
        raise InputError(f"seed must be from 0 to 2^63 - 1, but is {config.seed}.")
    if config.ranks < 1:
        raise InputError(f"ranks must be at least 1, but is {config.ranks}.")
    run_on_ranks(config, "pretrain", "run_dir", _work)


def _work(config: DictConfig, ranks: Ranks) -> str:
    from pretrain.run import train  # brings torch

    return train(config, ranks)


if __name__ == "__main__":
    main()
