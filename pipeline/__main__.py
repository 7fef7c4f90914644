"""`python -m pipeline job=NAME output=DIR ...`: corpora -> tokenizer, shards, documents, tasks. Never imports torch.

The command prepares the output directory, holds its lock, records its provenance once there is work to do, and hands
over to the job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from omegaconf import MISSING, DictConfig, OmegaConf

from conf.command import command
from conf.errors import InputError
from conf.files import directory_lock, prepare_output_directory
from conf.provenance import write_provenance

if TYPE_CHECKING:
    from pipeline.runners import Build, Runner


@dataclass
class PipelineOptions:
    """The options at the top level; the groups are checked by their targets."""

    output: str = MISSING
    job: Any = MISSING
    corpus: Any = MISSING
    cleaning: Any = None
    tokenizer: str | None = None
    runner: Any = MISSING


@dataclass(frozen=True)
class RecordingRunner:
    """A runner that records the provenance when it is first given work.

    A job that finds its output complete gives it none, and so leaves the directory to the run that filled it.
    """

    runner: Runner
    record: Callable[[], None]

    @property
    def workers(self) -> int:
        """See pipeline.runners.Runner."""
        return self.runner.workers

    def run(self, build: Build, units: int | None = None) -> None:
        """See pipeline.runners.Runner."""
        self.record()
        self.runner.run(build, units)


def check_corpus(job: Any, corpus: Any) -> None:
    """Refuse a corpus of documents for a job that reads pairs, and the other way round.

    Raises:
        InputError: naming what the job reads and what the corpus holds.
    """
    reads, holds = getattr(job, "reads", "documents"), getattr(corpus, "holds", "documents")
    if reads not in (holds, "anything"):
        fitting = {"pairs": "corpus=bitext, corpus=tsv or corpus=translations", "documents": "corpus=text"}[reads]
        raise InputError(f"this job reads {reads}, but the corpus holds {holds}: choose {fitting}")


@command("pipeline", schema=PipelineOptions, directory="output")
def main(config: DictConfig) -> None:
    """Run one job of the pipeline."""
    from pipeline.planned import PlannedCorpus
    from pipeline.tokenizer import tokenizer_hash

    output = prepare_output_directory(config.output)
    with directory_lock(output):
        corpus = PlannedCorpus(hydra.utils.instantiate(config.corpus, _convert_="all"))
        job = hydra.utils.instantiate(config.job, _convert_="all")
        check_corpus(job, corpus)
        runner = hydra.utils.instantiate(config.runner)
        inputs = {"corpus": corpus.fingerprint()}
        if config.tokenizer is not None:
            inputs["tokenizer"] = tokenizer_hash(Path(config.tokenizer))
        seed = OmegaConf.select(config, "job.seed")
        seeds = {} if seed is None else {"job": int(seed)}

        def record() -> None:
            write_provenance(output, config, inputs=inputs, seeds=seeds)

        job.run(corpus, output, config.tokenizer, RecordingRunner(runner, record))


if __name__ == "__main__":
    main()
