"""The masked_lm job: documents -> packed token shards, their manifest and their data card.

The driver's side: the plan, the Beam pipeline, the check that every range was done, and the manifest, written last.
What workers do is in `pipeline.jobs.shard_ranges`. Never imports torch; Beam is imported by the runner.
"""

from __future__ import annotations

import functools
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conf.errors import InputError
from conf.files import atomic_write_bytes
from pipeline.cleaning.chain import Cleaning
from pipeline.dedup import partitions_for
from pipeline.held_out import check_share
from pipeline.jobs import shard_directory
from pipeline.jobs.code_version import code_version
from pipeline.jobs.following import follow
from pipeline.jobs.reading import fingerprint, range_fingerprint, refuse_nothing
from pipeline.jobs.shard_directory import Task, check_splits, collect, is_done, remove_stale
from pipeline.jobs.shard_ranges import Settings, hash_range, write_range
from pipeline.manifest import FORMAT_VERSION, MANIFEST, Counts, Manifest, ShardInfo
from pipeline.ranges import Plan
from pipeline.report import Summary, write_report
from pipeline.runners import Runner
from pipeline.shards import content_hash, id_dtype, write_manifest
from pipeline.sources import Corpus
from pipeline.token_flags import COLUMNS
from pipeline.tokenizer import TOKENIZER, load_tokenizer, special_ids, tokenizer_file, tokenizer_hash

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
        if tokenizer is None:
            raise InputError(
                "option 'tokenizer' must name a directory with a tokenizer.json for job=masked_lm: "
                "`python -m pipeline job=tokenizer output=DIR` trains one"
            )
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
        tasks = [
            Task(number, range_, range_fingerprint(plan, range_, corpus, self.cleaning))
            for number, range_ in enumerate(plan.ranges)
        ]
        config = self._config(corpus, settings, tasks)
        if is_done(output, config, tasks, settings):
            logger.info("'%s' is complete for these inputs and options: nothing to do", output)
            return
        (output / MANIFEST).unlink(missing_ok=True)
        atomic_write_bytes(output / TOKENIZER, tokenizer_file(tokenizer).read_bytes())
        remove_stale(tasks, settings)
        partitions = partitions_for(sum(max(file.size, 0) for file in plan.files)) if self.deduplicate else 0
        build = functools.partial(build_pipeline, tasks=tasks, settings=settings, partitions=partitions)
        marks = [settings.hashes(task) for task in tasks] if self.deduplicate else []
        marks += [settings.sidecar(task) for task in tasks]
        with follow("hashing and writing shards" if self.deduplicate else "writing shards", marks):
            runner.run(build, units=len(tasks))
        summaries = collect(tasks, settings, partitions)
        self._finish(plan, settings, config, summaries)

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

    def _finish(
        self, plan: Plan, settings: Settings, config: dict[str, Any], summaries: Sequence[dict[str, Any]]
    ) -> None:
        output = Path(settings.directory)
        tokenizer = load_tokenizer(output)
        shards = [ShardInfo(**raw) for summary in summaries for raw in summary["shards"]]
        counts = sum((Counts(**summary["counts"]) for summary in summaries), Counts())
        refuse_nothing(counts, [example for summary in summaries for example in summary["examples"]])
        check_splits(counts.kept, "documents", shards)
        vocab_size = tokenizer.get_vocab_size()
        dtype = id_dtype(vocab_size)
        rows = sum(shard.rows for shard in shards)
        manifest = Manifest(
            format_version=FORMAT_VERSION,
            kind=KIND,
            config=config,
            tokenizer_hash=settings.tokenizer_hash,
            vocab_size=vocab_size,
            special_ids=special_ids(tokenizer),
            dtype=dtype,
            row_length=self.row_length,
            shards=shards,
            counts=counts,
            sources=[{"name": file.name, "size": file.size, "fingerprint": file.fingerprint} for file in plan.files],
            content_hash=content_hash(KIND, self.row_length, dtype, settings.tokenizer_hash, vocab_size, shards),
            fill=sum(shard.tokens for shard in shards) / (rows * self.row_length),
            code_version=code_version(),
        )
        write_report(output, manifest, Summary.of(summaries))
        shutil.rmtree(settings.work, ignore_errors=True)
        write_manifest(output, manifest)
        logger.info(
            "%d documents -> %d training and %d validation rows of %d, %.2f%% full, in '%s'",
            counts.kept,
            manifest.rows("train"),
            manifest.rows("validation"),
            self.row_length,
            100 * manifest.fill,
            output,
        )


def build_pipeline(pipeline: Any, tasks: Sequence[Task], settings: Settings, partitions: int) -> None:
    """Add the job's transforms to a Beam pipeline; see `pipeline.jobs.shard_directory`."""
    shard_directory.build_pipeline(pipeline, tasks, settings, partitions, hash_range, write_range)
