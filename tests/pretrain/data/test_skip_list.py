import json
from pathlib import Path

import pytest

from conf.errors import InputError
from pretrain.data.skip_list import read_skip_list, require_known, rows_to_skip


def written(tmp_path, *lines):
    path = tmp_path / "skip.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_lines_are_read_with_their_numbers_and_blank_ones_passed_over(tmp_path):
    path = written(tmp_path, '{"data": "x", "row": 1}', "", '{"row": 2, "data": "sha256:ab", "step": 9}')
    assert [(skip.line, skip.data, skip.row) for skip in read_skip_list(path)] == [(1, "x", 1), (3, "sha256:ab", 2)]


@pytest.mark.parametrize(
    "line",
    [
        "row 3",
        "[1, 2]",
        '{"data": "x"}',
        '{"data": 1, "row": 1}',
        '{"data": "", "row": 1}',
        '{"data": "x", "row": -1}',
        '{"data": "x", "row": 1.5}',
        '{"data": "x", "row": true}',
    ],
)
def test_a_line_of_another_form_is_refused_by_file_and_number(tmp_path, line):
    path = written(tmp_path, '{"data": "x", "row": 1}', line)
    with pytest.raises(InputError) as refused:
        read_skip_list(path)
    assert str(refused.value).startswith(f"'{path}', line 2: expected an object with \"data\"")
    assert line in str(refused.value)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"skip_rows must be a file .*none.jsonl' cannot be read"):
        read_skip_list(tmp_path / "none.jsonl")


def test_rows_belong_to_the_directory_or_hash_their_line_names(tmp_path):
    lines = [{"data": str(tmp_path / "a" / ".." / "a"), "row": 1}, {"data": "sha256:a", "row": 2}]
    skips = read_skip_list(written(tmp_path, *map(json.dumps, [*lines, {"data": "b", "row": 9}])))
    assert rows_to_skip(skips, tmp_path / "a", "sha256:a", 5) == {1, 2}
    with pytest.raises(InputError, match=r"line 2.*must be below the 2 training rows"):
        rows_to_skip(skips, tmp_path / "a", "sha256:a", 2)


def test_a_line_that_no_stage_of_the_run_reads_is_refused(tmp_path):
    path = written(tmp_path, '{"data": "a", "row": 1}', '{"data": "sha256:b", "row": 1}', '{"data": "aa", "row": 1}')
    sources = [(Path("a"), "sha256:a"), (Path("b"), "sha256:b")]
    with pytest.raises(InputError, match=r"line 3.*must be one of the shards of the run, 'a', 'b'.*but is 'aa'"):
        require_known(path, sources)
    require_known(path, [*sources, (Path("aa"), "")])


def test_shards_that_moved_are_known_by_the_hash_beside_their_old_path(tmp_path):
    (tmp_path / "there").mkdir()
    gone, there = ({"data": str(tmp_path / name), "row": 1, "content_hash": "sha256:a"} for name in ("gone", "there"))
    moved, other = (read_skip_list(written(tmp_path, json.dumps(line))) for line in (gone, there))
    assert rows_to_skip(moved, tmp_path / "new", "sha256:a", 5) == {1}
    assert rows_to_skip(moved, tmp_path / "new", "sha256:b", 5) == set()
    assert rows_to_skip(other, tmp_path / "new", "sha256:a", 5) == set()
