"""A task that a checkpoint is scored on without training: choices and minimal pairs, for any language model.

An item's options become numbers (`scoring`), the highest is the model's choice. The items are cut into jobs, so that a
large task is spread over the processes of an evaluation and goes on where it was interrupted.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from conf.errors import InputError
from pretrain.evaluation.anchors import published
from pretrain.evaluation.behaviour import behavioural_report
from pretrain.evaluation.runs import hash_of
from pretrain.evaluation.scores import Outcome
from pretrain.evaluation.scoring import SCORING_VERSION, FittedItem, Scoring, fit_items, score_items
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.subject import ModelChoice, Subject
from pretrain.evaluation.tasks.definition import SPLITS, ChoiceItem, Item, PairItem, TaskDefinition, format_hash
from pretrain.evaluation.tasks.places import place_of, read_items
from pretrain.evaluation.zero_shot_scores import ScoredItems, add_scores, answers_of, item_rows, overall_name

TOKENS_PER_MILLISECOND = 75  # through a small model


@dataclass(frozen=True)
class ZeroShot:
    """The configured task.

    `definition` says what the items are; `data` is their own folder or archive, a relative one begins at `tasks` where
    the command has it; null looks for the task among all data sets in `tasks`; `hub` downloads it, `hub:FOLDER` reads
    what was saved from there. `split` null is the one whose labels are public.

    `scoring` says what is scored of an option and how. `breakdown` names facts of the items, each of whose values gets
    a score of its own, as each phenomenon of minimal pairs does. `max_items` takes the first ones only. `items_per_job`
    changes no score. With `random_weights` false only the checkpoint is scored, whatever the suite's initialisations.

    Raises InputError naming an option out of range.
    """

    definition: TaskDefinition
    data: str | None = None
    split: Split | None = None
    name: str | None = None
    scoring: Scoring = field(default_factory=Scoring)
    breakdown: list[str] = field(default_factory=list)
    max_items: int | None = None
    items_per_job: int = 2000
    random_weights: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        if self.definition.kind not in ("choice", "minimal_pair"):
            raise InputError(
                f"task {self.definition.name} is a {self.definition.kind}: only choices and minimal pairs are scored "
                "without training"
            )
        if self.split is not None and self.split not in SPLITS:
            raise InputError(f"task.split must be one of {', '.join(SPLITS)} or null, but is '{self.split}'")
        for option in ("max_items", "items_per_job"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise InputError(f"task.{option} must be at least 1, but is {value}")

    @property
    def label(self) -> str:
        """The name in the table of scores; a choice may be fine-tuned in the same suite, under the bare name."""
        if self.name is not None:
            return self.name
        return self.definition.name + ("_zero_shot" if self.definition.kind == "choice" else "")

    def prepare(self, subject: Subject, directory: Path | None) -> "PreparedZeroShot":
        """Read the items and see that the model can hold each.

        Raises:
            TaskMissing: the data are not there.
            InputError: a row cannot be read, no item has a label, `breakdown` names no fact, or as `fit_items`.
        """
        place = place_of(self.data, directory, self.definition)
        split = self.split or self.definition.scored
        read = read_items(self.definition, place, split)
        items = [item for item in map(self._checked, read) if isinstance(item, PairItem) or item.label is not None]
        if not items:
            raise InputError(
                f"no item of task {self.definition.name}, split {split}, has a label: give the split that has them"
            )
        notes = [f"{self.label}: {note}" for note in place.notes]
        if len(items) < len(read):
            notes.append(f"{self.label}: {len(read) - len(items)} items without a label are left out")
        items = items[: self.max_items]
        for fact in self.breakdown:
            if not any(fact in item.facts for item in items):
                known = sorted({name for item in items for name in item.facts})
                raise InputError(
                    f"task.breakdown has '{fact}', but the items of {self.definition.name} have "
                    f"{', '.join(known) or 'no facts'}"
                )
        model, tokenizer = subject.pretrained().load_any()
        fitted = fit_items(tokenizer, items, self.scoring, model.config.max_positions)
        notes += _notes(self.label, fitted, model.config.max_positions)
        return PreparedZeroShot(
            task=self,
            subject=subject,
            items=tuple(items),
            scored_as=self.scoring.name_for(model, self.scoring.part_of(items[0])),
            costs=[_cost(item) for item in fitted],
            cut=sum(item.cut > 0 for item in fitted),
            unscored=sum(item.options is None for item in fitted),
            notes=notes,
        )

    def _checked(self, item: Item) -> ChoiceItem | PairItem:
        if not isinstance(item, ChoiceItem | PairItem):
            raise InputError(f"task {self.definition.name} has items that are neither choices nor minimal pairs")
        return item


def _notes(name: str, fitted: Sequence[FittedItem], max_positions: int) -> list[str]:
    cut = [item.cut for item in fitted if item.cut]
    unscored = sum(item.options is None for item in fitted)
    notes = []
    if cut:
        notes.append(
            f"{name}: the context of {len(cut)} of {len(fitted)} items was cut to the model's {max_positions} "
            f"positions, by {max(cut)} tokens at most"
        )
    if unscored:
        notes.append(
            f"{name}: {unscored} of {len(fitted)} items are too long for the model's {max_positions} positions and "
            "count as wrong"
        )
    return notes


def _cost(item: FittedItem) -> float:
    """About how many milliseconds a small encoder takes for an item."""
    texts = (*(item.options or ()), *item.alone)
    return sum(text.num_tokens * len(text.ids) for text in texts) / TOKENS_PER_MILLISECOND


@dataclass(frozen=True)
class ZeroShotJob:
    """Scores of some of a task's items under one model; `content` is the hash of these items."""

    task: str
    model: ModelChoice
    part: str
    items: tuple[ChoiceItem | PairItem, ...]
    content: str
    scoring: Scoring
    cost: float

    @property
    def name(self) -> str:
        """`blimp/random-3`, or of a task in several jobs `blimp/random-3/17-of-34`."""
        return f"{self.task}/{model_label(self.model)}" + (f"/{self.part}" if self.part else "")

    def identity(self) -> dict[str, Any]:
        """All that the scores depend on."""
        return {
            "kind": f"zero_shot.{SCORING_VERSION}",
            "model": self.model.fingerprint,
            "initialisation": self.model.initialisation,
            "items": self.content,
            "scoring": asdict(self.scoring),
        }

    def execute(self) -> dict[str, Any]:
        """`{"scores": [[...], ...]}`: one number an option, null for an item that is not scored."""
        model, tokenizer = self.model.load_any()
        return {"scores": score_items(model, tokenizer, self.items, self.scoring)}


