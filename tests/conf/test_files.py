import os
import subprocess
import sys

import pytest

from conf.errors import InputError
from conf.files import BLOCK, FULL_HASH_LIMIT, atomic_writer, directory_lock, fingerprint_file, prepare_output_directory


def test_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_writer(path) as handle:
        handle.write(b"new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_second_writer_of_a_directory_is_refused_with_the_holder_named(tmp_path):
    with directory_lock(tmp_path):
        code = (
            "import sys\nfrom conf.files import directory_lock\nfrom conf.errors import InputError\n"
            "try:\n    with directory_lock(sys.argv[1]): pass\nexcept InputError as e: print(e)"
        )
        done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert f"in use by another run (process {os.getpid()} on" in done.stdout
    with directory_lock(tmp_path):  # free again
        pass


def test_output_directory_under_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below" / "it"):
        with pytest.raises(InputError, match=r"cannot be made, for '.*/file' is a file: choose another"):
            prepare_output_directory(path)
    with pytest.raises(InputError, match="cannot be written to"):
        prepare_output_directory("/proc/below")


def test_fingerprint_follows_content_not_time(tmp_path):
    path = tmp_path / "file"
    path.write_text("a")
    before = fingerprint_file(path)
    os.utime(path, (1, 1))
    assert fingerprint_file(path) == before
    path.write_text("b")
    assert fingerprint_file(path) != before


def test_fingerprint_of_a_large_file_is_sampled_and_sees_its_last_byte(tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as handle:
        handle.truncate(FULL_HASH_LIMIT + BLOCK)
    os.utime(path, (1, 1))
    before = fingerprint_file(path)
    assert before.startswith("sampled:")
    with path.open("r+b") as handle:
        handle.seek(-1, os.SEEK_END)
        handle.write(b"x")
    os.utime(path, (1, 1))
    assert fingerprint_file(path) != before
