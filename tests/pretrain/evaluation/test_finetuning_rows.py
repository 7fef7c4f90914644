"""Rows of items from given outputs of runs."""

import numpy as np

from pretrain.evaluation.finetuning.encoding import EncodedItems
from pretrain.evaluation.finetuning_rows import labelled_rows
from pretrain.evaluation.tasks.definition import TextItem
from pretrain.evaluation.tasks.finetuning_job import EvaluatedSet


def judged(kind, labels, mapped=()):
    """A set of items of one token each."""
    count, numbers = len(labels), np.arange(len(labels) + 1)
    encoded = EncodedItems(
        np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int8), numbers, numbers, np.array(labels, dtype=float)
    )
    metric = "pearson" if kind == "regression" else "accuracy"
    return EvaluatedSet("mine", kind, (metric,), encoded, mapped, None, "hash")


def texts(labels):
    return [TextItem(f"i{n}", "a", None, label, "g", {"field": "x"}) for n, label in enumerate(labels)]


def test_labels_have_the_probability_of_the_right_one_and_of_a_wrong_prediction():
    # A head of three labels on a task of two: the last two are one to the task.
    given = {"pretrained-1": np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]), "random-1": np.array([[0.9, 0.1, 0.0]] * 2)}
    first, second = labelled_rows(judged("classification", [1, 1], (0, 1, 1)), ("no", "yes"), texts([1, 1]), given)
    assert {name: first[name] for name in ("set", "id", "group", "label", "facts", "label_names")} == {
        "set": "mine",
        "id": "i0",
        "group": "g",
        "label": 1,
        "facts": {"field": "x"},
        "label_names": ["no", "yes"],
    }
    assert first["item"] == {"text_a": "a", "text_b": None}
    assert first["predictions"] == {"pretrained-1": 1, "random-1": 0}
    assert first["label_probabilities"] == {"pretrained-1": 0.8, "random-1": 0.1}
    assert first["confidences_where_wrong"] == {"random-1": 0.9}
    assert second["confidences_where_wrong"] == {"pretrained-1": 0.6, "random-1": 0.9}


def test_a_regression_has_scores_alone():
    (row,) = labelled_rows(judged("regression", [2.5]), (), texts([2.5]), {"pretrained-1": np.array([[2.25]])})
    assert row["predictions"] == {"pretrained-1": 2.25}
    assert not {"label_names", "label_probabilities", "confidences_where_wrong"} & set(row)
