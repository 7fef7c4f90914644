"""Scores of given prediction files: PIQA, COPA and WSC counted by hand, WinoGrande's area by an outside integral."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, auc

from pretrain.evaluation.learning_curve import area_weights
from pretrain.evaluation.metrics import labelled_scores
from pretrain.evaluation.tasks.copa import copa
from pretrain.evaluation.tasks.piqa import piqa
from pretrain.evaluation.tasks.wsc import wsc

from .tasks.original_layouts import write

SIZES = [160, 640, 2558, 10234, 40398]


def accuracy_of(definition, files, predictions):
    items = definition.read(files, "dev")
    return labelled_scores(definition.metrics, [item.label for item in items], predictions)["accuracy"]


def test_piqa_by_hand(tmp_path):
    rows = [{"goal": f"goal {n}", "sol1": "do this", "sol2": "do that"} for n in range(5)]
    labels = "0\n1\n1\n0\n1\n"
    files = write(tmp_path, **{"piqa/data/valid.jsonl": rows, "piqa/data/valid-labels.lst": labels})
    # right: the first, the third and the fifth
    assert accuracy_of(piqa(), files, [0, 0, 1, 1, 1]) == pytest.approx(3 / 5)


def test_copa_by_hand(tmp_path):
    rows = [
        {"premise": f"p {n}", "choice1": "a", "choice2": "b", "question": "cause", "idx": n, "label": label}
        for n, label in enumerate([0, 1, 1, 0])
    ]
    files = write(tmp_path, **{"COPA/val.jsonl": rows})
    assert accuracy_of(copa(), files, [1, 1, 1, 1]) == pytest.approx(2 / 4)


def test_wsc_by_hand(tmp_path):
    rows = [
        {
            "text": "Mark told Pete a lie , which he believed .",
            "target": {"span1_index": 0, "span1_text": "Mark", "span2_index": 7, "span2_text": "he"},
            "idx": n,
            "label": label,
        }
        for n, label in enumerate([False, True, True])
    ]
    files = write(tmp_path, **{"WSC/val.jsonl": rows})
    assert accuracy_of(wsc(), files, [0, 0, 1]) == pytest.approx(2 / 3)


def test_winograndes_area_of_given_predictions_is_an_outside_integral():
    generator = np.random.default_rng(7)
    labels = generator.integers(1, 3, size=1267)
    accuracies = []
    for share in (0.51, 0.55, 0.61, 0.68, 0.77):
        right = generator.random(len(labels)) < share
        accuracies.append(accuracy_score(labels, np.where(right, labels, 3 - labels)))
    # The published evaluator: the trapezoid rule over log2(size), divided by the range.
    logs = np.log2(SIZES)
    expected = auc(logs, accuracies) / (logs[-1] - logs[0])
    assert area_weights(SIZES) @ np.array(accuracies) == pytest.approx(expected, abs=1e-9)
