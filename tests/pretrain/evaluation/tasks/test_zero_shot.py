"""Zero-shot tasks: items found, jobs that share the work, scores whatever the split into jobs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from conf.errors import InputError
from pretrain.evaluation.runs import run_all
from pretrain.evaluation.scoring import Scoring
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.tasks.base import TaskMissing
from pretrain.evaluation.tasks.copa import copa
from pretrain.evaluation.tasks.pairs_jsonl import pairs_jsonl
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.zero_shot import ZeroShot

PAIRS = pairs_jsonl("mine", good="good", bad="bad", phenomenon="kind", group="template")


@pytest.fixture(scope="module")
def data(tmp_path_factory, texts):
    """Minimal pairs of two kinds, and COPA as SuperGLUE has it, the last test question without an answer."""
    folder = tmp_path_factory.mktemp("data")
    rows = [
        {"good": good, "bad": bad, "kind": f"k{number % 2}", "template": f"t{number % 6}"}
        for number, (good, bad) in enumerate(zip(texts[0:60:2], texts[1:60:2], strict=True))
    ]
    (folder / "pairs").mkdir()
    (folder / "pairs" / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = [
        {"premise": first, "choice1": second, "choice2": third, "question": question, "idx": number, "label": 0}
        for number, (first, second, third) in enumerate(zip(texts[:9], texts[9:18], texts[18:27], strict=True))
        for question in [("cause", "effect")[number % 2]]
    ]
    (folder / "COPA").mkdir()
    for split, rows in (("val", questions), ("test", [*questions[:-1], {**questions[-1], "label": -1}])):
        (folder / "COPA" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def subject(checkpoint):
    return read_subject(str(checkpoint), [1], [1, 2])


@pytest.fixture(scope="module")
def pairs_subject(pairs_checkpoint):
    return read_subject(str(pairs_checkpoint), [1], [])


def collected(task, subject, data):
    prepared = task.prepare(subject, data)
    return prepared, prepared.collect([job.execute() for job in prepared.jobs])


@pytest.mark.parametrize("kind", ["subject", "pairs_subject"])
def test_scores_do_not_depend_on_the_split_into_jobs(kind, request, data):
    subject = request.getfixturevalue(kind)
    one, whole = collected(ZeroShot(PAIRS, data="pairs"), subject, data)
    many, parts = collected(ZeroShot(PAIRS, data="pairs", items_per_job=7), subject, data)
    per_model = len(many.jobs) // len(one.jobs)
    assert per_model == 5 and [job.name for job in many.jobs[:2]] == [
        "mine/pretrained/1-of-5",
        "mine/pretrained/2-of-5",
    ]
    assert one.jobs[0].name == "mine/pretrained"
    for first, second in zip(whole.items, parts.items, strict=True):
        for model in first["scores"]:
            np.testing.assert_allclose(first["scores"][model], second["scores"][model], rtol=1e-5, atol=1e-5)
    assert [score.value for score in whole.scores] == [score.value for score in parts.scores]
    assert sum(job.cost for job in many.jobs) == pytest.approx(sum(job.cost for job in one.jobs))


@pytest.mark.full
def test_scores_do_not_depend_on_the_number_of_processes(subject, data, tmp_path):
    prepared = ZeroShot(PAIRS, data="pairs", items_per_job=8, random_weights=False).prepare(subject, data)
    alone = run_all(prepared.jobs, tmp_path / "one", 1, "test")
    together = run_all(prepared.jobs, tmp_path / "two", 2, "test")
    for first, second in zip(alone, together, strict=True):
        np.testing.assert_allclose(first["scores"], second["scores"], rtol=1e-5, atol=1e-5)


def test_pairs_have_a_score_per_phenomenon_and_over_all(subject, data):
    prepared, outcome = collected(ZeroShot(PAIRS, data="pairs"), subject, data)
    assert [(score.task, score.model, score.n) for score in outcome.scores] == [
        ("mine/k0", "pretrained", 15),
        ("mine/k0", "random", 15),
        ("mine/k1", "pretrained", 15),
        ("mine/k1", "random", 15),
        ("mine/overall", "pretrained", 30),
        ("mine/overall", "random", 30),
    ]
    overall = outcome.scores[-2]
    scores = np.array([item["scores"]["pretrained"] for item in outcome.items])
    assert overall.value == (scores[:, 0] > scores[:, 1]).mean()
    for part in ("task=mine.1|split=test|items=", "|score=pll.within_word.whole.none.1|cut=0+0|", "|seeds=none"):
        assert part in overall.signature
    assert prepared.name == "mine"


def test_an_encoder_decoder_scores_the_same_items(pairs_subject, data):
    _, outcome = collected(ZeroShot(copa(), breakdown=["question"]), pairs_subject, data)
    assert [score.task for score in outcome.scores] == [
        "copa_zero_shot/question=cause",
        "copa_zero_shot/question=effect",
        "copa_zero_shot/overall",
    ]
    assert [(row.task, row.system, row.scored) for row in outcome.anchors] == [
        ("copa_zero_shot/overall", "human", "dev")
    ]
    assert "score=likelihood.masked.previous.option.none.1" in outcome.scores[0].signature
    assert all(
        item["label"] == 0 and item["predictions"]["pretrained"] in (0, 1) and len(item["scores"]["pretrained"]) == 2
        for item in outcome.items
    )


def test_items_without_a_label_are_left_out_and_counted(subject, data):
    assert len(ZeroShot(copa()).prepare(subject, data).items) == 9
    prepared = ZeroShot(copa(), split="test").prepare(subject, data)
    assert len(prepared.items) == 8
    assert prepared.notes == ["copa_zero_shot: 1 items without a label are left out"]
    assert len(ZeroShot(copa(), max_items=3).prepare(subject, data).items) == 3


def test_what_was_cut_or_did_not_fit_is_said_and_signed(subject, data):
    item = ZeroShot(copa()).prepare(subject, data).items[0]
    long = replace(item, id="long", prefix="the " * 70)
    hopeless = replace(item, id="hopeless", options=("the key", "key " * 80))
    task = ZeroShot(_Given(copa(), [item, long, hopeless]), scoring=Scoring(too_long="count"))
    _, outcome = collected(task, subject, data)
    cut, unscored = outcome.notes
    assert cut.startswith("copa_zero_shot: the context of 1 of 3 items was cut to the model's 64 positions, by ")
    assert unscored == "copa_zero_shot: 1 of 3 items are too long for the model's 64 positions and count as wrong"
    assert "|cut=1+1|" in outcome.scores[0].signature
    assert outcome.items[2]["scores"]["pretrained"] is None and outcome.items[2]["predictions"]["pretrained"] is None


class _Given:
    """A definition that has these items."""

    def __init__(self, definition, items):
        self.items, self.definition = items, definition

    def __getattr__(self, name):
        return getattr(self.definition, name)

    def read(self, place, split):
        return self.items


def test_jobs_have_keys_for_all_that_scores_depend_on(subject, data):
    def key(**options):
        return str(ZeroShot(PAIRS, data="pairs", **options).prepare(subject, data).jobs[0].identity())

    scorings = [{}, {"variant": "original"}, {"normalisation": "per_token"}, {"too_long": "count"}]
    keys = [key(scoring=Scoring(**options)) for options in scorings]
    keys += [key(max_items=5), key(items_per_job=6)]
    assert len(set(keys)) == len(keys)
    jobs = ZeroShot(PAIRS, data="pairs").prepare(subject, data).jobs
    assert len({str(job.identity()) for job in jobs}) == len(jobs) == 3
    assert len(ZeroShot(PAIRS, data="pairs", random_weights=False).prepare(subject, data).jobs) == 1


def test_what_cannot_be_scored_is_refused_in_one_sentence(subject, data, tmp_path):
    with pytest.raises(InputError, match="task rte is a classification: only choices and minimal pairs are scored"):
        ZeroShot(rte())
    with pytest.raises(InputError, match=r"task.split must be one of train, dev, test or null, but is 'validation'"):
        ZeroShot(copa(), split="validation")
    with pytest.raises(InputError, match=r"task.items_per_job must be at least 1, but is 0"):
        ZeroShot(copa(), items_per_job=0)
    with pytest.raises(TaskMissing, match=r"task copa needs its data: give tasks=DIR"):
        ZeroShot(copa()).prepare(subject, None)
    with pytest.raises(TaskMissing, match=r"task copa lacks its dev split: expected COPA/val.jsonl"):
        ZeroShot(copa()).prepare(subject, tmp_path)
    with pytest.raises(InputError, match=r"task.breakdown has 'genre', but the items of copa have language, question"):
        ZeroShot(copa(), breakdown=["genre"]).prepare(subject, data)
    with pytest.raises(InputError, match="a minimal pair is scored whole"):
        ZeroShot(PAIRS, data="pairs", scoring=Scoring(part="option")).prepare(subject, data)
    (tmp_path / "COPA").mkdir()
    row = {"premise": "The dog.", "choice1": "a", "choice2": "b", "question": "cause", "idx": 0}
    (tmp_path / "COPA" / "test.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match="no item of task copa, split test, has a label"):
        ZeroShot(copa(), split="test").prepare(subject, tmp_path)
