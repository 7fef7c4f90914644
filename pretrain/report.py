"""`python -m pretrain.report run_dir=...`: what was run, on which data, how it trained and what it scores, on one page.

Must not import torch: a report is made wherever the files are.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING, DictConfig, OmegaConf

from conf.command import command
from conf.errors import InputError
from conf.files import atomic_write_bytes, prepare_output_directory
from pretrain.evaluation.report import PAGE, Places, collect
from pretrain.evaluation.report_page import render

logger = logging.getLogger(__name__)

SCORES = "scores.json"


@dataclass
class ReportOptions:
    """Options of `conf/report.yaml`."""

    run_dir: str = MISSING
    corpus: str = MISSING
    tokenizer: str = MISSING
    shards: str = MISSING
    tasks: str = MISSING
    pretrain: str = MISSING
    evaluate: str = MISSING
    title: str | None = None
    examples: int = 2
    audited: int = 20


@command("report", schema=ReportOptions, directory="run_dir")
def main(config: DictConfig) -> None:
    """Write `report.html` and `scores.json` into `config.run_dir`; see `conf/report.yaml`."""
    for name in ("examples", "audited"):
        if config[name] < 0:
            raise InputError(f"option '{name}' must be at least 0, but is {config[name]}")
    run_dir = Path(config.run_dir)
    if not run_dir.is_dir():
        raise InputError(f"option 'run_dir' must be the folder of a run, but there is no folder '{run_dir}'")
    names = ("corpus", "tokenizer", "shards", "tasks", "pretrain", "evaluate")
    places = Places(run_dir, **{name: Path(config[name]) for name in names})
    for name in names:
        # A default part may be missing and is shown as such; a folder that someone typed may not.
        if not OmegaConf.is_interpolation(config, name) and not Path(config[name]).is_dir():
            raise InputError(f"option '{name}' must be a folder of a run, but there is no folder '{config[name]}'")
    facts = collect(places, config.title or run_dir.resolve().name, config.examples, config.audited)
    prepare_output_directory(run_dir)
    scores = places.evaluate / SCORES
    if scores.is_file() and scores.resolve() != (run_dir / SCORES).resolve():
        _write_if_new(run_dir / SCORES, scores.read_bytes())
    new = _write_if_new(run_dir / PAGE, render(facts).encode())
    for part in facts.missing:
        logger.warning("the report shows this as missing: %s", part)
    print(f"{run_dir / PAGE}: {'written' if new else 'nothing new, left as it is'}")


def _write_if_new(path: Path, content: bytes) -> bool:
    """Write a file unless it holds just that; whether it was written."""
    if path.is_file() and path.read_bytes() == content:
        return False
    atomic_write_bytes(path, content)
    return True


if __name__ == "__main__":
    main()
