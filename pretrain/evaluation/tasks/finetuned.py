"""A task that a checkpoint is fine-tuned on: a definition, where its data lie, a recipe, and over which sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from tokenizers import Tokenizer

from conf.errors import InputError
from pretrain.evaluation.checklist_results import checked_list, whole_cases
from pretrain.evaluation.finetuning.encoding import EncodedItems, encode
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.learning_curve import area_weights
from pretrain.evaluation.subject import Subject
from pretrain.evaluation.tasks.base import TaskMissing
from pretrain.evaluation.tasks.definition import TaskDefinition, format_hash
from pretrain.evaluation.tasks.finetuning_job import EvaluatedSet, map_labels
from pretrain.evaluation.tasks.prepared_finetuned import Point, PreparedFinetuned, ScoredSet
from pretrain.evaluation.tasks.task_items import LabelledItem, TaskItems


@dataclass(frozen=True)
class Finetuned:
    """The configured task.

    `definition` says what the items are; null means a folder with a `task.json` at `data` (see `labelled_data`). `data`
    is this task's own folder or archive, a relative one begins at `tasks` where the command has it; null looks for the
    task among all data sets in `tasks`; `hub` downloads it, `hub:FOLDER` reads what was saved from there.

    `train_on` takes the training rows (and the rows that the best epoch is chosen by) from another task, at
    `train_data`; labels are matched by name. `also` lists further tasks that the same runs are scored on, found in
    `tasks`.

    `sizes` makes a learning curve: numbers of training items, drawn anew by each seed, or names out of `sized`, which
    gives the definition of each (the five sizes of WinoGrande). `max_train` and `max_dev` take the first rows only.
    `breakdown` names facts of the items, each of whose values gets an accuracy of its own in the behavioural report,
    beside what the definition shows there. `save_to` is a folder for the tuned encoders.
    """

    definition: TaskDefinition | None = None
    data: str | None = None
    name: str | None = None
    recipe: Recipe = field(default_factory=Recipe)
    train_on: TaskDefinition | None = None
    train_data: str | None = None
    also: list[TaskDefinition] | None = None
    sizes: list[int | str] | None = None
    sized: dict[str, TaskDefinition] | None = None
    breakdown: list[str] = field(default_factory=list)
    max_train: int | None = None
    max_dev: int | None = None
    only_with_tasks: bool = False
    save_to: str | None = None

    def __post_init__(self) -> None:
        """Raise InputError naming an option out of range."""
        for option in ("max_train", "max_dev"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise InputError(f"task.{option} must be at least 1 or null, but is {value}")
        if self.sizes is None:
            return
        if len(self.sizes) < 2:
            raise InputError(f"task.sizes must name at least 2 sizes or be null, but is {self.sizes}")
        known = self.sized or {}
        names = [size for size in self.sizes if isinstance(size, str)]
        for name in names:
            if name not in known:
                allowed = f"numbers of items{' or names out of ' + ', '.join(known) if known else ''}"
                raise InputError(f"task.sizes must hold {allowed}, but has '{name}'")
        if names and len(names) < len(self.sizes):
            raise InputError(f"task.sizes must hold either names or numbers, but is {self.sizes}")
        if names and self.train_on is not None:
            raise InputError("task.sizes by name and task.train_on both say what is trained on: give one of them")

    def prepare(self, subject: Subject, directory: Path | None) -> PreparedFinetuned | None:
        """Read and encode the items once, so that a bad row or one that is too long is refused before any training.

        Raises:
            TaskMissing: the data set is not there, or lacks a split.
            InputError: a row that cannot be read, is too long, or has no label where one is needed; a head whose
                labels are not the task's; a size above the number of items; fewer than 2 items to score; a model with
                fewer positions than recipe.max_length.
        """
        if directory is None and self.only_with_tasks:
            return None
        reader = TaskItems(self.definition, self.data, self.train_on, self.train_data, directory)
        model, tokenizer = subject.pretrained().load()
        if self.recipe.max_length > model.config.max_positions:
            raise InputError(
                f"recipe.max_length must be at most {model.config.max_positions}, the model's positions, but is "
                f"{self.recipe.max_length}: lower it"
            )
        coder = _Coder(tokenizer, self.recipe)
        points = self._points(reader, coder)
        sets = self._sets(reader, coder)
        notes = [*coder.notes, *reader.notes]
        return PreparedFinetuned(
            name=self.name or reader.own.name,
            subject=subject,
            recipe=self.recipe,
            kind=reader.head.kind,
            num_labels=len(reader.head.labels),
            points=points,
            sets=sets,
            notes=notes,
            save_to=self.save_to,
        )

    def _points(self, reader: TaskItems, coder: "_Coder") -> list[Point]:
        """What is trained on: one set, or one for each size."""
        plan: list[tuple[str, TaskDefinition, int | None]] = [("", reader.head, None)]
        if self.sizes is not None:
            plan = [
                (size, (self.sized or {})[size], None) if isinstance(size, str) else (str(size), reader.head, size)
                for size in self.sizes
            ]
        encoded: dict[str, tuple[EncodedItems, str]] = {}
        points = []
        for label, definition, size in plan:
            if definition.name not in encoded:
                items = reader.training(definition)[: self.max_train]
                what = "training" if definition is reader.head else f"training ({definition.name})"
                encoded[definition.name] = (coder.encode(items, what), format_hash(definition, items))
            data, content = encoded[definition.name]
            if size is not None and size > len(data):
                raise InputError(
                    f"task.sizes asks for {size} training items, but task {definition.name} has {len(data)}: leave "
                    "that size out"
                )
            points.append(Point(label, definition, data, content, size))
        if len(points) > 1:
            area_weights([point.count for point in points])  # refuses sizes that do not rise
        return points

    def _sets(self, reader: TaskItems, coder: "_Coder") -> list[ScoredSet]:
        """The set that the epoch is chosen by first, then what is scored: the task itself, then further tasks."""
        found: list[ScoredSet] = []

        def add(name: str, definition: TaskDefinition, items: list[LabelledItem], what: str, scored: bool) -> None:
            if definition.checks is not None:
                found.append(self._checked(reader, coder, name, definition, items))
                return
            items = items[: self.max_dev]
            if scored and len(items) < 2:
                raise InputError(
                    f"task {definition.name} has {len(items)} {definition.scored} items with a label, but a score with "
                    "an interval needs at least 2"
                )
            mapped = map_labels(reader.head, definition)
            judged = EvaluatedSet(
                name=name,
                kind=definition.kind,
                metrics=definition.metrics,
                items=coder.encode(items, what),
                mapped=mapped,
                questions=tuple(item.facts.get("question", item.id) for item in items),
                content=format_hash(definition, items),
            )
            groups = reader.groups(items) if scored else []
            shown = self._broken_down(definition, items) if definition is reader.own else definition
            found.append(ScoredSet(judged, tuple(items), groups, shown, scored))

        chooser = reader.choosing()
        if reader.own.checks is not None and chooser is None:
            raise TaskMissing(
                f"task {reader.own.name} is judged on a head whose epoch is chosen by the labelled dev rows of "
                f"{reader.head.name}, which are not there: get them from {reader.head.home}",
                f"the dev rows of {reader.head.name}, from {reader.head.home}",
            )
        if chooser is not None:
            # The accuracy that a check list is held against is shown beside it.
            beside = reader.own.checks is not None
            add(reader.head.name if beside else f"{reader.head.name} dev", reader.head, chooser, "dev", scored=beside)
        own = reader.own
        add(self.name or own.name, own, reader.scored(own), own.scored, scored=True)
        for other in self.also or ():
            add(other.name, other, reader.scored(other, further=True), f"{other.name} {other.scored}", scored=True)
        names = [one.judged.name for one in found]
        if len(set(names)) < len(names):
            raise InputError(f"two of the sets to score have the same name: {', '.join(sorted(names))}")
        return found

    def _checked(
        self, reader: TaskItems, coder: "_Coder", name: str, definition: TaskDefinition, items: list[LabelledItem]
    ) -> ScoredSet:
        """A check list: its texts have no labels, its cases are judged together."""
        items = cast(list[LabelledItem], whole_cases(items, self.max_dev))
        checked = checked_list(reader.head, definition, items)
        if len(checked.cases) < 2:
            raise InputError(f"task {definition.name} has {len(checked.cases)} cases, but an interval needs at least 2")
        judged = EvaluatedSet(
            name=name,
            kind=definition.kind,
            metrics=definition.metrics,
            items=coder.encode(items, "check list"),
            mapped=(),
            questions=None,
            content=format_hash(definition, items),
        )
        return ScoredSet(judged, tuple(items), checked.groups, definition, True, checked)

    def _broken_down(self, definition: TaskDefinition, items: Sequence[LabelledItem]) -> TaskDefinition:
        """The definition with a slice for each fact of `breakdown`."""
        for fact in self.breakdown:
            if not any(fact in item.facts for item in items):
                known = sorted({name for item in items for name in item.facts})
                raise InputError(
                    f"task.breakdown has '{fact}', but the items of {definition.name} have "
                    f"{', '.join(known) or 'no facts'}"
                )
        return replace(definition, slices=(*definition.slices, *((fact,) for fact in self.breakdown)))


class _Coder:
    """Encodes items and notes how many were cut."""

    def __init__(self, tokenizer: Tokenizer, recipe: Recipe) -> None:
        self.tokenizer, self.recipe = tokenizer, recipe
        self.notes: list[str] = []

    def encode(self, items: Sequence[LabelledItem], what: str) -> EncodedItems:
        found, cut = encode(items, self.tokenizer, self.recipe.max_length, self.recipe.too_long)
        if cut:
            self.notes.append(f"{cut} of {len(items)} {what} items were cut to {self.recipe.max_length} tokens")
        return found
