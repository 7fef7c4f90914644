"""`python -m pretrain.report run_dir=...`: what was run, on which data, how it trained and what it scores, on one page.

`run_dir` is the folder of a chain, or the output of `python -m pretrain.evaluate`, whose page is of its scores alone.
Must not import torch: a report is made wherever the files are.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING, DictConfig, OmegaConf

from conf.command import command
from conf.errors import InputError
from conf.files import prepare_output_directory
from pretrain.evaluation.report.facts import PAGE, Facts, Places, Shown, collect, collect_evaluation
from pretrain.evaluation.report.writing import write_if_new, write_page

logger = logging.getLogger(__name__)

SCORES = "scores.json"
COUNTS = ("examples", "audited", "worst")
PARTS = ("documents", "tokenizer", "shards", "tasks", "pretrain", "evaluate")


@dataclass
class ReportOptions:
    """Options of `conf/report.yaml`."""

    run_dir: str = MISSING
    documents: str = MISSING
    tokenizer: str = MISSING
    shards: str = MISSING
    tasks: str = MISSING
    pretrain: str = MISSING
    evaluate: str = MISSING
    comparison: str | None = None
    title: str | None = None
    examples: int = 2
    audited: int = 20
    worst: int = 5


@command("report", schema=ReportOptions, directory="run_dir")
def main(config: DictConfig) -> None:
    """Write `report.html` and `scores.json` into `config.run_dir`; see `conf/report.yaml`."""
    for name in COUNTS:
        if config[name] < 0:
            raise InputError(f"option '{name}' must be at least 0, but is {config[name]}")
    run_dir = Path(config.run_dir)
    if not run_dir.is_dir():
        raise InputError(f"option 'run_dir' must be the folder of a run, but there is no folder '{run_dir}'")
    facts = _facts(config, run_dir)
    prepare_output_directory(run_dir)
    if facts.chain:
        scores = Path(config.evaluate) / SCORES
        if scores.is_file() and scores.resolve() != (run_dir / SCORES).resolve():
            write_if_new(run_dir / SCORES, scores.read_bytes())
    new = write_page(run_dir, facts)
    for part in facts.missing:
        logger.warning("the report shows this as missing: %s", part)
    print(f"{run_dir / PAGE}: {'written' if new else 'nothing new, left as it is'}")


def _facts(config: DictConfig, run_dir: Path) -> Facts:
    shown = Shown(**{name: config[name] for name in COUNTS})
    title = config.title or run_dir.resolve().name
    comparison = None if config.comparison is None else Path(config.comparison)
    typed = [name for name in PARTS if not OmegaConf.is_interpolation(config, name)]
    for name in typed:
        # A default part may be missing and is shown as such; a folder that someone typed may not.
        if not Path(config[name]).is_dir():
            raise InputError(f"option '{name}' must be a folder of a run, but there is no folder '{config[name]}'")
    if not typed and (run_dir / SCORES).is_file() and (run_dir / "items").is_dir():
        return collect_evaluation(run_dir, title, shown, comparison)
    return collect(Places(run_dir, **{name: Path(config[name]) for name in PARTS}), title, shown, comparison)


if __name__ == "__main__":
    main()
