"""A task of likeness that an encoder is scored on without training: the cosine of two sentences' mean states."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError
from pretrain.evaluation.anchors import published
from pretrain.evaluation.finetuning.recipe import TooLong
from pretrain.evaluation.metric_intervals import runs_and_items_interval, weighted_metric
from pretrain.evaluation.metrics import METRIC_VERSION, METRICS
from pretrain.evaluation.runs import hash_of
from pretrain.evaluation.scores import ModelName, Outcome, Runs, short, signature
from pretrain.evaluation.sentence_embeddings import cosines, mean_embeddings
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.statistics import Estimate
from pretrain.evaluation.subject import ModelChoice, Subject
from pretrain.evaluation.tasks.definition import SPLITS, TaskDefinition, TextItem, format_hash
from pretrain.evaluation.tasks.places import place_of, read_items

SIMILARITY_VERSION = 1
SCORE = "mean_pooled_cosine"
TOKENS_PER_MILLISECOND = 75  # through a small model


@dataclass(frozen=True)
class Similarity:
    """The configured task.

    `definition` is a regression on pairs of texts, such as STS-B; `data`, `split` and `name` are as in `ZeroShot`.
    Longer texts than `max_length` tokens are refused or cut (`too_long`). `max_items` takes the first ones only. With
    `random_weights` false only the checkpoint is scored, whatever the suite's initialisations.

    Raises InputError naming an option out of range.
    """

    definition: TaskDefinition
    data: str | None = None
    split: Split | None = None
    name: str | None = None
    max_length: int = 256
    too_long: TooLong = "refuse"
    max_items: int | None = None
    random_weights: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        if self.definition.kind != "regression":
            raise InputError(
                f"task {self.definition.name} is a {self.definition.kind}: only a regression on pairs of texts is "
                "scored by their likeness"
            )
        if self.split is not None and self.split not in SPLITS:
            raise InputError(f"task.split must be one of {', '.join(SPLITS)} or null, but is '{self.split}'")
        if self.max_length < 3:
            raise InputError(f"task.max_length must be at least 3, but is {self.max_length}")
        if self.max_items is not None and self.max_items < 3:
            raise InputError(f"task.max_items must be at least 3 or null, but is {self.max_items}")

    def prepare(self, subject: Subject, directory: Path | None) -> "PreparedSimilarity":
        """Read the items.

        Raises:
            TaskMissing: the data are not there.
            InputError: a row cannot be read or is no pair, fewer than 3 items have a score to compare with, or the
                model has fewer positions than `max_length`.
        """
        place = place_of(self.data, directory, self.definition)
        split = self.split or self.definition.scored
        read = read_items(self.definition, place, split)
        items = [item for item in read if isinstance(item, TextItem) and item.label is not None]
        items = items[: self.max_items]
        if len(items) < 3:
            raise InputError(
                f"a correlation needs at least 3 items with a score, but task {self.definition.name}, split {split}, "
                f"has {len(items)}: give the split that has them"
            )
        single = next((item for item in items if item.text_b is None), None)
        if single is not None:
            raise InputError(f"item {single.id} of task {self.definition.name} is no pair of texts")
        model, _ = subject.pretrained().load()
        if self.max_length > model.config.max_positions:
            raise InputError(
                f"task.max_length must be at most {model.config.max_positions}, the model's positions, but is "
                f"{self.max_length}: lower it"
            )
        name = self.name or f"{self.definition.name}_similarity"
        return PreparedSimilarity(self, name, split, subject, tuple(items), [f"{name}: {note}" for note in place.notes])


@dataclass(frozen=True)
class SimilarityJob:
    """The likeness of all pairs under one model."""

    name: str
    model: ModelChoice
    items: tuple[TextItem, ...]
    content: str
    max_length: int
    too_long: TooLong

    @property
    def cost(self) -> float:
        """Milliseconds for a small model, taking four characters for a token."""
        return sum(len(item.text_a) + len(item.text_b or "") for item in self.items) / 4 / TOKENS_PER_MILLISECOND

    def identity(self) -> dict[str, Any]:
        """All that the scores depend on."""
        return {
            "kind": f"similarity.{SIMILARITY_VERSION}",
            "model": self.model.fingerprint,
            "initialisation": self.model.initialisation,
            "items": self.content,
            "length": [self.max_length, self.too_long],
        }

    def execute(self) -> dict[str, Any]:
        """`{"cosines": [...], "cut": n}`: one number a pair, and how many of its texts were cut."""
        encoder, tokenizer = self.model.load_encoder()
        second = [replace(item, text_a=item.text_b or "", text_b=None) for item in self.items]
        first = [replace(item, text_b=None) for item in self.items]
        vectors, cut = mean_embeddings(encoder, tokenizer, [*first, *second], self.max_length, self.too_long)
        return {"cosines": cosines(vectors[: len(first)], vectors[len(first) :]).tolist(), "cut": cut}


@dataclass(frozen=True)
class PreparedSimilarity:
    """The pairs with the models to score them."""

    task: Similarity
    name: str
    split: Split
    subject: Subject
    items: tuple[TextItem, ...]
    notes: list[str]

    @property
    def jobs(self) -> list[SimilarityJob]:
        """The pretrained model, then each initialisation."""
        content = format_hash(self.task.definition, self.items)
        random = self.subject.initialisations if self.task.random_weights else ()
        models = [("pretrained", self.subject.pretrained())]
        models += [(f"random-{seed}", self.subject.random(seed)) for seed in random]
        return [
            SimilarityJob(f"{self.name}/{label}", model, self.items, content, self.task.max_length, self.task.too_long)
            for label, model in models
        ]

    @property
    def labels(self) -> NDArray[np.float64]:
        """[items], what people said."""
        return np.array([item.label for item in self.items], dtype=np.float64)

    def collect(self, results: Sequence[dict[str, Any]]) -> Outcome:
        """The task's correlations, each with an interval for other items."""
        outcome = Outcome(notes=list(self.notes))
        if cut := max(int(result["cut"]) for result in results):
            outcome.notes.append(f"{self.name}: {cut} texts were cut to {self.task.max_length} tokens")
        found = np.array([result["cosines"] for result in results], dtype=np.float64)
        models: list[tuple[ModelName, NDArray[np.float64], tuple[int, ...], str]] = [
            ("pretrained", found[:1], (), self.subject.fingerprint)
        ]
        if len(found) > 1:
            shape = self.subject.shape_fingerprint
            models.append(("random", found[1:], self.subject.initialisations, shape))
        for metric in self.task.definition.metrics:
            estimates: dict[ModelName, tuple[Estimate, tuple[int, ...], str]] = {}
            behind: dict[ModelName, Runs] = {}
            for model, scores, seeds, fingerprint in models:
                estimates[model] = (self._estimate(metric, scores), seeds, self._signature(metric, seeds, fingerprint))
                behind[model] = Runs(tuple(METRICS[metric](self.labels, run) for run in scores) if seeds else ())
            outcome.add(self.name, metric, len(self.items), estimates, behind)
        outcome.anchors += published(self.name, self.task.definition.anchors, self.split)
        names = [job.name.rpartition("/")[2] for job in self.jobs]
        for index, item in enumerate(self.items):
            outcome.items.append(
                {
                    "set": self.name,
                    "id": item.id,
                    "group": item.group,
                    "text_a": item.text_a,
                    "text_b": item.text_b,
                    "label": item.label,
                    "facts": dict(item.facts),
                    "predictions": {name: float(run[index]) for name, run in zip(names, found, strict=True)},
                }
            )
        return outcome

    def _estimate(self, metric: str, scores: NDArray[np.float64]) -> Estimate:
        def statistic(weights: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.stack([weighted_metric(metric, self.labels, run, weights) for run in scores])

        groups = [item.group for item in self.items]
        return runs_and_items_interval(statistic, len(self.items), groups, -1.0)

    def _signature(self, metric: str, seeds: tuple[int, ...], fingerprint: str) -> str:
        definition = self.task.definition
        return signature(
            task=f"{definition.name}.{definition.version}",
            split=self.split,
            items=hash_of([self.jobs[0].content, len(self.items)])[:12],
            score=f"{SCORE}.{SIMILARITY_VERSION}",
            length=f"{self.task.max_length}.{self.task.too_long}",
            metric=f"{metric}.{METRIC_VERSION}",
            interval="t(initialisations+groups)" if seeds else "t(groups)",
            model=short(fingerprint),
            seeds=",".join(map(str, seeds)) or "none",
        )
