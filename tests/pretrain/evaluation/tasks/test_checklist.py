"""Check lists as tasks: a user's jsonl with its errors, our own cases, and a head trained on another task."""

import json

import numpy as np
import pytest

from conf.errors import InputError
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.sources.files import TaskFiles
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.tasks.base import TaskMissing
from pretrain.evaluation.tasks.checklist import FOLDS, TYPES, built_checklist, checklist
from pretrain.evaluation.tasks.finetuned import Finetuned
from pretrain.evaluation.tasks.sst2 import sst2

from .original_layouts import table, write

RECIPE = Recipe(epochs=1, batch_size=8, max_length=48)
MFT = {"test": "praise", "type": "MFT", "texts": ["The dog is new."], "label": "positive"}
INV = {"test": "names", "capability": "robust", "type": "INV", "texts": ["A dog.", "A key."], "group": "g", "id": "x"}
DIR = {"test": "more", "type": "DIR", "texts": ["A dog.", "A new dog."], "label": ["positive"], "direction": "up"}


def read(folder, *rows):
    return checklist().read(write(folder, **{"mine.jsonl": list(rows)}), "test")


def test_a_row_is_a_case_of_several_items(tmp_path):
    items = read(tmp_path, MFT, INV, DIR)
    assert [item.id for item in items] == ["mine-1/0", "x/0", "x/1", "mine-3/0", "mine-3/1"]
    assert items[0].facts == {
        "case": "mine-1", "test": "praise", "capability": "all", "type": "MFT", "accepted": "positive", "member": "0",
    }  # fmt: skip
    assert items[2].group == "g" and items[2].text_a == "A key." and items[2].facts["capability"] == "robust"
    assert items[4].facts["direction"] == "up" and items[4].label is None
    (pair,) = read(tmp_path / "pair", {**MFT, "texts": [["A dog?", "A key?"]], "label": ["positive", "negative"]})
    assert (pair.text_a, pair.text_b, pair.facts["accepted"]) == ("A dog?", "A key?", "positive|negative")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({**MFT, "lable": 1}, "has the field 'lable', but a case has id, test"),
        ({**MFT, "type": "mft"}, "field 'type', must be one of MFT, INV, DIR, but is 'mft'"),
        ({**MFT, "texts": []}, "field 'texts', must be a list of texts or of pairs"),
        ({**MFT, "texts": ["a", ["b", "c"]]}, "must hold texts only, or pairs of texts only"),
        ({**MFT, "texts": [" "]}, "none empty"),
        ({**MFT, "label": 1}, "field 'label', must be the name of a label or a list of names, but is 1"),
        ({key: MFT[key] for key in ("test", "type", "texts")}, "lacks the field 'label'"),
        ({**INV, "texts": ["A dog."]}, "must hold at least 2 texts, as INV compares them, but holds 1"),
        ({**INV, "label": "positive"}, "field 'label', is not for a case of type INV: leave it out"),
        ({**MFT, "direction": "up"}, "field 'direction', is not for a case of type MFT"),
        ({**DIR, "direction": "left"}, "field 'direction', must be one of up, down, but is 'left'"),
    ],
)
def test_a_row_that_is_no_case_is_an_error_at_its_line(tmp_path, row, sentence):
    with pytest.raises(InputError, match=r"mine\.jsonl', line 2, ") as error:
        read(tmp_path, MFT, row)
    assert sentence in str(error.value)


def test_the_tolerance_is_a_share():
    with pytest.raises(InputError, match=r"'tolerance' must be at least 0 and below 1, but is 1.5"):
        checklist(tolerance=1.5)


def test_our_own_cases_are_for_the_labels_of_the_heads_that_they_name():
    for head, folds in FOLDS.items():
        definition = built_checklist(head, cases_per_test=4)
        items = list(definition.made())
        assert {item.facts["type"] for item in items} == set(TYPES)
        accepted = {item.facts["accepted"] for item in items if "accepted" in item.facts}
        assert set(folds.values()) <= accepted and len(accepted) == 2


def write_sst2(folder, dev=True):
    rows = [("the dog is new", 1), ("the key is old", 0)] * 8
    for split in ("train", "dev") if dev else ("train",):
        write(folder, **{f"SST-2/{split}.tsv": table(("sentence", "label"), *rows)})
    return folder


