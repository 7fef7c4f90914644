"""Finding files in folders and archives, and reading their lines."""

import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.evaluation.sources.files import DataFile, TaskFiles


def make_zip(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def make_tar(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def lines_of(path):
    return list(DataFile(path, None, ()).lines())


def test_a_set_is_found_unpacked_in_an_archive_and_in_folders_named_as_archives(tmp_path):
    (tmp_path / "a" / "RTE").mkdir(parents=True)
    (tmp_path / "a" / "RTE" / "dev.tsv").write_text("folder")
    make_zip(tmp_path / "b" / "RTE.zip", {"RTE/dev.tsv": "zip with its folder"})
    make_zip(tmp_path / "c" / "rte.zip", {"dev.tsv": "zip without"})
    make_zip(tmp_path / "d" / "all.zip", {"deep/RTE.zip/RTE/dev.tsv": "a folder named as a zip"})
    (tmp_path / "e").mkdir()
    make_tar(tmp_path / "e" / "RTE.tar.gz", {"RTE/dev.tsv": b"tar"})
    found = TaskFiles(tmp_path).find("RTE/dev.tsv")
    assert sorted(file.read().decode() for file in found) == sorted(
        ["folder", "zip with its folder", "zip without", "a folder named as a zip", "tar"]
    )
    assert all(file.place[-2:] == ("rte", "dev.tsv") for file in found)
    assert len(found[0].place) <= len(found[-1].place)  # the nearest first


def test_the_root_may_be_the_archive_and_its_name_counts(tmp_path):
    path = make_zip(tmp_path / "RTE.zip", {"dev.tsv": "x", "sub/train.tsv": "y"})
    files = TaskFiles(path)
    assert [file.name for file in files.find("RTE/dev.tsv")] == [f"{path}/dev.tsv"]
    assert files.find("sub/*.tsv")[0].read() == b"y"
    assert files.find("*/dev.tsv") and not files.find("QNLI/dev.tsv")


def test_what_is_no_data_is_not_found(tmp_path):
    make_zip(
        tmp_path / "x.zip", {"__MACOSX/._a.tsv": "", "a/.DS_Store": "", "a/._b.tsv": "", "a/b.tsv": "", "a/c/": ""}
    )
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "b.tsv").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [file.name for file in TaskFiles(tmp_path).find("*.tsv")] == [f"{tmp_path}/x.zip/a/b.tsv"]


def test_a_place_that_is_none_and_a_damaged_archive(tmp_path):
    with pytest.raises(InputError, match=r"there is no folder or archive .*nowhere"):
        TaskFiles(tmp_path / "nowhere")
    (tmp_path / "a.tsv").write_text("")
    with pytest.raises(InputError, match="must be a folder, a zip or a tar archive"):
        TaskFiles(tmp_path / "a.tsv")
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04 cut")
    files = TaskFiles(tmp_path)
    assert len(files.notes) == 1 and "b.zip' is left out, it cannot be read as an archive" in files.notes[0]


def test_a_member_damaged_in_the_middle_is_named(tmp_path):
    path = make_zip(tmp_path / "a.zip", {"a.txt": "text " * 100})
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF  # a byte of the stored text: its checksum no longer agrees
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a.zip/a.txt' cannot be read, the archive is damaged"):
        TaskFiles(tmp_path).find("a.txt")[0].read()


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",))), min_size=1))
def test_only_a_line_feed_ends_a_line(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    path.write_bytes("\n".join(texts).encode())
    expected = [text.removesuffix("\r") for text in texts]
    expected = expected[:-1] if not texts[-1] else expected
    if expected:
        expected[0] = texts[0].removeprefix("\ufeff").removesuffix("\r")
    assert [text for _, text in lines_of(path)] == expected


def test_a_byte_order_mark_windows_ends_and_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\x0b\xe2\x80\xa8still two\r\n\nfour")
    assert lines_of(path) == [(1, "one"), (2, "two\x0b\u2028still two"), (3, ""), (4, "four")]
    path.write_bytes(b"fine\nbad \xff\n")
    with pytest.raises(InputError, match=r"a.txt', line 2, must be UTF-8 text, but has invalid start byte at byte 4"):
        lines_of(path)
