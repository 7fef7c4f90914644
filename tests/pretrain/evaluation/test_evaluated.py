"""What `evaluate` and `finetune` wrote, read back: parts, sizes, runs, and files that are not whole."""

import json
from pathlib import Path

import numpy as np
import pytest

from conf.errors import InputError
from pretrain.evaluation.evaluated import Incomparable, read_evaluation

from .evaluations import finetuned, pairs, score, write_evaluation

LABELS = [1, 0, 1, 1, 0, 1]
RUNS = [[1, 0, 1, 0, 0, 1], [1, 1, 1, 1, 0, 0]]


def read(folder, model="pretrained"):
    return read_evaluation("first", Path(folder), model)


def answers(folder, task, metric="accuracy", model="pretrained"):
    found = read(folder, model)
    return found.answers(found.scores[task, metric])


def test_runs_of_a_fine_tuned_task(tmp_path):
    folder = finetuned(tmp_path / "a", LABELS, RUNS, ("accuracy", "f1"))
    found = answers(folder, "rte")
    np.testing.assert_array_equal(found.values, [[1, 1, 1, 0, 1, 1], [1, 0, 1, 1, 1, 0]])
    assert found.runs == 2 and found.groups == tuple("012345")
    found = answers(folder, "rte", "f1")
    assert found.values is None and found.predictions.shape == (2, 1, 6)
    assert read(folder).checkpoint == "runs/a"


def test_predictions_without_any_training_are_one_run(tmp_path):
    folder = finetuned(tmp_path / "a", LABELS, RUNS[:1], ("spearman",))
    file = folder / "items" / "rte.jsonl"
    file.write_text(file.read_text().replace('"pretrained-1"', '"pretrained"'))
    np.testing.assert_array_equal(answers(folder, "rte", "spearman").predictions, [[RUNS[0]]])


def test_sizes_of_a_curve_and_its_area(tmp_path):
    table = np.array([[[1, 1, 1, 1, 1, 1], LABELS], [LABELS, LABELS]])
    folder = finetuned(tmp_path / "a", LABELS, table, sizes=("4", "16"), signed={"rows": "4,16+6"})
    record = json.loads((folder / "scores.json").read_text())
    record["scores"].append(score("rte/area", "accuracy", (4 / 6 + 3) / 4, 6, (1, 2), signed={"rows": "4,16+6"}))
    (folder / "scores.json").write_text(json.dumps(record))
    np.testing.assert_array_equal(answers(folder, "rte/4").values, [[1, 0, 1, 1, 0, 1], [1] * 6])
    np.testing.assert_array_equal(answers(folder, "rte/16").values, np.ones((2, 6)))
    np.testing.assert_allclose(answers(folder, "rte/area").values[0], [1, 0.5, 1, 1, 0.5, 1])


def test_a_part_by_a_fact(tmp_path):
    facts = [{"kind": "x" if at < 4 else "y"} for at in range(6)]
    folder = finetuned(tmp_path / "a", LABELS, RUNS[:1], facts=facts)
    record = json.loads((folder / "scores.json").read_text())
    record["scores"] += [score("rte/kind=y", "accuracy", 1.0, 2, (1,)), score("rte/kind=z", "accuracy", 1.0, 2, (1,))]
    (folder / "scores.json").write_text(json.dumps(record))
    assert [row.record["id"] for row in answers(folder, "rte/kind=y").items] == ["4", "5"]
    with pytest.raises(Incomparable, match="belongs to 'kind=z'"):
        answers(folder, "rte/kind=z")


def test_parts_of_minimal_pairs_and_random_models(tmp_path):
    folder = pairs(tmp_path / "a", [1, 0, 0.5, 1], ["x", "x", "y", "y"])
    assert answers(folder, "blimp/x", "pair_accuracy").values.tolist() == [[1.0, 0.0]]
    assert answers(folder, "blimp/field=syntax", "pair_accuracy").values.tolist() == [[1.0, 0.0, 0.5, 1.0]]
    found = answers(folder, "blimp/overall", "pair_accuracy", "random")
    assert found.values.tolist() == [[1.0] * 4, [0.0] * 4]


def test_a_case_of_a_check_list_passes_as_a_whole(tmp_path):
    def row(case, member, kind, failed):
        facts = {"case": case, "member": member, "type": kind}
        runs = {"pretrained-1": failed, "8/pretrained-1": not failed}
        return {
            "set": "checks",
            "id": f"{case}/{member}",
            "group": case,
            "label": None,
            "facts": facts,
            "predictions": dict.fromkeys(runs, "positive"),
            "failed": runs,
        }

    cases = [("a", "MFT", True), ("b", "INV", False), ("c", "INV", True)]
    rows = [row(case, member, kind, failed) for case, kind, failed in cases for member in "01"]
    scores = [
        score("checks", "pass_rate", 1 / 3, 3, (1,)),
        score("checks/INV", "pass_rate", 1 / 2, 2, (1,)),
        score("checks/8", "pass_rate", 2 / 3, 3, (1,)),
        score("checks/8/MFT", "pass_rate", 1.0, 1, (1,)),
        score("checks/DIR", "pass_rate", 1.0, 1, (1,)),
    ]
    folder = write_evaluation(tmp_path / "a", scores, {"checks": rows})
    assert answers(folder, "checks", "pass_rate").values.tolist() == [[0.0, 1.0, 0.0]]
    found = answers(folder, "checks/INV", "pass_rate")
    assert found.values.tolist() == [[1.0, 0.0]] and found.groups == ("b", "c")
    assert answers(folder, "checks/8", "pass_rate").values.tolist() == [[1.0, 0.0, 1.0]]
    assert answers(folder, "checks/8/MFT", "pass_rate").values.tolist() == [[1.0]]
    with pytest.raises(Incomparable, match="no case of"):
        answers(folder, "checks/DIR", "pass_rate")


