"""Zero-shot minimal pairs from templates: is the good sentence more likely to the model than the bad one?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError
from pretrain.evaluation.challenge.builder import MinimalPair, build, items_hash
from pretrain.evaluation.challenge.chinese import CHINESE
from pretrain.evaluation.challenge.english import ENGLISH
from pretrain.evaluation.challenge.templates import Grammar
from pretrain.evaluation.metrics import METRIC_VERSION, PAIR_ACCURACY, pair_correct
from pretrain.evaluation.scores import ModelName, Outcome, short, signature
from pretrain.evaluation.scoring import (
    SCORING_VERSION,
    DecoderScoring,
    Normalisation,
    Scoring,
    Variant,
    score_texts,
    tokenize,
)
from pretrain.evaluation.statistics import RESAMPLES, Estimate, cluster_bootstrap
from pretrain.evaluation.subject import ModelChoice, Subject

GRAMMARS: Mapping[str, Grammar] = {"english": ENGLISH, "chinese": CHINESE}


@dataclass(frozen=True)
class MinimalPairs:
    """The configured task.

    `phenomena` null means all of the grammar. `variant` is that of the pseudo-log-likelihood, for encoders; `decoder`
    says how encoder-decoders are asked (`scoring_decoder`).
    """

    name: str = "minimal_pairs"
    grammar: Literal["english", "chinese"] = "english"
    pairs_per_phenomenon: int = 200
    seed: int = 1
    phenomena: list[str] | None = None
    variant: Variant = "within_word"
    normalisation: Normalisation = "none"
    decoder: DecoderScoring = field(default_factory=DecoderScoring)

    @property
    def scoring(self) -> Scoring:
        """How a sentence becomes a number."""
        return Scoring("whole", self.variant, self.normalisation, decoder=self.decoder)

    def prepare(self, subject: Subject, directory: Path | None) -> "PreparedMinimalPairs":
        """Build the items and check that the model can hold each.

        Raises:
            InputError: a phenomenon the grammar lacks, a count that the words do not allow, a sentence longer than the
                model's positions, or a tokenizer that cannot tell most good sentences from the bad ones.
        """
        grammar = GRAMMARS[self.grammar]
        items = build(grammar, self.pairs_per_phenomenon, self.seed, self.phenomena)
        model, tokenizer = subject.pretrained().load_any()
        texts = [text for item in items for text in (item.good, item.bad)]
        tokenized = tokenize(tokenizer, texts, model.config.max_positions)
        alike = sum(good.ids == bad.ids for good, bad in zip(tokenized[::2], tokenized[1::2], strict=True))
        if 2 * alike > len(items):
            raise InputError(
                f"the checkpoint's tokenizer reads {alike} of {len(items)} {grammar.language} pairs of task "
                f"'{self.name}' as equal, good and bad: take a checkpoint of that language, or another grammar"
            )
        scored_as = self.scoring.name_for(model, "whole")
        return PreparedMinimalPairs(
            self, subject, f"{grammar.language}.{grammar.version}", tuple(items), scored_as, alike
        )


@dataclass(frozen=True)
class ScoringJob:
    """Scores of all items under one model."""

    task: str
    model: ModelChoice
    items: tuple[MinimalPair, ...]
    scoring: Scoring

    @property
    def name(self) -> str:
        """`minimal_pairs/random-3`."""
        chosen = self.model.initialisation
        return f"{self.task}/{self.model.model_name}" + ("" if chosen is None else f"-{chosen}")

    @property
    def cost(self) -> float:
        """Sentences to score, in units of about a millisecond for a small model."""
        return 2.0 * len(self.items)

    def identity(self) -> dict[str, Any]:
        """All that the scores depend on."""
        return {
            "kind": f"minimal_pairs.{SCORING_VERSION}",
            "model": self.model.fingerprint,
            "initialisation": self.model.initialisation,
            "items": items_hash(self.items),
            "scoring": asdict(self.scoring),
        }

    def execute(self) -> dict[str, Any]:
        """`{"good": [...], "bad": [...]}`, scores in the order of the items."""
        model, tokenizer = self.model.load_any()
        texts = [item.good for item in self.items] + [item.bad for item in self.items]
        scores = score_texts(model, tokenizer, texts, self.scoring).tolist()
        return {"good": scores[: len(self.items)], "bad": scores[len(self.items) :]}


@dataclass(frozen=True)
class PreparedMinimalPairs:
    """The items with the models to score them, and the score's name.

    `alike` of the items are equal, good and bad, to the tokenizer.
    """

    task: MinimalPairs
    subject: Subject
    version: str
    items: tuple[MinimalPair, ...]
    scored_as: str
    alike: int

    @property
    def name(self) -> str:
        """The name in the table of scores, before that of the phenomenon."""
        return self.task.name

    @property
    def jobs(self) -> list[ScoringJob]:
        """The pretrained model first, then each initialisation."""
        subject, task = self.subject, self.task
        models = [subject.pretrained(), *(subject.random(seed) for seed in subject.initialisations)]
        return [ScoringJob(task.name, model, self.items, task.scoring) for model in models]

    def collect(self, results: Sequence[dict[str, Any]]) -> Outcome:
        """Accuracy per phenomenon and overall. Intervals resample templates, and initialisations besides."""
        won = np.stack([pair_correct(result["good"], result["bad"]) for result in results])
        outcome = Outcome(items=self._item_rows(results))
        if self.alike:
            outcome.notes.append(
                f"{self.name}: good and bad sentence of {self.alike} of {len(self.items)} pairs are the same tokens to "
                "the checkpoint's tokenizer, so that they tie and count one half"
            )
        phenomena = np.array([item.phenomenon for item in self.items])
        for phenomenon in dict.fromkeys(phenomena.tolist()):
            self._add(outcome, f"{self.task.name}/{phenomenon}", won, phenomena == phenomenon)
        self._add(outcome, f"{self.task.name}/overall", won, np.ones(len(self.items), dtype=bool))
        return outcome

    def _add(self, outcome: Outcome, name: str, won: NDArray[np.float64], chosen: NDArray[np.bool_]) -> None:
        items = [item for item, keep in zip(self.items, chosen, strict=True) if keep]
        templates = [item.template for item in items]
        parts: list[tuple[ModelName, NDArray[np.float64], tuple[int, ...], str]] = [
            ("pretrained", won[:1, chosen], (), self.subject.fingerprint)
        ]
        if self.subject.initialisations:
            parts.append(("random", won[1:, chosen], self.subject.initialisations, self.subject.shape_fingerprint))
        estimates: dict[ModelName, tuple[Estimate, tuple[int, ...], str]] = {}
        for model, values, seeds, fingerprint in parts:
            if len(set(templates)) < 2:
                raise InputError(f"'{name}' has one template only, which gives no interval: ask for more phenomena")
            estimate = cluster_bootstrap(values, templates, seed=self.task.seed)
            estimates[model] = (estimate, seeds, self._signature(items, model, seeds, fingerprint))
        outcome.add(name, PAIR_ACCURACY, len(items), estimates)

    def _signature(
        self, items: Sequence[MinimalPair], model: ModelName, seeds: tuple[int, ...], fingerprint: str
    ) -> str:
        clusters = "template" if model == "pretrained" else "template*initialisation"
        return signature(
            task=f"minimal_pairs.{self.version}",
            items=short(items_hash(items)),
            metric=f"{PAIR_ACCURACY}.{METRIC_VERSION}",
            score=f"{self.scored_as}.{SCORING_VERSION}",
            interval=f"cluster_bootstrap({clusters}).{RESAMPLES}",
            model=short(fingerprint),
            seeds=",".join(map(str, seeds)) or "none",
        )

    def _item_rows(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        names = [job.name.partition("/")[2] for job in self.jobs]
        return [
            {
                **asdict(item),
                "scores": {
                    name: [result["good"][index], result["bad"][index]]
                    for name, result in zip(names, results, strict=True)
                },
            }
            for index, item in enumerate(self.items)
        ]
