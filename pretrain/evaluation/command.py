"""What the commands `evaluate` and `finetune` share: lock, provenance, tasks, table."""

import time
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig

from conf.errors import InputError
from conf.files import directory_lock
from conf.provenance import write_provenance
from pretrain.evaluation.finetuning_ranks import FinetuningRanks
from pretrain.evaluation.report.writing import write_evaluation_page
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.suite import evaluate_tasks, in_a_pool
from pretrain.evaluation.suite_mean import SuiteMean
from pretrain.evaluation.table import print_scores
from pretrain.evaluation.tasks.base import Task


def run(
    config: DictConfig,
    tasks: Mapping[str, Task],
    seeds: list[int],
    initialisations: list[int],
    directory: Path | None,
    mean: SuiteMean | None = None,
    ranks: FinetuningRanks | None = None,
) -> None:
    """Evaluate `config.checkpoint` on tasks, write the results and their page into `config.output` and print them.

    With `ranks` each of them calls this, and the first one writes and prints.

    Raises:
        InputError: see `read_subject` and `evaluate_tasks`; or another run holds `output`.
    """
    started = time.monotonic()
    if directory is not None and not any(path.is_file() for path in directory.rglob("*")):
        found = "holds no file" if directory.is_dir() else "is none"
        raise InputError(
            f"option 'tasks' must be a folder of data sets, such as `python -m pipeline job=corpus_tasks` makes, but "
            f"'{directory}' {found}"
        )
    subject = read_subject(config.checkpoint, seeds, initialisations)
    output = Path(config.output)
    if ranks is not None and not ranks.group.ranks.is_main:
        evaluate_tasks(tasks, subject, directory, output, ranks.run, writes=False)
        return
    with directory_lock(output):
        write_provenance(
            output,
            config,
            inputs={"checkpoint": subject.fingerprint},
            seeds={f"seed_{seed}": seed for seed in seeds},
        )
        run_jobs = in_a_pool(config.workers) if ranks is None else ranks.run
        outcomes = evaluate_tasks(tasks, subject, directory, output, run_jobs, mean)
        page = write_evaluation_page(output)
    print_scores(outcomes, subject.source)
    print(f"{output / 'scores.json'} and {page.name}: written after {time.monotonic() - started:.0f} s")
