"""CLUE's tasks: numbers as texts, character indices, rows on which annotators did not agree."""

import pytest

from conf.errors import InputError
from pretrain.evaluation.tasks.afqmc import afqmc
from pretrain.evaluation.tasks.cluewsc import cluewsc
from pretrain.evaluation.tasks.csl import csl
from pretrain.evaluation.tasks.ocnli import ocnli

from .original_layouts import named, write


def test_afqmc_and_csl(tmp_path):
    pair = {"sentence1": "怎么还款", "sentence2": "如何还款"}
    abstract = {"id": 3, "abst": "本文研究方法。", "keyword": ["方法", "研究"]}
    files = write(
        tmp_path,
        **{
            "afqmc_public/dev.json": [{**pair, "label": "1"}, {**pair, "label": "0"}],
            "afqmc_public/test.json": [{**pair, "id": 0}],
            "csl_public/dev.json": [{**abstract, "label": "1"}, {**abstract, "label": "0"}],
            "csl_public/test.json": [abstract],
        },
    )
    assert named(afqmc(), afqmc().read(files, "dev")) == ["same", "different"]
    items = csl().read(files, "dev")
    assert named(csl(), items) == ["all_true", "some_false"] and items[0].group == items[1].group
    assert (items[0].text_a, items[0].text_b) == ("方法；研究", "本文研究方法。")
    assert [definition.read(files, "test")[0].label for definition in (afqmc(), csl())] == [None, None]


@pytest.mark.parametrize(
    ("folder", "train"), [("OCNLI-1a2b/data/ocnli", "train.50k.json"), ("ocnli_public", "train.json")]
)
def test_ocnli_rows_without_a_majority_have_no_label(tmp_path, folder, train):
    row = {"sentence1": "甲", "sentence2": "乙", "genre": "lit", "level": "medium", "id": 0}
    rows = [{**row, "label": label} for label in ("contradiction", "-", "neutral")]
    files = write(tmp_path, **{f"{folder}/dev.json": rows, f"{folder}/{train}": rows[:1], f"{folder}/test.json": [row]})
    items = ocnli().read(files, "dev")
    assert named(ocnli(), items) == ["contradiction", None, "neutral"] and items[0].facts == {
        "genre": "lit",
        "level": "medium",
    }
    assert len(ocnli().read(files, "train")) == 1 and ocnli().read(files, "test")[0].label is None


def test_cluewsc_indices_count_characters(tmp_path):
    text = "小明说他累了，他走了。"
    target = {"span1_text": "小明", "span1_index": 0, "span2_text": "他", "span2_index": 7}
    rows = [{"target": target, "label": "true", "text": text, "idx": 0}]
    rows.append({**rows[0], "target": {**target, "span2_index": 2}, "label": "false"})  # off by one: the nearest
    files = write(
        tmp_path, **{"cluewsc2020_public/dev.json": rows, "cluewsc2020_public/test.json": [{**rows[0], "label": ""}]}
    )
    items = cluewsc().read(files, "dev")
    assert [(item.span_a, item.span_b) for item in items] == [((0, 2), (7, 8)), ((0, 2), (3, 4))]
    assert named(cluewsc(), items) == ["true", "false"] and cluewsc().read(files, "test")[0].label is None
    bad = write(tmp_path / "x", **{"cluewsc2020/dev.json": [{**rows[0], "target": "他"}]})
    with pytest.raises(InputError, match=r"dev.json', line 1, field 'target', must be an object of spans"):
        cluewsc().read(bad, "dev")
