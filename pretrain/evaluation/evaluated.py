"""Reads back what `evaluate` and `finetune` wrote: scores with their signatures, and what each item was given.

Must not import torch: results are compared wherever the files are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import ArrayLike, NDArray
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from conf.errors import InputError
from conf.provenance import CONFIG
from pretrain.evaluation.learning_curve import area_weights
from pretrain.evaluation.metric_intervals import Matrix, weighted_metric
from pretrain.evaluation.metrics import ACCURACY, EXACT_MATCH, METRICS, PAIR_ACCURACY, choice_correct, pair_correct
from pretrain.evaluation.scores import FORMAT, ModelName

SCORES, ITEMS = "scores.json", "items"
AREA, OVERALL = "area", "overall"
# What of an item's row a model gave; the rest is the item.
GIVEN = ("predictions", "scores", "label_probabilities", "confidences_where_wrong", "failed")
PASS_RATE = "pass_rate"


class Incomparable(Exception):
    """A score cannot be compared; the message is the reason, as the end of a sentence."""


@dataclass(frozen=True)
class ReadScore:
    """A score as it stands in the file, with the parts of its signature by name."""

    task: str
    metric: str
    value: float
    n: int
    seeds: tuple[int, ...]
    failed: int
    signature: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class ItemRow:
    """An item: what it is, as text to compare, and its whole row."""

    identity: str
    record: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Answers:
    """What the runs of a model gave to the items of one score.

    `values` [runs, items] are there where the metric is their mean; else `predictions` [runs, sizes, items] with
    `labels` [items], and `questions` for the exact match. `size_weights` [sizes] are those of a learning curve, [1]
    where there is none.
    """

    items: tuple[ItemRow, ...]
    groups: tuple[str, ...]
    metric: str
    values: NDArray[np.float64] | None
    predictions: NDArray[np.float64]
    labels: NDArray[np.float64]
    questions: tuple[str, ...]
    size_weights: NDArray[np.float64]

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.predictions if self.values is None else self.values)

    def statistic(self, weights: Matrix) -> Matrix:
        """The metric of every run under weights of the items [R, items] -> [runs, R]."""
        if self.values is not None:
            return self.values @ weights.T / weights.sum(axis=1)
        return np.stack([self._of_run(run, self.labels, self.questions, weights) for run in self.predictions])

    def with_other(self, other: "Answers", weights: Matrix) -> Matrix:
        """The metric of the first run here and of the first of `other` taken as one, weights [R, 2 * items] -> [R]."""
        run = np.concatenate([self.predictions[0], other.predictions[0]], axis=1)
        questions = (*(f"{name}/1" for name in self.questions), *(f"{name}/2" for name in other.questions))
        return self._of_run(run, np.concatenate([self.labels, other.labels]), questions, weights)

    def _of_run(
        self, run: NDArray[np.float64], labels: NDArray[np.float64], questions: tuple[str, ...], weights: Matrix
    ) -> Matrix:
        sizes = [
            share * weighted_metric(self.metric, labels, size, weights, questions)
            for share, size in zip(self.size_weights, run, strict=True)
        ]
        return np.sum(sizes, axis=0)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores of one model in an output folder, by task and metric, and the items by task."""

    path: Path
    model: ModelName
    checkpoint: str
    scores: Mapping[tuple[str, str], ReadScore]
    items: Mapping[str, tuple[ItemRow, ...]]

    def answers(self, score: ReadScore) -> Answers:
        """What the items of a score were given.

        Raises:
            Incomparable: the rows of items do not hold it, are damaged, or give another score.
        """
        rows, part = self._rows(score.task)
        if not rows:
            raise Incomparable(f"the items of '{self.path}' have none for it")
        try:
            found = self._found(score, rows, part)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise Incomparable(f"the items of '{self.path}' are damaged ({error!r}): evaluate anew") from error
        again = float(found.statistic(np.ones((1, len(found.items)))).mean()) if found.items else float("nan")
        if len(found.items) != score.n or not abs(again - score.value) < 1e-6:
            raise Incomparable(
                f"the items of '{self.path}' give {again:.4f} on {len(found.items)} items, not {score.value:.4f} on "
                f"{score.n}"
            )
        return found

    def _found(self, score: ReadScore, rows: tuple[ItemRow, ...], part: str) -> Answers:
        if score.metric == PASS_RATE:
            return self._checked(rows, part)
        return self._labelled(score, rows, part) if "set" in rows[0].record else self._zero_shot(score, rows, part)

    def _mine(self, runs: Iterable[str]) -> list[str]:
        """The runs of this model: `pretrained`, `pretrained-1`, `16/pretrained-1`."""
        names = [(run, run.rpartition("/")[2]) for run in runs]
        return [run for run, name in names if name == self.model or name.startswith(f"{self.model}-")]

    def _rows(self, task: str) -> tuple[tuple[ItemRow, ...], str]:
        for place in (len(task), *(at for at in range(len(task) - 1, 0, -1) if task[at] == "/")):
            if task[:place] in self.items:
                return self.items[task[:place]], task[place + 1 :]
        return (), ""

    def _labelled(self, score: ReadScore, rows: tuple[ItemRow, ...], part: str) -> Answers:
        """Of tasks with labels: predictions by size and run, `16/pretrained-1` or just `pretrained-1`."""
        if score.metric not in (*METRICS, EXACT_MATCH):
            raise Incomparable(f"there is no paired test of the metric '{score.metric}'")
        keys = self._mine(rows[0].record["predictions"])
        sizes = list(dict.fromkeys(key.rpartition("/")[0] for key in keys))
        weights = np.ones(1)
        if part == AREA and len(sizes) > 1:
            counts = score.signature.get("rows", "").partition("+")[0].split(",")
            weights = area_weights([int(count) for count in counts])
        elif part in sizes:
            sizes = [part]
        elif "" in sizes:
            sizes, rows = [""], tuple(row for row in rows if _has_fact(row, part))
        else:
            raise Incomparable(f"'{self.path}' has no size or part '{part}'")
        if not rows:
            raise Incomparable(f"no item of '{self.path}' belongs to '{part}'")
        by_size = [[key for key in keys if key.rpartition("/")[0] == size] for size in sizes]
        predictions = np.array(
            [[[row.record["predictions"][key] for row in rows] for key in run] for run in zip(*by_size, strict=True)],
            dtype=np.float64,
        )
        labels = np.array([row.record["label"] for row in rows], dtype=np.float64)
        values = None
        if score.metric == ACCURACY:
            values = np.einsum("k,rkn->rn", weights, (predictions == labels).astype(np.float64))
        questions = tuple(str(row.record["facts"].get("question", row.record["id"])) for row in rows)
        return Answers(rows, _groups(rows), score.metric, values, predictions, labels, questions, weights)

    def _checked(self, rows: tuple[ItemRow, ...], part: str) -> Answers:
        """Of a check list: a case of several texts passes as a whole, by size and run as predictions are."""
        cases = tuple(row for row in rows if row.record.get("facts", {}).get("member") == "0")
        keys = self._mine(cases[0].record.get("failed", {})) if cases else []
        sizes = {key.rpartition("/")[0] for key in keys}
        size, _, kind = part.partition("/") if part.partition("/")[0] in sizes else ("", "", part)
        cases = tuple(row for row in cases if not kind or row.record["facts"].get("type") == kind)
        mine = [key for key in keys if key.rpartition("/")[0] == size]
        if not cases or not mine:
            raise Incomparable(f"no case of '{self.path}' belongs to '{part}'")
        return self._of_values(PASS_RATE, cases, [[not row.record["failed"][key] for row in cases] for key in mine])

    def _zero_shot(self, score: ReadScore, rows: tuple[ItemRow, ...], part: str) -> Answers:
        """Of choices and minimal pairs: scores of the options by model, `pretrained` or `random-1`."""
        if score.metric not in (ACCURACY, PAIR_ACCURACY):
            raise Incomparable(f"there is no paired test of the metric '{score.metric}'")
        if part not in ("", OVERALL):
            rows = tuple(row for row in rows if row.record.get("phenomenon") == part or _has_fact(row, part))
        if not rows:
            raise Incomparable(f"no item of '{self.path}' belongs to '{part}'")
        values = [_right(rows, key) for key in self._mine(rows[0].record["scores"])]
        return self._of_values(score.metric, rows, values)

    @staticmethod
    def _of_values(metric: str, rows: tuple[ItemRow, ...], values: ArrayLike) -> Answers:
        nothing = np.empty((0, 1, len(rows)))
        table = np.asarray(values, dtype=np.float64)
        return Answers(rows, _groups(rows), metric, table, nothing, np.empty(0), (), np.ones(1))


