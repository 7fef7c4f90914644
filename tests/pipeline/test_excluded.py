import gzip

import pytest

from conf.errors import InputError
from pipeline.excluded import hashes_of_files, load, name_of, sentence_hash


def test_every_sentence_of_every_file_is_in_the_set_once_however_it_is_written(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffOne Sentence.\r\nÄrger\n\n".encode())
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(b"one  sentence.\tthird\n"))
    content = hashes_of_files([str(tmp_path / "*")])
    (tmp_path / "set").write_bytes(content)
    found = load(tmp_path / "set")
    assert found == {sentence_hash(text) for text in ("ONE sentence.", "A\u0308rger ", "Third")}
    assert sentence_hash("") not in found
    (tmp_path / "set").unlink()
    assert name_of(content) != name_of(hashes_of_files([str(tmp_path / "a.txt")]))
    assert hashes_of_files([]) == b""


def test_a_file_that_is_missing_or_no_text_is_an_error_with_its_line(tmp_path):
    with pytest.raises(InputError, match=r"check job\.exclude"):
        hashes_of_files([str(tmp_path / "no")])
    (tmp_path / "a").write_bytes(b"good\nb\xffd\n")
    with pytest.raises(InputError, match=r"job\.exclude'\) must be text in UTF-8, but line 2"):
        hashes_of_files([str(tmp_path / "a")])
    (tmp_path / "a").write_bytes(gzip.compress(b"good\n" * 99)[:20])
    with pytest.raises(InputError, match=r"job\.exclude'\) cannot be read"):
        hashes_of_files([str(tmp_path / "a")])