def test_a_head_of_another_task_is_judged_by_its_cases(checkpoint, tmp_path):
    data, mine = write_sst2(tmp_path / "sets"), tmp_path / "mine"
    write(mine, **{"mine.jsonl": [MFT, {**MFT, "label": "negative"}, INV, DIR]})
    task = Finetuned(checklist(), data=str(mine), recipe=RECIPE, train_on=sst2())
    with pytest.raises(TaskMissing, match="task sst2 needs its data"):
        task.prepare(read_subject(str(checkpoint), [1, 2], []), None)
    prepared = task.prepare(read_subject(str(checkpoint), [1, 2], []), data)
    assert [one.judged.name for one in prepared.sets] == ["sst2", "my_checklist"]
    (result,) = (job.execute() for job in prepared.jobs[:1])
    assert np.array(result["outputs"]["my_checklist"]).shape == (6, 2)
    dev = np.eye(2)[[1, 0] * 8].tolist()
    first = [[0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1], [0.5, 0.5], [0.45, 0.55]]
    second = [[0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.1, 0.9], [0.5, 0.5], [0.7, 0.3]]
    outcome = prepared.collect([{"outputs": {"sst2": dev, "my_checklist": rows}} for rows in (first, second)])
    scores = {(score.task, score.metric): score for score in outcome.scores}
    assert scores["sst2", "accuracy"].value == 1.0
    assert scores["my_checklist", "pass_rate"].runs == (0.5, 0.5)
    assert scores["my_checklist/INV", "pass_rate"].runs == (0.0, 1.0)
    assert scores["my_checklist/DIR", "pass_rate"].runs == (1.0, 0.0)
    assert "task=my_checklist.1.2.tolerance(0.1)" in scores["my_checklist", "pass_rate"].signature
    failures = {row.test: row.value for row in outcome.behaviour}
    assert failures["all: praise (MFT)"] == 0.5 and failures["robust: names (INV)"] == 0.5
    rows = {row["id"]: row for row in outcome.items if row["set"] == "my_checklist"}
    assert rows["x/1"]["failed"] == {"pretrained-1": True, "pretrained-2": False}
    assert rows["x/1"]["predictions"]["pretrained-1"] == "negative" and rows["x/1"]["texts"] == ["A key."]


def test_our_own_list_needs_no_data_but_the_heads(checkpoint, tmp_path):
    data = write_sst2(tmp_path)
    subject = read_subject(str(checkpoint), [1], [1, 2])
    task = Finetuned(built_checklist(cases_per_test=5), recipe=RECIPE, train_on=sst2(), max_dev=20)
    prepared = task.prepare(subject, data)
    assert len(prepared.sets[1].items) <= 20
    with pytest.raises(InputError, match=r"checklist_sentiment builds its own items: leave out task.data"):
        Finetuned(built_checklist(), data=str(data), recipe=RECIPE, train_on=sst2()).prepare(subject, data)
    with pytest.raises(TaskMissing, match=r"chosen by the labelled dev rows of sst2"):
        task.prepare(subject, write_sst2(tmp_path / "train", dev=False))
    assert TaskFiles(data).root == data


def test_a_breakdown_gives_each_value_of_a_fact_its_accuracy(checkpoint, tmp_path):
    from pretrain.evaluation.tasks.mnli import mnli

    header = ("index", "gold_label", "sentence1", "sentence2", "pairID", "promptID", "genre")
    names = ("entailment", "neutral", "contradiction")
    rows = [(n, names[n % 3], "the dog", "the key", f"p{n}", f"r{n}", ("fiction", "travel")[n // 3]) for n in range(6)]
    for name in ("train", "dev_matched"):
        write(tmp_path, **{f"MNLI/{name}.tsv": table(header, *rows)})
    subject = read_subject(str(checkpoint), [1], [])
    prepared = Finetuned(mnli(), recipe=RECIPE, breakdown=["genre"]).prepare(subject, tmp_path)
    given = np.eye(3)[[0, 1, 2, 0, 0, 0]].tolist()
    outcome = prepared.collect([{"outputs": {"mnli_matched": given}}])
    assert {row.test: row.value for row in outcome.behaviour} == pytest.approx(
        {"genre=fiction": 1.0, "genre=travel": 1 / 3}
    )
    with pytest.raises(InputError, match=r"task.breakdown has 'kind', but the items of mnli_matched have genre"):
        Finetuned(mnli(), recipe=RECIPE, breakdown=["kind"]).prepare(subject, tmp_path)
    assert json.dumps(outcome.items)
