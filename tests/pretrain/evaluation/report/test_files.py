"""Reading what steps leave."""

import pytest

from conf.errors import InputError
from pretrain.evaluation.report.files import read_json, read_json_lines


def test_a_text_with_a_line_separator_is_one_line(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text('{"text": "a\u2028b\x85c"}\n\n{"text": "d"}\n{"text": "e', encoding="utf-8")
    assert read_json_lines(path) == [{"text": "a\u2028b\x85c"}, {"text": "d"}]


def test_a_damaged_line_and_a_list_are_refused_by_name(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}\n{\n{"b": 2}\n')
    with pytest.raises(InputError, match=r"line 2 of '.*x.json' cannot be read as JSON"):
        read_json_lines(path)
    path.write_text("[]")
    with pytest.raises(InputError, match="must hold one JSON object, but holds a list"):
        read_json(path)
