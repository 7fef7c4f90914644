import pytest

from conf.errors import InputError
from pipeline.files import find_files, open_file, total_size
from pipeline.ranges import SourceFile


def test_a_name_is_relative_to_what_the_pattern_fixes(tmp_path):
    for name in ["x/1/a.txt", "x/2/a.txt"]:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    assert [file.name for file in find_files([f"{tmp_path}/x/*/a.txt"], {})] == ["1/a.txt", "2/a.txt"]
    assert [file.name for file in find_files([f"{tmp_path}/x/1/a.txt"], {})] == ["a.txt"]
    assert [file.name for file in find_files([f"{tmp_path}/**/a.txt"], {})] == ["x/1/a.txt", "x/2/a.txt"]


def test_a_file_whose_name_holds_wildcard_signs_can_be_named(tmp_path):
    (tmp_path / "a[1].txt").write_text("x")
    (tmp_path / "a1.txt").write_text("y")
    assert [file.name for file in find_files([f"{tmp_path}/a[1].txt"], {})] == ["a[1].txt"]


def test_hidden_files_are_passed_over_unless_named(tmp_path):
    (tmp_path / ".lock").write_text("x")
    with pytest.raises(InputError, match="matches no file"):
        find_files([f"{tmp_path}/*"], {})
    assert [file.name for file in find_files([f"{tmp_path}/.lock"], {})] == [".lock"]


def test_a_fingerprint_changes_with_the_content(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    before = find_files([str(path)], {})[0]
    path.write_text("two")
    after = find_files([str(path)], {})[0]
    assert (before.size, before.path) == (after.size, after.path)
    assert before.fingerprint != after.fingerprint


def test_a_url_of_the_local_file_system_is_read_like_a_path(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    (file,) = find_files([f"file://{tmp_path}/*.txt"], {})
    assert (file.name, file.size) == ("a.txt", 3)
    with open_file(file.path, {}) as handle:
        assert handle.read() == b"one"


def test_a_file_of_unknown_size_is_not_taken_for_empty():
    assert total_size([SourceFile("x", -1, "", "x"), SourceFile("y", 0, "", "y")]) == 1
