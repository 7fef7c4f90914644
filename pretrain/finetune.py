"""`python -m pretrain.finetune`: fine-tunes a checkpoint on one task over several seeds.

Writes into `output` what `python -m pretrain.evaluate` writes, for this one task.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import MISSING, DictConfig

from conf.command import command


@dataclass
class FinetuneOptions:
    """Options of `conf/finetune.yaml`."""

    checkpoint: str = MISSING
    output: str = MISSING
    task: Any = MISSING
    tasks: str | None = None
    seeds: list[int] = field(default_factory=list)
    initialisations: list[int] = field(default_factory=list)
    workers: int | None = None


@command("finetune", schema=FinetuneOptions, directory="output")
def main(config: DictConfig) -> None:
    """Fine-tune `config.checkpoint` on `config.task`; see `conf/finetune.yaml`."""
    # Imported late: `--cfg job` and a mistyped option need no torch.
    import hydra

    from pretrain.evaluation.command import run

    task = hydra.utils.instantiate(config.task, _convert_="all")
    directory = Path.cwd() if config.tasks is None else Path(config.tasks)
    run(config, {"task": task}, list(config.seeds), list(config.initialisations), directory)


if __name__ == "__main__":
    main()
