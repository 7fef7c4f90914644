"""`python -m pretrain.evaluate`: scores of a checkpoint, zero-shot and fine-tuned, beside random weights.

Writes `scores.json`, `report.html`, `items/<task>.jsonl` (per-item results), `runs/` (one file per finished run, so
that an interrupted evaluation goes on) and `provenance.json` into `output`, and prints the table.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import MISSING, DictConfig

from conf.command import command


@dataclass
class EvaluateOptions:
    """Options of `conf/evaluate.yaml`."""

    checkpoint: str = MISSING
    output: str = MISSING
    tasks: str | None = None
    suite: Any = MISSING
    workers: int | None = None


@command("evaluate", schema=EvaluateOptions, directory="output")
def main(config: DictConfig) -> None:
    """Evaluate `config.checkpoint` on `config.suite`; see `conf/evaluate.yaml`."""
    # Imported late: `--cfg job` and a mistyped option need no torch.
    import hydra

    from pretrain.evaluation.command import run
    from pretrain.evaluation.suite import chosen_tasks

    suite = hydra.utils.instantiate(config.suite, _convert_="all")
    directory = None if config.tasks is None else Path(config.tasks)
    run(config, chosen_tasks(suite), suite.seeds, suite.initialisations, directory, suite.mean)


if __name__ == "__main__":
    main()
