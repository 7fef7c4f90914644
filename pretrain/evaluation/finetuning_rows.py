"""From the outputs of fine-tuning runs to the rows of `items/`: each item, and what every run made of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pretrain.evaluation.tasks.finetuning_job import OUTPUT_DIGITS, EvaluatedSet
from pretrain.evaluation.tasks.task_items import LabelledItem, shown


def labelled_rows(
    judged: EvaluatedSet,
    label_names: Sequence[str],
    items: Sequence[LabelledItem],
    outputs: Mapping[str, NDArray[np.float64]],
) -> list[dict[str, Any]]:
    """A row an item: the item, what each run predicted and, of labels, how likely it found the right one; where that is
    not the one it predicted, how likely it found what it predicted.

    Args:
        judged: the set.
        label_names: of its task; empty where it has none.
        items: the set's.
        outputs: by run, [items, labels of the head].
    """
    whole = judged.kind != "regression"
    predictions = {run: judged.predictions(given) for run, given in outputs.items()}
    right: dict[str, NDArray[np.float64]] = {}
    predicted: dict[str, NDArray[np.float64]] = {}
    for run, given in outputs.items() if whole else ():
        rounded, every = judged.probabilities(given).round(OUTPUT_DIGITS), np.arange(len(items))
        right[run] = rounded[every, judged.items.labels.astype(np.int64)]
        predicted[run] = rounded[every, predictions[run].astype(np.int64)]
    rows = []
    for index, item in enumerate(items):
        row: dict[str, Any] = {"set": judged.name, "id": item.id, "group": item.group, "label": item.label}
        row |= {"facts": dict(item.facts), "item": shown(item)}
        if label_names:
            row["label_names"] = list(label_names)
        row["predictions"] = {
            run: int(given[index]) if whole else float(given[index]) for run, given in predictions.items()
        }
        if whole:
            row["label_probabilities"] = {run: float(share[index]) for run, share in right.items()}
            wrong = {
                run: float(share[index]) for run, share in predicted.items() if row["predictions"][run] != item.label
            }
            row |= {"confidences_where_wrong": wrong} if wrong else {}
        rows.append(row)
    return rows
