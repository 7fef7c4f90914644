"""A fine-tuned task with its items encoded: the jobs, and the way from their results to scores."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pretrain.evaluation.anchors import human_only, published
from pretrain.evaluation.behaviour import Answers, Behaviour, accuracy, behavioural_report, picked_option
from pretrain.evaluation.checklist_results import CheckedList, checked_rows, failure_report
from pretrain.evaluation.finetuning.encoding import EncodedItems
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.finetuning_rows import labelled_rows
from pretrain.evaluation.finetuning_scores import RunScores, calibration_of_runs, curve_interval, score_runs
from pretrain.evaluation.learning_curve import area_weights
from pretrain.evaluation.metrics import METRIC_VERSION, PASS_RATE, correct, majority_share
from pretrain.evaluation.runs import hash_of
from pretrain.evaluation.scores import CurveSizes, ModelName, Outcome, Runs, short, signature
from pretrain.evaluation.statistics import Estimate
from pretrain.evaluation.subject import ModelChoice, Subject
from pretrain.evaluation.tasks.definition import Anchor, Kind, TaskDefinition
from pretrain.evaluation.tasks.finetuning_job import (
    FINETUNING_VERSION,
    EvaluatedSet,
    FinetuningJob,
    outputs_of_runs,
)
from pretrain.evaluation.tasks.task_items import LabelledItem

AREA = "area"
Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Point:
    """A training set of a curve: its label ("" where there is only one), its items, and how many are drawn of them.

    `definition` is the task that the items are of: of a curve over numbers the same for all.
    """

    label: str
    definition: TaskDefinition
    data: EncodedItems
    content: str
    size: int | None

    @property
    def count(self) -> int:
        """Items that a run learns from."""
        return len(self.data) if self.size is None else self.size


@dataclass(frozen=True, eq=False)
class ScoredSet:
    """A set that runs predict: with its items and their groups where a score is made of it.

    `definition` says what a behavioural report shows of it; `checked` are the cases of a check list, and `groups` then
    those of the cases.
    """

    judged: EvaluatedSet
    items: tuple[LabelledItem, ...]
    groups: list[str]
    definition: TaskDefinition
    scored: bool
    checked: CheckedList | None = None


@dataclass(frozen=True, eq=False)
class PreparedFinetuned:
    """The items with the models, seeds and sizes to run."""

    name: str
    subject: Subject
    recipe: Recipe
    kind: Kind
    num_labels: int
    points: list[Point]
    sets: list[ScoredSet]
    notes: list[str]
    save_to: str | None = None

    @property
    def jobs(self) -> list[FinetuningJob]:
        """For each size the pretrained model with each seed, then each initialisation with the seed of its number."""
        jobs = []
        for point in self.points:
            for model, seed in self._runs():
                run = f"{model.model_name}-{seed}"
                name = "/".join(filter(None, (self.name, point.label, run)))
                jobs.append(
                    FinetuningJob(
                        name=name,
                        model=model,
                        seed=seed,
                        kind=self.kind,
                        num_labels=self.num_labels,
                        train=point.data,
                        train_content=point.content,
                        size=point.size,
                        sets=tuple(one.judged for one in self.sets),
                        recipe=self.recipe,
                        save_to=None if self.save_to is None else str(Path(self.save_to) / name),
                    )
                )
        return jobs

    def collect(self, results: Sequence[dict[str, Any]]) -> Outcome:
        """The metrics of every set and its calibration, with several sizes one a size and the area under the curve.

        Failed runs are counted and stay in the mean.
        """
        outcome = Outcome(notes=[f"{self.name}: {note}" for note in self.notes])
        if self.recipe.patience is not None and self.sets[0].scored:
            outcome.notes.append(
                f"{self.name}: the best epoch was chosen by the items that the score is of, which flatters it"
            )
        runs = len(self._runs())
        by_point = [list(results[at : at + runs]) for at in range(0, len(results), runs)]
        for one in self.sets:
            if not one.scored:
                continue
            outputs = [outputs_of_runs(found, one.judged.name) for found in by_point]
            if one.checked is not None:
                self._collect_checks(outcome, one, one.checked, outputs)
                continue
            scores = [
                {model: score_runs(one.judged, found[rows]) for model, rows, _, _ in self._models()}
                for found in outputs
            ]
            self._note_failures(outcome, one, scores)
            for point, found, given in zip(self.points, scores, outputs, strict=True):
                name = self._add(outcome, one, [point], [found])
                if self.kind != "regression":
                    for model, rows, _, _ in self._models():
                        outcome.calibration.append(calibration_of_runs(one.judged, name, model, given[rows]))
                outcome.anchors += published(name, self._anchors(one, point), one.definition.scored)
            if len(self.points) > 1:
                self._add(outcome, one, self.points, scores)
                names = {self._name(one, point): point.count for point in self.points}
                outcome.curves.append(CurveSizes(one.judged.name, names, f"{one.judged.name}/{AREA}"))
            outcome.behaviour += self._behaviour(one, outputs)
            outcome.items += labelled_rows(one.judged, one.definition.labels, one.items, self._by_run(outputs))
        return outcome

    def _behaviour(self, one: ScoredSet, outputs: list[NDArray[np.float64]]) -> list[Behaviour]:
        """What the set's definition shows of accuracies; of every size."""
        if one.judged.kind == "regression":
            return []
        found = []
        for point, by_run in zip(self.points, outputs, strict=True):
            answers = {}
            for model, rows, _, _ in self._models():
                given = np.stack([one.judged.predictions(run) for run in by_run[rows]])
                right = np.stack([correct(one.judged.items.labels, run) for run in given])
                answers[model] = Answers(right, partial(picked_option, given))
            name = self._name(one, point)
            found += behavioural_report(name, one.definition, one.items, answers)
        return found

    def _collect_checks(
        self, outcome: Outcome, one: ScoredSet, checked: CheckedList, outputs: list[NDArray[np.float64]]
    ) -> None:
        """The share of cases that pass, of all and of each type, and the failure rates of every test; of every size."""
        failures = [np.stack([checked.failures(run) for run in by_run]) for by_run in outputs]
        for point, by_run, failed in zip(self.points, outputs, failures, strict=True):
            name = self._name(one, point)
            for part, chosen in checked.types():
                estimates: dict[ModelName, tuple[Estimate, tuple[int, ...], str]] = {}
                behind: dict[ModelName, Runs] = {}
                groups = [group for group, keep in zip(checked.groups, chosen, strict=True) if keep]
                for model, rows, seeds, fingerprint in self._models():
                    passed = 1.0 - failed[rows][:, chosen].astype(np.float64)
                    over = "t(seeds+groups)" if len(seeds) > 1 else "t(groups)"
                    signed = self._signature(one, [point], PASS_RATE, over, seeds, fingerprint)
                    estimates[model] = (accuracy(passed, groups)[0], seeds, signed)
                    behind[model] = Runs(tuple(passed.mean(axis=1).tolist()))
                outcome.add("/".join(filter(None, (name, part))), PASS_RATE, int(chosen.sum()), estimates, behind)
            for model, rows, _, _ in self._models():
                outcome.behaviour += failure_report(name, model, checked, one.items, failed[rows], by_run[rows][0])
        outcome.items += checked_rows(
            one.judged.name, checked, one.items, self._by_run(outputs), self._by_run(failures)
        )

    def _runs(self) -> list[tuple[ModelChoice, int]]:
        runs = [(self.subject.pretrained(), seed) for seed in self.subject.seeds]
        return runs + [(self.subject.random(seed), seed) for seed in self.subject.initialisations]

    def _by_run(self, by_point: Sequence[NDArray[Scalar]]) -> dict[str, NDArray[Scalar]]:
        """What there is of every run, by the names of `items/`: `16/pretrained-1`, of one size just `pretrained-1`."""
        return {
            "/".join(filter(None, (point.label, f"{model.model_name}-{seed}"))): given
            for point, found in zip(self.points, by_point, strict=True)
            for (model, seed), given in zip(self._runs(), found, strict=True)
        }

    def _models(self) -> list[tuple[ModelName, slice, tuple[int, ...], str]]:
        """Each model with the rows of its runs among all, their seeds, and its fingerprint."""
        subject, seeds = self.subject, len(self.subject.seeds)
        models: list[tuple[ModelName, slice, tuple[int, ...], str]] = [
            ("pretrained", slice(0, seeds), subject.seeds, subject.fingerprint)
        ]
        if subject.initialisations:
            models.append(("random", slice(seeds, None), subject.initialisations, subject.shape_fingerprint))
        return models

    def _name(self, one: ScoredSet, point: Point) -> str:
        """The name of a set's score after training on one of the sizes."""
        return "/".join(filter(None, (one.judged.name, point.label)))

    def _anchors(self, one: ScoredSet, point: Point) -> Sequence[Anchor]:
        """What was published of a set: on a curve only for the size that the others learnt from too."""
        if len(self.points) == 1:
            return one.definition.anchors
        own = one is next(other for other in self.sets if other.scored)
        return point.definition.anchors if own and point.size is None else human_only(one.definition.anchors)

    def _add(
        self,
        outcome: Outcome,
        one: ScoredSet,
        points: Sequence[Point],
        scores: Sequence[dict[ModelName, RunScores]],
    ) -> str:
        """Add the scores of one size, or with several sizes the areas under their curves; gives their name."""
        counts = [point.count for point in points]
        curve = len(points) > 1
        weights = area_weights(counts) if curve else np.ones(1)
        name = f"{one.judged.name}/{AREA}" if curve else self._name(one, points[0])
        for metric in one.judged.metrics:
            estimates: dict[ModelName, tuple[Estimate, tuple[int, ...], str]] = {}
            behind: dict[ModelName, Runs] = {}
            for model, _, seeds, fingerprint in self._models():
                found = [size[model] for size in scores]
                predictions = np.stack([size.predictions for size in found], axis=1)
                estimate, interval = curve_interval(one.judged, metric, predictions, weights, one.groups)
                estimates[model] = (estimate, seeds, self._signature(one, points, metric, interval, seeds, fingerprint))
                values = weights @ np.array([size.values[metric] for size in found])
                behind[model] = Runs(tuple(values.tolist()), sum(size.failed for size in found))
            outcome.add(name, metric, len(one.items), estimates, behind)
        return name

    def _note_failures(self, outcome: Outcome, one: ScoredSet, scores: Sequence[dict[ModelName, RunScores]]) -> None:
        least = "the mean score"
        if one.judged.kind != "regression":
            least = f"the most frequent label ({majority_share(one.judged.items.labels):.1%})"
        for point, models in zip(self.points, scores, strict=True):
            for model, found in models.items():
                if found.failed:
                    outcome.notes.append(
                        f"{self._name(one, point)}: {found.failed} of "
                        f"{len(found.predictions)} runs of the {model} model are no better than always giving {least}; "
                        "they stay in the mean"
                    )

    def _signature(
        self,
        one: ScoredSet,
        points: Sequence[Point],
        metric: str,
        interval: str,
        seeds: tuple[int, ...],
        fingerprint: str,
    ) -> str:
        tolerance = "" if one.checked is None else f".tolerance({one.checked.tolerance:g})"
        trained = [[point.content, len(point.data), point.size] for point in points]
        return signature(
            task=f"{one.definition.name}.{one.definition.version}.{FINETUNING_VERSION}{tolerance}",
            split=one.definition.scored,
            items=short(one.judged.content),
            train=short(hash_of(trained)),
            rows=f"{','.join(str(point.count) for point in points)}+{len(one.items)}",
            metric=f"{metric}.{METRIC_VERSION}",
            recipe=short(hash_of(asdict(self.recipe))),
            interval=interval,
            model=short(fingerprint),
            seeds=",".join(map(str, seeds)),
        )
