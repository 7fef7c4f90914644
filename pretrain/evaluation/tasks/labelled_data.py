"""Reads the folder of a classification task: `task.json`, `train.jsonl`, `dev.jsonl`. Must not import torch.

`task.json` holds `name`, `kind` ("single" or "pair"), `labels` (names, in the order of their numbers) and `metric`;
a row holds `text_a`, for pairs `text_b`, `label` (a number) and `group` (what rows have in common, such as their
document; without it each row is its own group). A row that cannot be read is an error that names file and line.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from conf.errors import InputError
from pretrain.evaluation.sources.files import DataFile
from pretrain.evaluation.sources.jsonl import parsed
from pretrain.evaluation.sources.rows import Split
from pretrain.evaluation.tasks.definition import Item, Layout, TaskDefinition, TextItem

SPLITS: tuple[Split, ...] = ("train", "dev")


def folder_definition(folder: Path) -> TaskDefinition:
    """What the folder's `task.json` describes.

    Raises:
        InputError: there is none, or it lacks a field.
    """
    description = _read_description(folder)
    labels = tuple(str(label) for label in description["labels"])

    def read(files: Sequence[DataFile], split: Split) -> Iterator[Item]:
        del split
        return iter(_read_split(files[0].path, description["kind"], len(labels)))

    return TaskDefinition(
        name=str(description["name"]),
        version=1,
        kind="classification",
        labels=labels,
        metrics=("accuracy",),
        layouts=(Layout("a folder of labelled rows", {split: (f"{split}.jsonl",) for split in SPLITS}, read),),
        home="`python -m pipeline job=corpus_tasks output=DIR`, or rows of your own",
    )


def nothing_at(folder: Path) -> str:
    """One sentence: what a folder without a task should hold, and what makes it."""
    return (
        f"there is no task at '{folder}': expected task.json, train.jsonl and dev.jsonl there; "
        "`python -m pipeline job=corpus_tasks output=DIR` makes such folders"
    )


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / "task.json"
    if not path.is_file():
        raise InputError(nothing_at(folder))
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"'{path}' is not JSON: {error}") from error
    for field in ("name", "kind", "labels"):
        if not isinstance(description, dict) or field not in description:
            raise InputError(f"'{path}' lacks the field '{field}'")
    if description["kind"] not in ("single", "pair"):
        raise InputError(f"'{path}', field 'kind', must be single or pair, but is {description['kind']!r}")
    if not isinstance(description["labels"], list) or len(description["labels"]) < 2:
        raise InputError(f"'{path}', field 'labels', must list at least 2 labels, but is {description['labels']!r}")
    metric = description.get("metric", "accuracy")
    if metric != "accuracy":
        raise InputError(f"'{path}', field 'metric', must be accuracy, but is {metric!r}")
    return dict(description)


def _read_split(path: Path, kind: str, num_labels: int) -> list[TextItem]:
    examples: list[TextItem] = []
    with path.open(encoding="utf-8-sig") as handle:  # Windows editors begin a file with a byte order mark
        try:
            for number, line in enumerate(handle, start=1):
                if line.strip():
                    examples.append(_read_row(line, kind, num_labels, f"'{path}', line {number}", len(examples)))
        except UnicodeDecodeError as error:
            raise InputError(f"'{path}' is not UTF-8 text: {error.reason} at byte {error.start}") from error
    if not examples:
        raise InputError(f"'{path}' has no row: give it at least one")
    return examples


def _read_row(line: str, kind: str, num_labels: int, where: str, index: int) -> TextItem:
    try:
        row = parsed(line)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise InputError(f"{where} must be an object with text_a and label, but is a {type(row).__name__}")
    texts = ("text_a", "text_b") if kind == "pair" else ("text_a",)
    for field in texts:
        if not isinstance(row.get(field), str) or not row[field].strip():
            raise InputError(f"{where}, field '{field}', must be a text, but is {row.get(field)!r}")
    if kind == "single" and row.get("text_b") is not None:
        raise InputError(f"{where} has a text_b, but task.json says kind=single")
    label = row.get("label")
    if not isinstance(label, int) or isinstance(label, bool) or not 0 <= label < num_labels:
        raise InputError(
            f"{where}, field 'label', must be a whole number from 0 to {num_labels - 1} (task.json has {num_labels} "
            f"labels), but is {label!r}"
        )
    # The place of a file must not be part of an item: two evaluations of one set would not be of the same items.
    return TextItem(str(index), row["text_a"], row.get("text_b"), label, str(row.get("group", f"row {index}")))
