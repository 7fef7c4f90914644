"""Hub data sets from saved folders: labels by the names that the set itself carries."""

import json

import datasets
import pytest

from conf.errors import InputError
from pretrain.evaluation.sources.hub import HubData
from pretrain.evaluation.tasks.copa import copa
from pretrain.evaluation.tasks.multirc import multirc
from pretrain.evaluation.tasks.rte import rte
from pretrain.evaluation.tasks.stsb import stsb
from pretrain.evaluation.tasks.winogender import winogender

ROWS = {"sentence1": ["a b", "c"], "sentence2": ["a", "d"], "idx": [0, 1]}


def table(labels, names=("not_entailment", "entailment")):
    """A table whose label numbers are the other way round than the task's."""
    features = datasets.Features(
        sentence1=datasets.Value("string"),
        sentence2=datasets.Value("string"),
        idx=datasets.Value("int32"),
        label=datasets.ClassLabel(names=list(names)),
    )
    return datasets.Dataset.from_dict({**ROWS, "label": labels}, features=features)


@pytest.fixture
def saved(tmp_path):
    splits = {"train": table([0, 1]), "validation": table([1, 0]), "test": table([-1, -1])}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    return tmp_path / "saved"


def labels(data, split):
    return [item.label for item in rte().read(data, split)]


def test_labels_follow_their_names_and_hidden_ones_are_none(saved):
    data = HubData(saved)
    assert [labels(data, split) for split in ("train", "dev", "test")] == [[1, 0], [0, 1], [None, None]]
    item = rte().read(data, "dev")[0]
    assert (item.text_a, item.text_b) == ("a b", "a")
    assert data.used[1] == f"'{saved}', validation"


def test_a_folder_of_saved_sets_by_task_and_single_splits(tmp_path):
    table([1, 0]).save_to_disk(tmp_path / "rte")
    assert labels(HubData(tmp_path), "dev") == [0, 1]


def test_parquet_keeps_label_names_and_jsonl_has_them_as_texts(tmp_path):
    table([1, 0]).to_parquet(tmp_path / "validation-00000-of-00001.parquet")
    assert labels(HubData(tmp_path), "dev") == [0, 1]
    (tmp_path / "train.jsonl").write_text(json.dumps({"sentence1": "a", "sentence2": "b", "label": "entailment"}))
    assert labels(HubData(tmp_path), "train") == [0]


def test_what_is_missing_is_one_sentence(saved, tmp_path):
    with pytest.raises(InputError, match=r"must hold the split 'validation' of a saved data set .* but does not"):
        labels(HubData(tmp_path), "dev")
    with pytest.raises(InputError, match="task winogender is not read from the hub: get it from https://"):
        winogender().read(HubData(saved), "test")
    (saved / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(InputError, match=r"must have a split 'validation', but has train"):
        labels(HubData(saved), "dev")


def test_a_set_with_other_label_names_is_refused(tmp_path):
    datasets.DatasetDict({"validation": table([1, 0], names=("yes", "no"))}).save_to_disk(tmp_path / "x")
    with pytest.raises(
        InputError, match=r"validation, row 0, field 'label', must be one of entailment, not_entailment"
    ):
        labels(HubData(tmp_path / "x"), "dev")


def test_offline_is_one_sentence(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError, match=r"the hub data set nyu-mll/glue rte cannot be read, 'validation' .* go online, or"
    ):
        rte().read(HubData(), "dev")


def test_an_index_of_several_numbers(tmp_path):
    index = {"paragraph": 5, "question": 6, "answer": 7}
    row = {"paragraph": "p", "question": "q", "answer": "a", "idx": index, "label": 1}
    (tmp_path / "validation.jsonl").write_text(json.dumps(row))
    (item,) = multirc().read(HubData(tmp_path), "dev")
    assert (item.id, item.group, item.label, item.facts["question"]) == ("5-6-7", "5", 1, "5-6")


def test_copa_s_labels_are_names_of_its_choices(tmp_path):
    features = datasets.Features(
        **{name: datasets.Value("string") for name in ("premise", "choice1", "choice2", "question")},
        idx=datasets.Value("int32"),
        label=datasets.ClassLabel(names=["choice1", "choice2"]),
    )
    row = {"premise": "P.", "choice1": "A.", "choice2": "B.", "question": "cause", "idx": 0, "label": 1}
    rows = datasets.Dataset.from_list([row], features=features)
    datasets.DatasetDict({"validation": rows}).save_to_disk(tmp_path / "copa")
    assert copa().read(HubData(tmp_path), "dev")[0].label == 1


def test_hidden_scores_of_the_hub_are_none(tmp_path):
    row = {"sentence1": "a", "sentence2": "b", "label": -1.0}
    (tmp_path / "test.jsonl").write_text(json.dumps(row))
    assert stsb().read(HubData(tmp_path), "test")[0].label is None
