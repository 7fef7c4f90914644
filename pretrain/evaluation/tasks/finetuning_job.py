"""One fine-tuning run as a job: one model, one seed, one training set, several sets to predict."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError
from pipeline.tokenizer import special_ids
from pretrain.evaluation.encoder_folder import holds_encoder, save_encoder
from pretrain.evaluation.finetuning.encoding import EncodedItems
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.finetuning.training import finetune
from pretrain.evaluation.finetuning.updates import Alone, MakeUpdates
from pretrain.evaluation.learning_curve import subset
from pretrain.evaluation.metrics import labelled_scores
from pretrain.evaluation.subject import ModelChoice
from pretrain.evaluation.tasks.definition import Kind, TaskDefinition

FINETUNING_VERSION = 2
OUTPUT_DIGITS = 6


@dataclass(frozen=True, eq=False)
class EvaluatedSet:
    """Items that runs predict, and how what a head says of them is judged.

    `labels` are those of the task, `mapped` gives for each label of the head the task's label it stands for (empty
    where there are none: regression, choices). `questions` are for the exact match. `content` is the items' hash.
    """

    name: str
    kind: Kind
    metrics: tuple[str, ...]
    items: EncodedItems
    mapped: tuple[int, ...]
    questions: tuple[str, ...] | None
    content: str

    def predictions(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Outputs [items, labels of the head] -> label numbers or scores [items].

        A head with more labels than the task first decides, and its decision is folded: what is decided does not
        depend on which labels are folded together.
        """
        if self.kind == "regression":
            return outputs[:, 0]
        decided = outputs.argmax(axis=1)
        if self.mapped:
            decided = np.asarray(self.mapped)[decided]
        return decided.astype(np.float64)

    def probabilities(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Outputs -> the probability of each label of the task, [items, labels], or of each option of a choice."""
        if not self.mapped:
            return outputs
        folded = np.zeros((len(outputs), max(self.mapped) + 1))
        for column, label in enumerate(self.mapped):
            folded[:, label] += outputs[:, column]
        return folded

    def score(self, outputs: NDArray[np.float64]) -> dict[str, float]:
        """The task's metrics by name."""
        return labelled_scores(self.metrics, self.items.labels.tolist(), self.predictions(outputs), self.questions)


def map_labels(head: TaskDefinition, task: TaskDefinition) -> tuple[int, ...]:
    """For each label of a head trained on one task the number of another task's label, by name or by its `folds`.

    Raises:
        InputError: the kinds differ, a label of the head has no counterpart, or one of the task's is never given.
    """
    if head.kind != task.kind:
        raise InputError(
            f"the head was trained for {head.kind} (task {head.name}), but task {task.name} is {task.kind}: choose a "
            "task of the same kind"
        )
    if head.labels == task.labels:
        return tuple(range(len(task.labels)))
    names = f"the head has the labels {', '.join(head.labels)} (task {head.name}), but task {task.name} has "
    mapped = []
    for label in head.labels:
        stands_for = label if label in task.labels else task.folds.get(label)
        if stands_for is None:
            raise InputError(f"{names}{', '.join(task.labels)}: it has no '{label}' and folds none of that name")
        mapped.append(task.labels.index(stands_for))
    unreached = [label for number, label in enumerate(task.labels) if number not in mapped]
    if unreached:
        raise InputError(f"{names}{', '.join(task.labels)}: no label of the head stands for '{unreached[0]}'")
    return tuple(mapped)


@dataclass(frozen=True, eq=False)
class FinetuningJob:
    """One run. `size` items are drawn from `train` by the seed where it is given; the first of `sets` is what the
    best epoch is chosen by. `save_to` is the folder for the tuned encoder, if it is to be kept. `ranks` make the run
    together: dropout differs with their number."""

    name: str
    model: ModelChoice
    seed: int
    kind: Kind
    num_labels: int
    train: EncodedItems
    train_content: str
    size: int | None
    sets: tuple[EvaluatedSet, ...]
    recipe: Recipe
    save_to: str | None = None
    ranks: int = 1

    @property
    def cost(self) -> float:
        """Tokens to learn from and to predict, in units of about a millisecond for a small model."""
        share = 1.0 if self.size is None else self.size / len(self.train)
        learnt = share * len(self.train.ids) * self.recipe.epochs
        return (3.0 * learnt + self.recipe.epochs * sum(len(one.items.ids) for one in self.sets)) / 30.0

    def identity(self) -> dict[str, Any]:
        """All that the predictions depend on, and whether the encoder that is to be kept is there.

        A folder at its place is not enough: a run of another recipe may have left it and been killed before its result
        was written.
        """
        trained = self._trained()
        kept = None if self.save_to is None else holds_encoder(Path(self.save_to), trained)
        return {**trained, "encoder": kept}

    def _trained(self) -> dict[str, Any]:
        """All that the tuned model and its predictions depend on."""
        return {
            "kind": f"{self.kind}.{FINETUNING_VERSION}",
            "model": self.model.fingerprint,
            "initialisation": self.model.initialisation,
            "seed": self.seed,
            "train": self.train_content,
            "sizes": [len(self.train), self.size],
            "sets": {one.name: [one.content, len(one.items), list(one.metrics), list(one.mapped)] for one in self.sets},
            "recipe": asdict(self.recipe),
            **({"ranks": self.ranks} if self.ranks > 1 else {}),
        }

    def execute(self, make_updates: MakeUpdates = Alone, keeps: bool = True) -> dict[str, Any]:
        """Run it, in this process or on several ranks, of which only one `keeps` the encoder.

        Returns:
            Outputs of every set, and of every epoch the loss and the first metric of the first set:
            `{"outputs": {set: [[...], ...]}, "losses": [...], "metrics": [...], "best_epoch": n, "steps": n}`.
        """
        encoder, tokenizer = self.model.load_encoder()
        train = self.train
        if self.size is not None:
            train = train.take(subset(len(train), self.size, self.seed))
        chooser = self.sets[0]
        result = finetune(
            encoder,
            self.kind,
            self.num_labels,
            train,
            {one.name: one.items for one in self.sets},
            lambda outputs: chooser.score(outputs)[chooser.metrics[0]],
            self.recipe,
            self.seed,
            special_ids(tokenizer)["pad"],
            make_updates,
        )
        if self.save_to is not None and keeps:
            folder = Path(self.save_to)
            folder.parent.mkdir(parents=True, exist_ok=True)
            save_encoder(result.model, self.model.origin(), folder, self._trained())
        return {
            "outputs": {name: np.round(values, OUTPUT_DIGITS).tolist() for name, values in result.outputs.items()},
            "losses": [epoch.loss for epoch in result.epochs],
            "metrics": [epoch.metric for epoch in result.epochs],
            "best_epoch": result.best,
            "steps": result.steps,
        }


def outputs_of_runs(results: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    """[runs, items, labels] of one set."""
    return np.array([result["outputs"][name] for result in results], dtype=np.float64)
