"""The mean over a suite's tasks by hand, its interval over seeds, and when there is none."""

import numpy as np
import pytest
from scipy import stats

from pretrain.evaluation.scores import Outcome, Runs
from pretrain.evaluation.statistics import Estimate
from pretrain.evaluation.suite_mean import SuiteMean

MEAN = SuiteMean("glue_mean", {"cola": ["cola"], "mrpc": ["mrpc"], "mnli": ["m", "mm"]}, "mean of 3 tasks")
RUNS = {
    ("cola", "matthews"): (0.5, 0.6, 0.4),
    ("mrpc", "accuracy"): (0.8, 0.8, 0.8),
    ("mrpc", "f1"): (0.9, 0.86, 0.88),
    ("m", "accuracy"): (0.7, 0.71, 0.72),
    ("mm", "accuracy"): (0.74, 0.73, 0.72),
}


def outcome(runs, seeds=(1, 2, 3), model="pretrained"):
    found = Outcome()
    for (task, metric), values in runs.items():
        signed = (Estimate(float(np.mean(values)), 0.0, 1.0), seeds, f"task={task}|model=abc|seeds=1,2,3")
        found.add(task, metric, 10, {model: signed}, {model: Runs(values, 1)})
    return found


def test_the_mean_is_over_tasks_whose_metrics_and_sets_are_averaged_first():
    found = MEAN.over([outcome(RUNS)])
    (score,) = found.scores
    per_seed = np.mean([(0.5, 0.6, 0.4), (0.85, 0.83, 0.84), (0.72, 0.72, 0.72)], axis=0)
    expected = stats.t.interval(0.95, 2, per_seed.mean(), stats.sem(per_seed))
    assert (score.task, score.metric, score.n, score.seeds) == ("glue_mean", "mean", 40, (1, 2, 3))
    assert score.value == pytest.approx(per_seed.mean()) and score.interval == pytest.approx(expected)
    assert score.runs == pytest.approx(per_seed) and score.failed == 5
    assert "task=glue_mean.1" in score.signature and "model=abc" in score.signature
    assert found.notes == ["glue_mean: mean of 3 tasks; its interval is over seeds, on the same items"]


def test_a_task_that_lacks_is_named_and_there_is_no_mean():
    without = {key: values for key, values in RUNS.items() if key[0] not in ("mm", "cola")}
    found = MEAN.over([outcome(without)])
    assert found.scores == []
    assert found.notes == [
        "glue_mean of the pretrained model is not given, as 2 of its 3 tasks lack: cola, mnli",
    ]


def test_one_seed_has_no_interval_and_other_seeds_no_mean():
    found = MEAN.over([outcome({key: values[:1] for key, values in RUNS.items()}, (1,))])
    assert found.scores == [] and "is 0.6900 with one seed, which has no interval" in found.notes[0]
    mixed = [outcome(dict(list(RUNS.items())[:1]), (1, 2, 4)), outcome(dict(list(RUNS.items())[1:]))]
    assert MEAN.over(mixed).notes == [
        "glue_mean of the pretrained model is not given, as its tasks have different seeds"
    ]


def test_both_models_are_compared_and_the_signature_follows_the_scores():
    found = MEAN.over([outcome(RUNS), outcome(RUNS, model="random")])
    assert [score.model for score in found.scores] == ["pretrained", "random"] and found.comparisons[
        0
    ].difference == 0.0
    other = outcome(RUNS)
    changed = Outcome(
        scores=[type(score)(**{**vars(score), "signature": score.signature + "2"}) for score in other.scores]
    )
    assert MEAN.over([changed]).scores[0].signature != found.scores[0].signature
