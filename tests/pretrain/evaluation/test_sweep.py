"""Sweeps: the space is what differs between jobs, the best is named by each task's first metric."""

import json

import pytest

from conf.errors import InputError
from pretrain.evaluation.sweep import best_sentences, write_sweep


def write_job(folder, number, rate, value, second=0.0):
    path = folder / str(number)
    path.mkdir(parents=True)
    scores = [
        {
            "task": "mrpc",
            "metric": metric,
            "model": model,
            "value": found,
            "interval": [0, 1],
            "n": 9,
            "runs": [],
            "failed": 0,
        }
        for metric, model, found in (
            ("accuracy", "pretrained", value),
            ("accuracy", "random", 1.0),
            ("f1", "pretrained", second),
        )
    ]
    (path / "scores.json").write_text(json.dumps({"scores": scores}))
    command = f"python -m pretrain.finetune task=mrpc task.recipe.learning_rate={rate} 'seeds=[1,2]' output=o/{number}"
    (path / "provenance.json").write_text(json.dumps({"command": command}))


def test_the_space_and_the_best_job_by_the_first_metric(tmp_path):
    for number, (rate, value, second) in enumerate([("1e-5", 0.7, 0.9), ("2e-5", 0.8, 0.2), ("5e-5", 0.6, 0.95)]):
        write_job(tmp_path, number, rate, value, second)
    (tmp_path / "3").mkdir()  # still running
    found = write_sweep(tmp_path)
    assert found == json.loads((tmp_path / "sweep.json").read_text())
    assert found["space"] == {"task.recipe.learning_rate": ["1e-5", "2e-5", "5e-5"]}
    assert [job["chosen"] for job in found["jobs"]][1] == {"task.recipe.learning_rate": "2e-5"}
    (best,) = found["best"]
    assert (best["metric"], best["value"], best["job"]) == ("accuracy", 0.8, "1")
    assert best_sentences(found) == [
        "mrpc: best accuracy 0.800 of 3 jobs so far, job 1 with task.recipe.learning_rate=2e-5"
    ]


def test_another_space_has_another_hash(tmp_path):
    for name, rates in (("a", ["1e-5", "2e-5"]), ("b", ["1e-5", "3e-5"]), ("c", ["2e-5", "1e-5"])):
        for number, rate in enumerate(rates):
            write_job(tmp_path / name, number, rate, 0.5)
    hashes = [write_sweep(tmp_path / name)["space_hash"] for name in "abc"]
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_damaged_job_is_named(tmp_path):
    write_job(tmp_path, 0, "1e-5", 0.5)
    (tmp_path / "0" / "scores.json").write_text("{")
    with pytest.raises(InputError, match=r"scores.json' of this sweep cannot be read"):
        write_sweep(tmp_path)
