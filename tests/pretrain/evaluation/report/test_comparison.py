"""Reading comparison.json."""

import json

import pytest

from conf.errors import InputError
from pretrain.evaluation.comparison_table import write_comparison
from pretrain.evaluation.report.comparison import read_comparison

from .records import COMPARED, COMPARISON


def test_what_was_compared_is_read_back_as_it_was(tmp_path):
    write_comparison(tmp_path / "comparison.json", COMPARED)
    assert read_comparison(tmp_path) == COMPARED


@pytest.mark.parametrize(
    "damage",
    [
        {"rows": [{"task": "x"}]},
        {"rows": [{**COMPARISON["rows"][0], "verdict": "splendid"}]},
        {"rows": [{**COMPARISON["rows"][0], "runs": [1]}]},
        {"first": {"name": "small"}},
        {"second": "large"},
        {"margin": None},
    ],
)
def test_a_damaged_comparison_is_one_sentence(damage, tmp_path):
    (tmp_path / "comparison.json").write_text(json.dumps({**COMPARISON, **damage}))
    with pytest.raises(InputError, match=r"comparison.json' is no comparison \(field .*run python -m pretrain.compare"):
        read_comparison(tmp_path)


def test_a_row_with_a_number_that_is_none_is_named(tmp_path):
    rows = [COMPARISON["rows"][0], {**COMPARISON["rows"][1], "p": float("nan")}]
    (tmp_path / "comparison.json").write_text(json.dumps({**COMPARISON, "rows": rows}))
    with pytest.raises(InputError, match=r"'p' of stsb, spearman, .* must be a finite number, but is nan: run python"):
        read_comparison(tmp_path)


def test_a_folder_without_one_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="option 'comparison' must be the output folder"):
        read_comparison(tmp_path)