def model_label(model: ModelChoice) -> str:
    """`pretrained` or `random-3`."""
    return model.model_name + ("" if model.initialisation is None else f"-{model.initialisation}")


@dataclass(frozen=True)
class PreparedZeroShot:
    """The items with the models to score them.

    `scored_as` names the score, `costs` are milliseconds an item; of `cut` items the context was cut, `unscored` ones
    do not fit.
    """

    task: ZeroShot
    subject: Subject
    items: tuple[ChoiceItem | PairItem, ...]
    scored_as: str
    costs: list[float]
    cut: int
    unscored: int
    notes: list[str]

    @property
    def name(self) -> str:
        """The name in the table of scores."""
        return self.task.label

    @property
    def models(self) -> list[ModelChoice]:
        """The pretrained model first, then each initialisation."""
        random = self.subject.initialisations if self.task.random_weights else ()
        return [self.subject.pretrained(), *(self.subject.random(seed) for seed in random)]

    @cached_property
    def jobs(self) -> list[ZeroShotJob]:
        """All parts of the items under the first model, then under the next."""
        size = self.task.items_per_job
        starts = range(0, len(self.items), size)
        parts = []
        for number, start in enumerate(starts, start=1):
            items = self.items[start : start + size]
            label = f"{number}-of-{len(starts)}" if len(starts) > 1 else ""
            content = format_hash(self.task.definition, items)
            parts.append((label, items, content, sum(self.costs[start : start + size])))
        return [
            ZeroShotJob(self.name, model, label, items, content, self.task.scoring, cost)
            for model in self.models
            for label, items, content, cost in parts
        ]

    def collect(self, results: Sequence[dict[str, Any]]) -> Outcome:
        """Accuracy over all items, per phenomenon and per value of the facts in `breakdown`."""
        models = self.models
        per_model = len(self.jobs) // len(models)
        scores: dict[str, list[list[float] | None]] = {}
        for index, model in enumerate(models):
            mine = results[index * per_model : (index + 1) * per_model]
            scores[model_label(model)] = [row for result in mine for row in result["scores"]]
        outcome = Outcome(items=item_rows(self.items, scores), notes=list(self.notes))
        definition = self.task.definition
        scored = ScoredItems(
            task=self.name,
            items=self.items,
            scores=scores,
            seeds=self.subject.initialisations if self.task.random_weights else (),
            fingerprints={"pretrained": self.subject.fingerprint, "random": self.subject.shape_fingerprint},
            signature={
                "task": f"{definition.name}.{definition.version}",
                "split": self.task.split or definition.scored,
                "items": hash_of([job.content for job in self.jobs[:per_model]])[:12],
                "score": f"{self.scored_as}.{SCORING_VERSION}",
                "cut": f"{self.cut}+{self.unscored}",
            },
        )
        add_scores(outcome, scored, self.task.breakdown)
        split = self.task.split or definition.scored
        outcome.anchors += published(overall_name(scored, self.task.breakdown), definition.anchors, split)
        outcome.behaviour += behavioural_report(self.name, definition, self.items, answers_of(scored))
        return outcome
