"""Folders of labelled rows: what is read, and the sentence for each thing that is wrong."""

import json

import pytest

from conf.errors import InputError
from pretrain.evaluation.sources.files import TaskFiles
from pretrain.evaluation.tasks.definition import TextItem
from pretrain.evaluation.tasks.labelled_data import folder_definition

from ..conftest import write_task


@pytest.fixture
def folder(tmp_path):
    return write_task(tmp_path / "task", train=4, dev=2)


def read(folder, split="dev"):
    return folder_definition(folder).read(TaskFiles(folder, own=True), split)


def test_reads_rows_in_order_with_their_groups(folder):
    rows = [{"text_a": "a dog", "label": 1, "group": "d1"}, {"text_a": "a cat", "label": 0, "text_b": None}]
    (folder / "dev.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    definition = folder_definition(folder)
    assert (definition.name, definition.kind, definition.labels) == ("parity", "classification", ("no", "yes"))
    assert len(read(folder, "train")) == 4
    first, second = read(folder)
    assert first == TextItem("0", "a dog", None, 1, "d1")
    assert second.id == "1" and second.group == "row 1"  # without a group, a row is its own


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"text_a": "x", "label": 2}, r"line 1, field 'label', must be a whole number from 0 to 1 .* but is 2"),
        ({"text_a": "x", "label": -1}, "but is -1"),
        ({"text_a": "x", "label": True}, "but is True"),
        ({"text_a": "x", "label": "yes"}, "but is 'yes'"),
        ({"text_a": "x"}, "but is None"),
        ({"text_a": "", "label": 0}, "line 1, field 'text_a', must be a text, but is ''"),
        ({"label": 0}, "field 'text_a'"),
        ({"text_a": "x", "text_b": "y", "label": 0}, "has a text_b, but task.json says kind=single"),
        ([1, 2], "must be an object"),
    ],
)
def test_a_bad_row_names_file_line_and_field(folder, row, sentence):
    (folder / "dev.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=sentence) as caught:
        read(folder)
    assert "dev.jsonl" in str(caught.value)


def test_a_row_that_is_not_json_names_its_line(folder):
    with (folder / "train.jsonl").open("a") as handle:
        handle.write("{oops\n")
    with pytest.raises(InputError, match=r"train.jsonl', line 5 is not JSON"):
        read(folder, "train")


def test_a_pair_needs_its_second_text(tmp_path):
    folder = write_task(tmp_path / "task", kind="pair")
    (folder / "dev.jsonl").write_text('{"text_a": "x", "label": 0}\n')
    with pytest.raises(InputError, match="field 'text_b', must be a text, but is None"):
        read(folder)


def test_missing_and_empty_files(folder, tmp_path):
    (folder / "dev.jsonl").write_text("\n")
    with pytest.raises(InputError, match=r"dev.jsonl' has no row"):
        read(folder)
    (folder / "dev.jsonl").unlink()
    with pytest.raises(InputError, match=r"lacks its dev split: expected dev.jsonl"):
        read(folder)
    with pytest.raises(InputError, match=r"expected task.json, train.jsonl and dev.jsonl"):
        folder_definition(tmp_path / "nowhere")


def test_a_file_that_is_not_text(folder):
    (folder / "dev.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read(folder)


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("kind", "triple", "field 'kind', must be single or pair, but is 'triple'"),
        ("labels", ["only"], "field 'labels', must list at least 2"),
        ("labels", ["no", "no"], "must have different names, but are no, no"),
        ("name", "../../other", "must not be empty, begin with a dot or hold a slash"),
        ("name", "a/b", "hold a slash"),
        ("name", "a|b", r"but is .a\|b."),
        ("name", "", "must not be empty"),
        ("metric", "f1", "field 'metric', must be accuracy, but is 'f1'"),
    ],
)
def test_a_bad_description_names_its_field(folder, field, value, sentence):
    path = folder / "task.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(InputError, match=sentence):
        folder_definition(folder)


def test_a_description_that_lacks_a_field_or_is_not_json(folder):
    (folder / "task.json").write_text('{"name": "x", "kind": "single"}')
    with pytest.raises(InputError, match="lacks the field 'labels'"):
        folder_definition(folder)
    (folder / "task.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        folder_definition(folder)


def test_items_do_not_depend_on_where_the_folder_lies(tmp_path):
    folders = [write_task(tmp_path / name, train=4, dev=2) for name in ("here", "there")]
    for folder in folders:
        (folder / "dev.jsonl").write_text('{"text_a": "a dog", "label": 1}\n{"text_a": "a cat", "label": 0}\n')
    here, there = map(read, folders)
    assert here == there and len({item.group for item in here}) == 2


def test_a_byte_order_mark_is_no_part_of_the_first_row(folder):
    plain = read(folder)
    (folder / "dev.jsonl").write_bytes(b"\xef\xbb\xbf" + (folder / "dev.jsonl").read_bytes())
    assert read(folder) == plain


def test_half_a_character_is_refused_and_a_whole_one_read(folder):
    whole = '{"text_a": "a \\ud83d\\ude00", "label": 1}\n'
    (folder / "dev.jsonl").write_text(whole)
    assert read(folder)[0].text_a == "a \U0001f600"
    (folder / "dev.jsonl").write_text(whole + '{"text_a": "cut \\uD83D", "label": 1}\n')
    with pytest.raises(InputError, match=r"dev.jsonl', line 2 is not JSON: a text holds half a character, '\\ud83d'"):
        read(folder)
