"""Fine-tuned classification of texts or pairs of texts, from a folder of labelled rows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from conf.errors import InputError
from pipeline.tokenizer import special_ids
from pretrain.evaluation.finetuning import Example, Recipe, encode, finetune
from pretrain.evaluation.metrics import ACCURACY, METRIC_VERSION, correct, majority_share
from pretrain.evaluation.runs import hash_of
from pretrain.evaluation.scores import ModelName, Outcome, short, signature
from pretrain.evaluation.statistics import Estimate, seeds_and_items_interval
from pretrain.evaluation.subject import ModelChoice, Subject
from pretrain.evaluation.tasks.labelled_data import LabelledData, read_labelled_data, read_labelled_data_once

FINETUNING_VERSION = 1
PROBABILITY_DIGITS = 6


@dataclass(frozen=True)
class Classification:
    """The configured task.

    `path` is the task's folder (see `labelled_data`); a relative one begins at `tasks` where the command has it, else
    at the working directory. `name` defaults to the one in `task.json`. `max_train` and `max_dev` take the first rows
    only.
    """

    path: str
    name: str | None = None
    recipe: Recipe = field(default_factory=Recipe)
    max_train: int | None = None
    max_dev: int | None = None
    only_with_tasks: bool = False

    def __post_init__(self) -> None:
        """Raise InputError naming an option out of range."""
        for option in ("max_train", "max_dev"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise InputError(f"task.{option} must be at least 1 or null, but is {value}")

    def prepare(self, subject: Subject, directory: Path | None) -> "PreparedClassification | None":
        """Read and encode the rows once, so that a bad row or one that is too long is refused before any training.

        Raises:
            InputError: see `read_labelled_data` and `encode`; or a model with fewer positions than recipe.max_length
                needs.
        """
        if directory is None and self.only_with_tasks:
            return None
        folder = (directory / self.path if directory is not None else Path(self.path)).resolve()
        data = read_labelled_data(folder)
        model, tokenizer = subject.pretrained().load()
        if self.recipe.max_length > model.config.max_positions:
            raise InputError(
                f"recipe.max_length must be at most {model.config.max_positions}, the model's positions, but is "
                f"{self.recipe.max_length}: lower it"
            )
        train, dev = data.train[: self.max_train], data.dev[: self.max_dev]
        _, cut_train = encode(train, tokenizer, self.recipe.max_length, self.recipe.too_long)
        _, cut_dev = encode(dev, tokenizer, self.recipe.max_length, self.recipe.too_long)
        return PreparedClassification(self, subject, folder, data, train, dev, cut_train, cut_dev)


@dataclass(frozen=True)
class FinetuningJob:
    """One fine-tuning run: one model, one seed."""

    task: str
    model: ModelChoice
    seed: int
    folder: str
    content_hash: str
    num_train: int
    num_dev: int
    num_labels: int
    recipe: Recipe

    @property
    def name(self) -> str:
        """`adjacent_passages/pretrained-2`."""
        return f"{self.task}/{self.model.model_name}-{self.seed}"

    @property
    def cost(self) -> float:
        """Examples to learn from, in units of about a millisecond for a small model."""
        return 3.0 * self.num_train * self.recipe.epochs

    def identity(self) -> dict[str, Any]:
        """All that the predictions depend on."""
        return {
            "kind": f"classification.{FINETUNING_VERSION}",
            "model": self.model.fingerprint,
            "initialisation": self.model.initialisation,
            "seed": self.seed,
            "data": self.content_hash,
            "sizes": [self.num_train, self.num_dev],
            "recipe": asdict(self.recipe),
        }

    def execute(self) -> dict[str, Any]:
        """`{"probabilities": [[...], ...], "losses": [...], "steps": n}`: dev examples, epochs, optimiser steps."""
        data = read_labelled_data_once(Path(self.folder))
        model, tokenizer = self.model.load()
        recipe = self.recipe
        train, _ = encode(data.train[: self.num_train], tokenizer, recipe.max_length, recipe.too_long)
        dev, _ = encode(data.dev[: self.num_dev], tokenizer, recipe.max_length, recipe.too_long)
        pad = special_ids(tokenizer)["pad"]
        result = finetune(model.encoder, train, dev, self.num_labels, pad, recipe, self.seed)
        return {
            "probabilities": np.round(result.probabilities, PROBABILITY_DIGITS).tolist(),
            "losses": result.losses,
            "steps": result.steps,
        }


@dataclass(frozen=True)
class PreparedClassification:
    """The rows with the models and seeds to run."""

    task: Classification
    subject: Subject
    folder: Path
    data: LabelledData
    train: tuple[Example, ...]
    dev: tuple[Example, ...]
    cut_train: int
    cut_dev: int

    @property
    def name(self) -> str:
        """The name in the table of scores."""
        return self.task.name or self.data.name

    @property
    def jobs(self) -> list[FinetuningJob]:
        """The pretrained model with each seed, then each initialisation with the seed of its number."""
        runs = [(self.subject.pretrained(), seed) for seed in self.subject.seeds]
        runs += [(self.subject.random(seed), seed) for seed in self.subject.initialisations]
        return [
            FinetuningJob(
                task=self.name,
                model=model,
                seed=seed,
                folder=str(self.folder),
                content_hash=self.data.content_hash,
                num_train=len(self.train),
                num_dev=len(self.dev),
                num_labels=len(self.data.labels),
                recipe=self.task.recipe,
            )
            for model, seed in runs
        ]

    def collect(self, results: Sequence[dict[str, Any]]) -> Outcome:
        """Accuracy on the dev rows; failed runs are named and stay in the mean."""
        labels = np.array([example.label for example in self.dev])
        probabilities = np.array([result["probabilities"] for result in results])
        won = np.stack([correct(labels, run.argmax(axis=1)) for run in probabilities])
        groups = [example.group for example in self.dev]
        outcome = Outcome(items=self._item_rows(probabilities))
        if len(set(groups)) < 2:
            # A corpus of a few long documents: clusters of one cannot be resampled, so the rows are, and it is said.
            groups = [str(number) for number in range(len(self.dev))]
            outcome.notes.append(
                f"{self.name}: all dev rows come from one document; the interval is over its rows and says nothing of "
                "other documents"
            )
        seeds = len(self.subject.seeds)
        parts: list[tuple[ModelName, Any, tuple[int, ...], str]] = [
            ("pretrained", won[:seeds], self.subject.seeds, self.subject.fingerprint)
        ]
        if self.subject.initialisations:
            random = (won[seeds:], self.subject.initialisations, self.subject.shape_fingerprint)
            parts.append(("random", *random))
        estimates: dict[ModelName, tuple[Estimate, tuple[int, ...], str]] = {}
        majority = majority_share(labels)
        for model, values, used, fingerprint in parts:
            estimates[model] = (
                seeds_and_items_interval(values, groups),
                used,
                self._signature(used, fingerprint),
            )
            failed = int((values.mean(axis=1) <= majority).sum())
            if failed:
                outcome.notes.append(
                    f"{self.name}: {failed} of {len(values)} runs of the {model} model are no better than always "
                    f"giving the most frequent label ({majority:.1%}); they stay in the mean"
                )
        outcome.add(self.name, ACCURACY, len(labels), estimates)
        if self.cut_train or self.cut_dev:
            outcome.notes.append(
                f"{self.name}: {self.cut_train} of {len(self.train)} training and {self.cut_dev} of {len(self.dev)} "
                f"dev examples were cut to {self.task.recipe.max_length} tokens"
            )
        return outcome

    def _signature(self, seeds: tuple[int, ...], fingerprint: str) -> str:
        return signature(
            task=f"{self.name}.{FINETUNING_VERSION}",
            items=short(hash_of(self.data.content_hash)),
            rows=f"{len(self.train)}+{len(self.dev)}",
            metric=f"{ACCURACY}.{METRIC_VERSION}",
            recipe=short(hash_of(asdict(self.task.recipe))),
            interval="t(seeds+groups)",
            model=short(fingerprint),
            seeds=",".join(map(str, seeds)),
        )

    def _item_rows(self, probabilities: Any) -> list[dict[str, Any]]:
        names = [job.name.rpartition("/")[2] for job in self.jobs]
        return [
            {
                "id": index,
                "group": example.group,
                "label": example.label,
                "predictions": {name: int(run[index].argmax()) for name, run in zip(names, probabilities, strict=True)},
                "label_probabilities": {
                    name: float(run[index][example.label]) for name, run in zip(names, probabilities, strict=True)
                },
            }
            for index, example in enumerate(self.dev)
        ]