def read_evaluation(option: str, path: Path, model: ModelName) -> Evaluation:
    """Read a folder that `evaluate` or `finetune` wrote.

    Args:
        option: what names it, for the error sentence.
        path: the folder.
        model: whose scores, those of the checkpoint (`pretrained`) or of random weights.

    Raises:
        InputError: it is no such folder, a file in it cannot be read, or it has no score of the model.
    """
    if not (path / SCORES).is_file():
        raise InputError(
            f"option '{option}' must be a folder that `python -m pretrain.evaluate` or `finetune` wrote, but '{path}' "
            f"has no {SCORES}"
        )
    record = _json(path / SCORES, (path / SCORES).read_bytes(), "")
    if record.get("format") != FORMAT or not isinstance(record.get("scores"), list):
        raise InputError(
            f"option '{option}': '{path / SCORES}' must hold scores of format {FORMAT}, but has format "
            f"{record.get('format')!r}: evaluate anew"
        )
    try:
        scores = {
            (one["task"], one["metric"]): ReadScore(
                one["task"],
                one["metric"],
                float(one["value"]),
                int(one["n"]),
                tuple(one["seeds"]),
                int(one.get("failed", 0)),
                dict(part.partition("=")[::2] for part in one["signature"].split("|")),
            )
            for one in record["scores"]
            if one["model"] == model
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"'{path / SCORES}' is no file of scores ({error!r}): evaluate anew") from error
    if not scores:
        random = " (give the evaluation initialisations)" if model == "random" else ""
        raise InputError(f"option '{option}': '{path}' has no score of the {model} model{random}")
    items: dict[str, list[ItemRow]] = {}
    for file in sorted((path / ITEMS).glob("*.jsonl")):
        for row in _item_rows(file):
            items.setdefault(str(row.record.get("set", file.stem)), []).append(row)
    return Evaluation(path, model, _checkpoint(path), scores, {name: tuple(rows) for name, rows in items.items()})


