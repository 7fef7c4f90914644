import gzip
import sys

import pytest

from conf.errors import InputError
from pretrain.translation.references import check_reference, count_lines
from tests.helpers.ranks import REPOSITORY
from tests.helpers.warm_python import run_module


@pytest.mark.parametrize(("content", "lines"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"\n\nb", 3), (b"a\r\nb\r\n", 2)])
def test_a_last_line_without_an_end_is_one_too(tmp_path, content, lines):
    plain, packed = tmp_path / "a", tmp_path / "b"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    assert count_lines(str(plain)) == count_lines(str(packed)) == lines


def test_references_of_another_number_of_lines_than_all_sources_are_refused(tmp_path):
    for name, count in (("x.1", 3), ("x.2", 2), ("five", 5), ("four", 4)):
        (tmp_path / name).write_text("a line\n" * count)
    check_reference(str(tmp_path / "five"), [str(tmp_path / "x.1"), str(tmp_path / "x.2")])
    check_reference(str(tmp_path / "five"), str(tmp_path / "x.*"))
    with pytest.raises(InputError, match=r"'.*four' must have as many lines as .*x\.\*, 5, but have 4"):
        check_reference(str(tmp_path / "four"), str(tmp_path / "x.*"))


def test_references_of_a_folder_and_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "text").write_text("a\n")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a\n" * 999)[:-9])
    with pytest.raises(InputError, match="is a folder: leave it away"):
        check_reference(str(tmp_path / "text"), str(tmp_path))
    for name in ("none", "cut.gz"):
        with pytest.raises(InputError, match=rf"the file '.*{name}' cannot be read"):
            check_reference(str(tmp_path / name), str(tmp_path / "text"))


@pytest.mark.parametrize("module", ["translate", "compare_translations"])
def test_the_commands_compare_the_lines_before_they_read_a_model_or_translations(tmp_path, module):
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "one").write_text("a\n")
    source, rest = (
        ("input", ["checkpoint=none"]) if module == "translate" else ("sources", ["arms={a:x}", "language=de"])
    )
    words = [f"reference={tmp_path / 'one'}", f"{source}={tmp_path / 'two'}", f"output={tmp_path / 'out'}", *rest]
    command = [sys.executable, "-m", f"pretrain.{module}", *words]
    done = run_module(command, cwd=REPOSITORY)
    assert done.returncode == 2 and "must have as many lines as" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