def test_choices_and_items_that_were_not_scored(tmp_path):
    rows = [
        {"id": "1", "prefix": "p", "options": ["a", "b"], "suffix": "", "label": 1, "group": "g", "facts": {}}
        | {"scores": {"pretrained": given}, "predictions": {"pretrained": 0}}
        for given in ([0.0, 1.0], [0.0, 0.0], None)
    ]
    folder = write_evaluation(tmp_path / "a", [score("piqa", "accuracy", 0.5, 3)], {"piqa": rows})
    assert answers(folder, "piqa").values.tolist() == [[1.0, 0.5, 0.0]]
    none = [{**row, "scores": {"pretrained": None}} for row in rows]
    folder = write_evaluation(tmp_path / "b", [score("piqa", "accuracy", 0.0, 3)], {"piqa": none})
    assert answers(folder, "piqa").values.tolist() == [[0.0, 0.0, 0.0]]


def test_pairs_of_templates_are_grouped_by_them(tmp_path):
    folder = pairs(tmp_path / "a", [1, 0], ["x", "x"])
    file = folder / "items" / "blimp.jsonl"
    rows = [json.loads(line) | {"template": "past"} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert answers(folder, "blimp/x", "pair_accuracy").groups == ("past", "past")


def test_items_that_give_another_score_are_not_compared(tmp_path):
    folder = finetuned(tmp_path / "a", LABELS, RUNS)
    record = json.loads((folder / "scores.json").read_text())
    record["scores"][0]["value"] += 0.001
    record["scores"].append(score("suite/mean", "accuracy", 0.5, 3))
    record["scores"].append(score("rte", "bleu", 0.5, 6))
    (folder / "scores.json").write_text(json.dumps(record))
    with pytest.raises(Incomparable, match=r"give 0\.7500 on 6 items, not 0\.7510 on 6"):
        answers(folder, "rte")
    with pytest.raises(Incomparable, match="have none for it"):
        answers(folder, "suite/mean")
    with pytest.raises(Incomparable, match="no paired test of the metric 'bleu'"):
        answers(folder, "rte", "bleu")


@pytest.mark.parametrize("damage", [{"predictions": {}}, {"predictions": 5}, {"label": "x"}, {"facts": None}])
def test_an_item_whose_answers_are_damaged_is_told_of(tmp_path, damage):
    folder = finetuned(tmp_path / "a", LABELS, RUNS)
    (file,) = (folder / "items").glob("*.jsonl")
    first, second, *others = file.read_text().splitlines()
    file.write_text("\n".join([first, json.dumps(json.loads(second) | damage), *others]) + "\n")
    with pytest.raises(Incomparable, match=r"are damaged .*: evaluate anew"):
        answers(folder, "rte")


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("scores.json", None, "has no scores.json"),
        ("scores.json", "{", "expected a JSON object, but found"),
        ("scores.json", "[]", "expected a JSON object, but found list"),
        ("scores.json", '{"format": 9}', "must hold scores of format 1, but has format 9"),
        ("scores.json", '{"format": 1, "scores": [{"model": "pretrained"}]}', "is no file of scores"),
        ("scores.json", '{"format": 1, "scores": []}', "has no score of the pretrained model"),
        ("items/rte.jsonl", '{"id": "1"}\n', "line 1: expected an item"),
        ("items/rte.jsonl", "nothing\n", "line 1: expected a JSON object"),
        ("items/rte.jsonl", b'{"id": "\xff"}\n', "line 1: expected a JSON object"),
    ],
)
def test_files_that_are_not_whole_are_one_sentence(tmp_path, file, text, sentence):
    folder = finetuned(tmp_path / "a", LABELS, RUNS)
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=sentence):
        read(folder)


def test_random_weights_that_were_not_scored_and_a_missing_configuration(tmp_path):
    folder = finetuned(tmp_path / "a", LABELS, RUNS)
    with pytest.raises(InputError, match="give the evaluation initialisations"):
        read(folder, "random")
    (folder / "config.yaml").write_text("a: [")
    assert read(folder).checkpoint == ""
    (folder / "config.yaml").unlink()
    assert read(folder).checkpoint == ""
