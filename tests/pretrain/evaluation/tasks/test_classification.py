"""The classification task: jobs, keys, and accuracy by hand from given probabilities."""

import json

import pytest

from conf.errors import InputError
from pretrain.evaluation.finetuning import Recipe
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.tasks.classification import Classification

from ..conftest import write_task

RECIPE = Recipe(epochs=1, max_length=32)


@pytest.fixture(scope="module")
def subject(checkpoint):
    return read_subject(str(checkpoint), [1, 2], [1, 2])


@pytest.fixture
def folder(tmp_path):
    return write_task(tmp_path / "task", train=16, dev=8)


def test_one_job_per_model_and_seed_with_keys_that_follow_what_matters(subject, folder):
    jobs = Classification(str(folder), recipe=RECIPE).prepare(subject, None).jobs
    assert [job.name for job in jobs] == [
        "parity/pretrained-1",
        "parity/pretrained-2",
        "parity/random-1",
        "parity/random-2",
    ]
    assert len({str(job.identity()) for job in jobs}) == 4
    slower = Classification(str(folder), recipe=Recipe(epochs=2, max_length=32)).prepare(subject, None).jobs
    fewer = Classification(str(folder), recipe=RECIPE, max_train=8).prepare(subject, None).jobs
    assert len({str(some[0].identity()) for some in (jobs, slower, fewer)}) == 3
    write_task(folder, train=16, dev=8, seed=5)
    assert Classification(str(folder), recipe=RECIPE).prepare(subject, None).jobs[0].identity() != jobs[0].identity()


def test_accuracy_by_hand_from_given_probabilities(subject, folder):
    prepared = Classification(str(folder), recipe=RECIPE).prepare(subject, None)
    labels = [example.label for example in prepared.dev]
    assert len(labels) == 8 and 0 < sum(labels) < 8
    right = [[1.0 - label, float(label)] for label in labels]
    always = [[0.0, 1.0]] * 8
    outcome = prepared.collect([{"probabilities": rows} for rows in (right, right, right, always)])
    share = sum(labels) / 8
    values = {score.model: score.value for score in outcome.scores}
    assert values == {"pretrained": 1.0, "random": pytest.approx((1.0 + share) / 2)}
    assert outcome.comparisons[0].difference == pytest.approx(1.0 - (1.0 + share) / 2)
    assert any("1 of 2 runs of the random model are no better" in note for note in outcome.notes)
    assert outcome.items[0]["predictions"]["random-2"] == 1
    assert outcome.items[0]["label_probabilities"]["pretrained-1"] == 1.0
    assert "recipe=" in outcome.scores[0].signature and "seeds=1,2" in outcome.scores[0].signature


def test_dev_rows_of_one_document_still_get_a_score_and_a_note_that_says_so(subject, folder):
    rows = [json.loads(line) for line in (folder / "dev.jsonl").read_text().splitlines()]
    text = "".join(json.dumps({**row, "group": "one"}) + "\n" for row in rows)
    (folder / "dev.jsonl").write_text(text)
    prepared = Classification(str(folder), recipe=RECIPE).prepare(subject, None)
    half = [[0.0, 1.0]] * 8
    outcome = prepared.collect([{"probabilities": half}] * 4)
    assert all(low < score.value < high for score in outcome.scores for low, high in [score.interval])
    assert any("all dev rows come from one document" in note for note in outcome.notes)


def test_cut_examples_are_counted_in_a_note_and_refused_by_default(subject, folder):
    with pytest.raises(InputError, match="max_length is 6"):
        Classification(str(folder), recipe=Recipe(max_length=6)).prepare(subject, None)
    prepared = Classification(str(folder), recipe=Recipe(max_length=6, too_long="cut")).prepare(subject, None)
    outcome = prepared.collect([{"probabilities": [[0.5, 0.5]] * 8}] * 4)
    assert any("16 of 16 training and 8 of 8 dev examples were cut to 6 tokens" in note for note in outcome.notes)


def test_more_tokens_than_the_model_has_positions_are_refused(subject, folder):
    with pytest.raises(InputError, match=r"recipe.max_length must be at most 64, the model's positions, but is 128"):
        Classification(str(folder)).prepare(subject, None)


def test_a_relative_path_begins_at_the_tasks_directory(subject, folder):
    prepared = Classification("task", recipe=RECIPE).prepare(subject, folder.parent)
    assert prepared.folder == folder.resolve()
    assert Classification("task", only_with_tasks=True).prepare(subject, None) is None


def test_limits_below_one_are_refused():
    with pytest.raises(InputError, match=r"task.max_dev must be at least 1 or null, but is 0"):
        Classification("x", max_dev=0)
