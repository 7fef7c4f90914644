"""The parallel job: sentence pairs that people wrote -> parallel shards. Never imports torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal  # noqa: F401 (names in the annotations of options, which are looked up here)

from conf.errors import InputError
from pipeline.jobs.pair_job import PairJob
from pipeline.pair_sources import PairCorpus
from pipeline.translations import TranslationsCorpus


@dataclass(frozen=True, kw_only=True)
class ParallelJob(PairJob):
    """Options of the job: those of `PairJob`."""

    name: ClassVar[str] = "parallel"
    origin: ClassVar[str] = "bitext"

    def check(self, corpus: PairCorpus, tokenizer: str) -> None:
        """Refuse what a model wrote. Raises InputError."""
        if isinstance(getattr(corpus, "inner", corpus), TranslationsCorpus):
            raise InputError(
                "job=parallel reads pairs that people wrote, but corpus=translations holds what a model wrote: "
                "use job=back_translation"
            )