def _item_rows(file: Path) -> Iterator[ItemRow]:
    with file.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            record = _json(file, line, f", line {number}")
            if "id" not in record or "group" not in record or not ("predictions" in record or "scores" in record):
                raise InputError(f"'{file}', line {number}: expected an item with what models gave it: evaluate anew")
            item = {name: value for name, value in record.items() if name not in GIVEN}
            yield ItemRow(json.dumps(item, sort_keys=True, ensure_ascii=False), record)


def _json(file: Path, text: bytes, place: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except ValueError as error:
        raise InputError(f"'{file}'{place}: expected a JSON object, but found {error}: evaluate anew") from error
    if not isinstance(record, dict):
        raise InputError(f"'{file}'{place}: expected a JSON object, but found {type(record).__name__}: evaluate anew")
    return record


def _checkpoint(path: Path) -> str:
    """What was evaluated, as its command named it; nothing where that is not known."""
    try:
        return str(OmegaConf.select(OmegaConf.load(path / CONFIG), "checkpoint", default=""))
    except (OSError, ValueError, AttributeError, yaml.YAMLError, OmegaConfBaseException):
        return ""


def _groups(rows: tuple[ItemRow, ...]) -> tuple[str, ...]:
    """What each item has in common with others: its template, where it was built from one, else its group."""
    return tuple(str(row.record.get("template", row.record["group"])) for row in rows)


def _has_fact(row: ItemRow, part: str) -> bool:
    """Whether an item belongs to a part `fact=value`; every item belongs to the part that has no name."""
    name, _, value = part.partition("=")
    return not part or (bool(name) and row.record.get("facts", {}).get(name) == value)


def _right(rows: tuple[ItemRow, ...], key: str) -> NDArray[np.float64]:
    """[items] in [0, 1], as `zero_shot_scores.item_values`; an item without scores counts as wrong."""
    given = [row.record["scores"][key] for row in rows]
    won = np.zeros(len(rows))
    there = np.array([one is not None for one in given])
    kept = [one for one in given if one is not None]
    if not kept:
        return won
    if "good" in rows[0].record:
        won[there] = pair_correct([one[0] for one in kept], [one[1] for one in kept])
    else:
        labels = [row.record["label"] for row, one in zip(rows, given, strict=True) if one is not None]
        won[there] = choice_correct(kept, labels)
    return won
