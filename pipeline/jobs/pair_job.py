"""What the jobs on pairs share on the driver's side: a corpus of pairs -> parallel shards, manifest and data card.

Never imports torch; Beam is imported by the runner. What workers do is in `pipeline.jobs.pair_ranges`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

from conf.errors import InputError
from conf.files import atomic_write_bytes
from pipeline import excluded, languages
from pipeline.blanks import without_blanks
from pipeline.cleaning.chain import Cleaning
from pipeline.files import require_files
from pipeline.held_out import check_share
from pipeline.jobs import shard_directory
from pipeline.jobs.pair_ranges import PairSettings, TextRules, hash_range, write_range
from pipeline.jobs.reading import Task, fingerprint, tasks_of
from pipeline.jobs.shard_driver import finish, has_nothing_to_do, prepare, require_tokenizer, run_ranges
from pipeline.pair_filters import TokenRules
from pipeline.pair_shards import KIND, ORIGINS
from pipeline.pair_sources import PairCorpus
from pipeline.ranges import Plan
from pipeline.records import Pair
from pipeline.runners import Runner
from pipeline.tokenizer import added_token_id, load_tokenizer, special_ids, tokenizer_hash

logger = logging.getLogger(__name__)

LONGEST_SIDE = 65_535
SAMPLED_RANGES, SAMPLED_PAIRS = 8, 100


@dataclass(frozen=True, kw_only=True)
class PairJob:
    """Options that the jobs on pairs share.

    Attributes:
        source_language: name of the language that a model shall read, such as "de".
        target_language: of the one that it shall write.
        cleaning: the step that each sentence goes through.
        min_length: tokens that each side must have, special ones not counted.
        max_length: tokens that each side may have, special ones and the tag counted; longer pairs are dropped.
        max_ratio: how many times as many tokens as the other a side may have; null for no bound.
        drop_copies: drop pairs whose sides are the same but for case, white space and Unicode form.
        deduplicate: drop pairs that are, after cleaning, equal to an earlier one.
        held_out_share: share of the pairs that become validation rows, chosen by the target's content.
        exclude: files of sentences, one a line, that neither side may be (but for case, white space, Unicode form).
        tag: a token of the tokenizer that is put before each source; null for none.
        direction_check: what happens when a sample says that source and target are swapped.
        language_confidence: drop pairs with a side in the other side's language at a probability above this, of the
            two; null: languages are not looked at.
    """

    reads: ClassVar[str] = "pairs"
    name: ClassVar[str]
    origin: ClassVar[str]

    source_language: str
    target_language: str
    cleaning: Any = field(default_factory=Cleaning)
    min_length: int = 1
    max_length: int = 252
    max_ratio: float | None = 1.5
    drop_copies: bool = True
    deduplicate: bool = True
    held_out_share: float = 0.02
    exclude: list[str] = field(default_factory=list)
    tag: str | None = None
    direction_check: Literal["error", "warn", "off"] = "error"
    language_confidence: float | None = None

    def __post_init__(self) -> None:
        self.token_rules()
        if self.max_length > LONGEST_SIDE:
            raise InputError(f"option 'job.max_length' must be at most {LONGEST_SIDE}, but is {self.max_length}")
        check_share(self.held_out_share, "job.held_out_share")
        confidence = self.language_confidence
        if confidence is not None and not 0.5 <= confidence < 1.0:
            raise InputError(
                f"option 'job.language_confidence' must be at least 0.5 and below 1, or null, but is {confidence}"
            )

    def token_rules(self) -> TokenRules:
        """The bounds on tokens."""
        return TokenRules(self.min_length, self.max_length, self.max_ratio)

    def check_paths(self) -> None:
        """Raise InputError unless each path of `exclude` names a file; opens none."""
        if self.exclude:
            require_files(self.exclude, {}, "job.exclude")

    def text_rules(self, excluded_sentences: bytes) -> TextRules:
        """What is asked of texts, given the hashes of the excluded sentences."""
        name = excluded.name_of(excluded_sentences) if excluded_sentences else None
        return TextRules(drop_copies=self.drop_copies, excluded=name)

    def provenance(self, corpus: PairCorpus) -> dict[str, Any]:
        """What else the manifest states of where the pairs came from."""
        return {}

    def check(self, corpus: PairCorpus, tokenizer: str) -> None:
        """Refuse a corpus that does not fit the options, before any work. Raises InputError."""

    def run(self, corpus: PairCorpus, output: Path, tokenizer: str | None, runner: Runner) -> None:
        """Write a shard directory into `output`, which the caller has locked; go on with what is there already.

        Raises:
            InputError: no tokenizer, one without the tag, sides that are swapped, or nothing that is left.
            RuntimeError: the runner did not do every range.
        """
        tokenizer = require_tokenizer(tokenizer, self.name)
        loaded = load_tokenizer(tokenizer)
        special_ids(loaded)
        if self.tag is not None:
            added_token_id(loaded, self.tag, "job.tag")
        self.check(corpus, tokenizer)
        plan = corpus.plan()
        sentences = excluded.hashes_of_files(self.exclude)
        settings = self._settings(corpus, plan, output, tokenizer_hash(tokenizer), sentences)
        tasks = tasks_of(plan, corpus, self.cleaning, repr(settings.text_rules))
        config = self._config(corpus, settings, tasks)
        if has_nothing_to_do(output, config, tasks, settings):
            return
        if self.direction_check != "off":
            self._check_direction(corpus, plan)
        prepare(tokenizer, tasks, settings)
        if sentences:
            settings.work.mkdir(exist_ok=True)
            atomic_write_bytes(settings.excluded_file, sentences)
        summaries = run_ranges(plan, tasks, settings, runner, build_pipeline, self.deduplicate)
        manifest = finish(
            plan,
            settings,
            config,
            summaries,
            kind=KIND,
            what="pairs",
            row_length=self.max_length,
            sides=2,
            wants_validation=self.held_out_share > 0,
            languages={"source": self.source_language, "target": self.target_language},
        )
        counts = manifest.counts
        logger.info(
            "%d pairs read -> %d for training and %d for validation; %d dropped (%s), %d failed; in '%s'",
            counts.read,
            manifest.rows("train"),
            manifest.rows("validation"),
            sum(counts.dropped.values()),
            ", ".join(f"{reason} {number}" for reason, number in counts.dropped.items()) or "none",
            counts.failed,
            settings.directory,
        )

    def _settings(self, corpus: PairCorpus, plan: Plan, output: Path, tokenizer: str, sentences: bytes) -> PairSettings:
        confidence = self.language_confidence
        if confidence is not None and languages.telling(self.source_language, self.target_language) is None:
            logger.warning(
                "job.language_confidence has no effect: languages '%s' and '%s' are the same or not both known",
                self.source_language, self.target_language,
            )  # fmt: skip
            confidence = None
        return PairSettings(
            directory=str(output.absolute()),
            generation=plan.generation,
            corpus=corpus,
            cleaning=self.cleaning,
            text_rules=self.text_rules(sentences),
            token_rules=self.token_rules(),
            source_language=self.source_language,
            target_language=self.target_language,
            language_confidence=confidence,
            tokenizer_hash=tokenizer,
            held_out_share=self.held_out_share,
            tag=self.tag,
            origin=ORIGINS.index(self.origin),
        )

    def _config(self, corpus: PairCorpus, settings: PairSettings, tasks: Sequence[Task]) -> dict[str, Any]:
        """What the manifest states of the run, and its key: a hash of everything that shapes the rows."""
        left_out = ("cleaning", "exclude", "direction_check")
        options = {name: value for name, value in vars(self).items() if name not in left_out}
        options |= {"name": self.name, "excluded": settings.text_rules.excluded}
        return {
            "job": options,
            "corpus": corpus.reading_key(),
            "cleaning": repr(self.cleaning),
            "key": fingerprint(options, [settings.identity(task) for task in tasks]),
            **self.provenance(corpus),
        }

    def _check_direction(self, corpus: PairCorpus, plan: Plan) -> None:
        """Refuse a corpus, or warn of it, most of whose sampled pairs have source and target swapped."""
        telling = languages.telling(self.source_language, self.target_language)
        if telling is None:
            logger.info(
                "the direction is not checked: languages '%s' and '%s' are the same or not both known",
                self.source_language, self.target_language,
            )  # fmt: skip
            return
        votes = telling.votes(_sample(corpus, plan))
        if not votes.are_swapped:
            return
        sentence = (
            f"source and target seem to be swapped: {votes.swapped} of {votes.right + votes.swapped} sampled pairs "
            f"have '{self.target_language}' as source and '{self.source_language}' as target; exchange "
            "job.source_language and job.target_language, or the two sides of the corpus"
        )
        if self.direction_check == "error":
            raise InputError(f"{sentence} (job.direction_check=warn goes on)")
        logger.warning("%s", sentence)


def build_pipeline(pipeline: Any, tasks: Sequence[Task], settings: PairSettings, partitions: int) -> None:
    """Add the job's transforms to a Beam pipeline; see `pipeline.jobs.shard_directory`."""
    shard_directory.build_pipeline(pipeline, tasks, settings, partitions, hash_range, write_range)


def _sample(corpus: PairCorpus, plan: Plan) -> Iterator[tuple[str, str]]:
    """The first pairs of a few ranges that lie evenly over the corpus."""
    count = min(SAMPLED_RANGES, len(plan.ranges))
    for number in range(count):
        range_ = plan.ranges[number * len(plan.ranges) // count]
        pairs = (record for record in corpus.read(range_) if isinstance(record, Pair))
        for pair in islice(pairs, SAMPLED_PAIRS):
            yield without_blanks(pair.source, " "), pair.target
