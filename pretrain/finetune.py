"""`python -m pretrain.finetune`: fine-tunes a checkpoint on one task over several seeds.

Writes into `output` what `python -m pretrain.evaluate` writes, for this one task.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import MISSING, DictConfig

from conf.command import command
from conf.errors import InputError


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


@command("finetune", schema=FinetuneOptions, directory="output")
def main(config: DictConfig) -> None:
    """Fine-tune `config.checkpoint` on `config.task`; see `conf/finetune.yaml`."""
    # Imported late: `--cfg job` and a mistyped option need no torch.
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from pretrain.evaluation.command import run
    from pretrain.evaluation.sweep import best_sentences, write_sweep
    from pretrain.evaluation.tasks.finetuned import Finetuned

    task = hydra.utils.instantiate(config.task, _convert_="all")
    if not isinstance(task, Finetuned):
        raise InputError(f"task '{config.task.get('name')}' needs no fine-tuning: score it with `pretrain.evaluate`")
    task = replace(task, only_with_tasks=False)  # a suite may leave a task out; one that is named by itself is run
    if config.sizes is not None:
        task = replace(task, sizes=list(config.sizes))
    if config.save:
        task = replace(task, save_to=str(Path(config.output) / "encoders"))
    directory = None if config.tasks is None else Path(config.tasks)
    run(config, {"task": task}, list(config.seeds), list(config.initialisations), directory)
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        for sentence in best_sentences(write_sweep(Path(config.output).parent)):
            print(sentence)


if __name__ == "__main__":
    main()
