"""The masked_lm job: documents -> packed token shards, their manifest and their data card.

The driver's side: the plan, the Beam pipeline, the check that every range was done, and the manifest, written last.
What workers do is in `pipeline.jobs.shard_ranges`. Never imports torch; Beam is imported by the runner.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conf.errors import InputError
from pipeline.cleaning.chain import Cleaning
from pipeline.held_out import check_share
from pipeline.jobs import shard_directory
from pipeline.jobs.reading import Task, fingerprint, tasks_of
from pipeline.jobs.shard_driver import finish, has_nothing_to_do, prepare, require_tokenizer, run_ranges
from pipeline.jobs.shard_ranges import Settings, hash_range, write_range
from pipeline.runners import Runner
from pipeline.sources import Corpus
from pipeline.token_flags import COLUMNS
from pipeline.tokenizer import load_tokenizer, special_ids, tokenizer_hash

logger = logging.getLogger(__name__)

KIND = "masked_lm"
LONGEST_ROW = 65_535  # lengths of pieces are uint16


@dataclass(frozen=True)
class MaskedLMJob:
    """Options of the job.

    Attributes:
        cleaning: the step that each document goes through.
        row_length: places in a row, special tokens included.
        held_out_share: share of the documents that become validation rows, chosen by content.
        deduplicate: drop documents that are, after cleaning, equal to an earlier one.
        word_start: write the column that whole-word and span masking need.
        sentence_lengths: write the column that next-sentence and sentence-order prediction need.
    """

    cleaning: Any = field(default_factory=Cleaning)
    row_length: int = 128
    held_out_share: float = 0.02
    deduplicate: bool = True
    word_start: bool = False
    sentence_lengths: bool = False

    def __post_init__(self) -> None:
        if not 8 <= self.row_length <= LONGEST_ROW:
            raise InputError(f"option 'job.row_length' must lie between 8 and {LONGEST_ROW}, but is {self.row_length}")
        check_share(self.held_out_share, "job.held_out_share")

    @property
    def columns(self) -> tuple[str, ...]:
        """The on-demand columns of the shards."""
        return tuple(name for name in COLUMNS if getattr(self, name))

    def run(self, corpus: Corpus, output: Path, tokenizer: str | None, runner: Runner) -> None:
        """Write a shard directory into `output`, which the caller has locked; go on with what is there already.

        Raises:
            InputError: no tokenizer, or a corpus of which nothing is left.
            RuntimeError: the runner did not do every range.
        """
        tokenizer = require_tokenizer(tokenizer, KIND)
        plan = corpus.plan()
        settings = Settings(
            corpus=corpus,
            cleaning=self.cleaning,
            directory=str(output.absolute()),
            tokenizer_hash=tokenizer_hash(tokenizer),
            row_length=self.row_length,
            held_out_share=self.held_out_share,
            generation=plan.generation,
            columns=self.columns,
        )
        special_ids(load_tokenizer(tokenizer))  # refuse it before any work
        tasks = tasks_of(plan, corpus, self.cleaning)
        config = self._config(corpus, settings, tasks)
        if has_nothing_to_do(output, config, tasks, settings):
            return
        prepare(tokenizer, tasks, settings)
        summaries = run_ranges(plan, tasks, settings, runner, build_pipeline, self.deduplicate)
        manifest = finish(plan, settings, config, summaries, kind=KIND, what="documents", row_length=self.row_length)
        logger.info(
            "%d documents -> %d training and %d validation rows of %d, %.2f%% full, in '%s'",
            manifest.counts.kept,
            manifest.rows("train"),
            manifest.rows("validation"),
            self.row_length,
            100 * manifest.fill,
            settings.directory,
        )

    def _config(self, corpus: Corpus, settings: Settings, tasks: Sequence[Task]) -> dict[str, Any]:
        """What the manifest states of the run, and its key: a hash of everything that shapes the rows."""
        options = {
            "row_length": self.row_length,
            "held_out_share": self.held_out_share,
            "deduplicate": self.deduplicate,
            "word_start": self.word_start,
            "sentence_lengths": self.sentence_lengths,
        }
        return {
            "job": options,
            "corpus": corpus.reading_key(),
            "cleaning": repr(self.cleaning),
            "key": fingerprint(options, [settings.identity(task) for task in tasks]),
        }


def build_pipeline(pipeline: Any, tasks: Sequence[Task], settings: Settings, partitions: int) -> None:
    """Add the job's transforms to a Beam pipeline; see `pipeline.jobs.shard_directory`."""
    shard_directory.build_pipeline(pipeline, tasks, settings, partitions, hash_range, write_range)
