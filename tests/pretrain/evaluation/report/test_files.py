"""Reading what steps leave."""

from pathlib import Path

import pytest

from conf.errors import InputError
from pretrain.evaluation.report.files import read_json, read_json_lines, require_finite

SCORE = {"task": "rte", "metric": "f1", "model": "random", "value": 0.5, "interval": [0.4, 0.6]}


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


@pytest.mark.parametrize(
    ("damaged", "what"),
    [
        ({"scores": [SCORE, {**SCORE, "value": float("nan")}]}, "'value' of rte, f1, random in 'scores' must"),
        (
            {"scores": [{**SCORE, "interval": [0.1, float("inf")]}]},
            "'interval.1' of rte, f1, random in 'scores' must",
        ),
        (
            {"scores": [SCORE], "rows": [{"task": "x", "bins": [{"p": float("-inf")}]}]},
            "'bins.0.p' of x in 'rows'",
        ),
        ({"scores": [SCORE], "margin": float("nan")}, "'margin' must be a finite number, but is nan"),
        ({"notes": ["NaN", float("nan")]}, "'notes.1' must be"),
    ],
)
def test_a_number_that_is_none_is_refused_by_file_row_and_field(damaged, what):
    with pytest.raises(InputError) as caught:
        require_finite(Path("scores.json"), damaged, "python -m x")
    assert str(caught.value).startswith(f"'scores.json': {what}")
    assert str(caught.value).endswith("run python -m x again")
    require_finite(Path("scores.json"), {"scores": [SCORE], "notes": ["NaN"], "margin": 0.1, "of": None}, "x")
