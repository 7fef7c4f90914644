"""The back_translation job: what a reverse model wrote of real sentences -> parallel shards with synthetic sources.

Sennrich et al. 2016; the tag before synthetic sources is that of Caswell et al. 2019. Never imports torch.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal  # noqa: F401 (names in the annotations of options, which are looked up here)

from conf.errors import InputError
from pipeline.jobs.pair_job import PairJob
from pipeline.jobs.pair_ranges import Score, TextRules
from pipeline.pair_filters import TokenRules
from pipeline.pair_sources import PairCorpus
from pipeline.tokenizer import tokenizer_hash
from pipeline.translations import TranslationsCorpus

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BackTranslationJob(PairJob):
    """Options of the job: those of `PairJob`, some with other defaults, and

    Attributes:
        minimum_score: drop pairs whose translation has a lower score; null for no bound.
        minimum_dual_score: drop pairs whose two directions together have a lower score (between 0 and 1, see
            `pretrain.translation.dual_scores`), or none; null for no bound.
        score: which of a pair's two scores its row keeps.
        max_repeats: drop pairs whose source says the same run of tokens more often in a row, unless its target does as
            often; null for no bound.
    """

    name: ClassVar[str] = "back_translation"
    origin: ClassVar[str] = "synthetic"

    held_out_share: float = 0.0
    tag: str | None = "<bt>"
    language_confidence: float | None = 0.9
    minimum_score: float | None = None
    minimum_dual_score: float | None = None
    score: Score = "translation"
    max_repeats: int | None = 4

    def token_rules(self) -> TokenRules:
        """The bounds on tokens."""
        return replace(super().token_rules(), repeats=self.max_repeats)

    def text_rules(self, excluded_sentences: bytes) -> TextRules:
        """What is asked of texts, given the hashes of the excluded sentences."""
        return replace(
            super().text_rules(excluded_sentences),
            minimum_score=self.minimum_score,
            minimum_dual_score=self.minimum_dual_score,
            score=self.score,
        )

    def provenance(self, corpus: PairCorpus) -> dict[str, Any]:
        """Which translations they are."""
        manifest = _translations(corpus).manifest()
        names = ("content_hash", "checkpoint", "direction", "search", "score_with")
        return {"translations": {name: manifest[name] for name in names if name in manifest}}

    def check(self, corpus: PairCorpus, tokenizer: str) -> None:
        """Refuse translations of another direction or vocabulary.

        Raises:
            InputError: naming the two that do not fit.
        """
        translations = _translations(corpus)
        manifest, directory = translations.manifest(), translations.directory
        if self.minimum_score is not None and not math.isfinite(self.minimum_score):
            raise InputError(f"option 'job.minimum_score' must be a number or null, but is {self.minimum_score}")
        least = self.minimum_dual_score
        if least is not None and not 0 <= least <= 1:
            raise InputError(f"option 'job.minimum_dual_score' must be between 0 and 1, or null, but is {least}")
        if (least is not None or self.score == "dual") and "score_with" not in manifest:
            option = "job.minimum_dual_score" if least is not None else "job.score=dual"
            raise InputError(
                f"option '{option}' needs the scores of a model of the other direction, but '{directory}' has none: "
                "translate with score_with=CHECKPOINT"
            )
        found = tuple(manifest["direction"].get(side) for side in ("source_language", "target_language"))
        # The reverse model read what the forward one shall write.
        expected = (self.target_language, self.source_language)
        if None in found:
            logger.warning(
                "'%s' does not say which languages it is of, so that the direction is not checked: translate with "
                "source_language=%s target_language=%s",
                directory,
                *expected,
            )
        elif found != expected:
            hint = "exchange job.source_language and job.target_language" if found == expected[::-1] else "name others"
            raise InputError(
                f"shards for {self.source_language} -> {self.target_language} need translations from "
                f"{self.target_language} into {self.source_language}, but '{directory}' holds translations from "
                f"{found[0]} into {found[1]}: {hint}"
            )
        if manifest["tokenizer_hash"] != (own := tokenizer_hash(tokenizer)):
            raise InputError(
                f"the reverse model's vocabulary is not the forward model's: '{directory}' was translated with the "
                f"tokenizer {manifest['tokenizer_hash']}, but '{tokenizer}' (option 'tokenizer') is {own}; give "
                "the one that both directions share"
            )


def _translations(corpus: PairCorpus) -> TranslationsCorpus:
    """The corpus as what this job needs."""
    inner = getattr(corpus, "inner", corpus)
    if not isinstance(inner, TranslationsCorpus):
        raise InputError(
            "job=back_translation reads what `python -m pretrain.translate` wrote: add corpus=translations "
            "corpus.directory=DIR to the command line (job=parallel reads other pairs)"
        )
    return inner
