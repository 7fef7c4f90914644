"""Reading comparison.json."""

import json

import pytest

from conf.errors import InputError
from pretrain.evaluation.report.comparison import read_comparison

from .records import COMPARISON


def test_a_comparison_is_read_with_what_a_test_could_not_say(tmp_path):
    (tmp_path / "comparison.json").write_text(json.dumps(COMPARISON))
    found = read_comparison(tmp_path)
    assert (found.first, found.second, found.margin) == ("small", "large", 0.02)
    assert [(row.task, row.verdict, row.corrected, row.detectable) for row in found.rows] == [
        ("rte", "better", 0.0008, 0.061),
        ("stsb", "equivalent", 0.8, None),
    ]
    assert [row.equivalence for row in found.rows] == [0.97, 0.001]
    rows = [{**row, "equivalence_p_corrected": 0.5} for row in COMPARISON["rows"]]
    (tmp_path / "comparison.json").write_text(json.dumps({**COMPARISON, "rows": rows}))
    assert [row.equivalence for row in read_comparison(tmp_path).rows] == [0.5, 0.5]


def test_a_folder_without_one_and_a_damaged_one_are_one_sentence(tmp_path):
    with pytest.raises(InputError, match="option 'comparison' must be the output folder"):
        read_comparison(tmp_path)
    (tmp_path / "comparison.json").write_text(json.dumps({**COMPARISON, "rows": [{"task": "x"}]}))
    with pytest.raises(InputError, match="is no comparison"):
        read_comparison(tmp_path)
