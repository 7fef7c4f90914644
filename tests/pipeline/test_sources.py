import bz2
import gzip
import json
import lzma
import os
import tracemalloc
from pathlib import Path

import fsspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.records import Document, ReadFailure
from pipeline.sources import TextCorpus

COMPRESSORS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def write(directory, name, content):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def read(corpus):
    return [record for range_ in corpus.plan().ranges for record in corpus.read(range_)]


def texts(corpus):
    records = read(corpus)
    assert all(isinstance(record, Document) for record in records), records
    return [record.text for record in records]


def reasons(corpus):
    return [record.reason for record in read(corpus) if isinstance(record, ReadFailure)]


records = st.lists(st.text(alphabet="ab \u2028é\U0001f600\r", max_size=12), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(records, st.integers(1, 30), st.integers(1, 9), st.sampled_from(["line", "blank_line", "file"]), st.booleans())
def test_text_read_in_ranges_is_the_text_read_whole(tmp_path_factory, lines, range_bytes, block_bytes, document, crlf):
    directory = tmp_path_factory.mktemp("text")
    content = ("\r\n" if crlf else "\n").join(lines) + "x"
    paths = [write(directory, "a.txt", content), write(directory, "b.txt", content[::-1])]
    whole = read(TextCorpus(paths, document=document))
    assert read(TextCorpus(paths, document=document, range_bytes=range_bytes, block_bytes=block_bytes)) == whole


@settings(max_examples=60, deadline=None)
@given(records, st.integers(1, 60), st.integers(1, 9), st.booleans())
def test_jsonl_read_in_ranges_gives_each_object_once_and_in_order(
    tmp_path_factory, lines, range_bytes, block_bytes, ascii_
):
    directory = tmp_path_factory.mktemp("jsonl")
    content = "\n".join(json.dumps({"text": text}, ensure_ascii=ascii_) for text in lines)
    corpus = TextCorpus([write(directory, "a.jsonl", content)], range_bytes=range_bytes, block_bytes=block_bytes)
    assert texts(corpus) == lines


def test_line_separators_of_unicode_are_not_line_ends(tmp_path):
    content = "one\u2028still one\ntwo\u0085still\x0ctwo\r\nthree\x1cthree\n"
    assert texts(TextCorpus([write(tmp_path, "a.txt", content)])) == [
        "one\u2028still one",
        "two\u0085still\x0ctwo",
        "three\x1cthree",
    ]


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compression_is_told_by_content_and_concatenated_members_are_all_read(tmp_path, kind):
    compress = COMPRESSORS[kind]
    path = write(tmp_path, "misnamed.txt", compress(b"one\ntw") + compress(b"o\nthree"))
    assert texts(TextCorpus([path])) == ["one", "two", "three"]


def test_a_plain_file_named_gz_is_read_as_it_is(tmp_path):
    assert texts(TextCorpus([write(tmp_path, "a.jsonl.gz", '{"text": "plain"}\n')])) == ["plain"]


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_a_truncated_file_is_a_counted_failure_after_its_readable_records(tmp_path, kind):
    lines = [os.urandom(40).hex() for _ in range(2000)]
    content = COMPRESSORS[kind]("\n".join(lines).encode())
    found = read(TextCorpus([write(tmp_path, "a", content[: len(content) - 20])], block_bytes=4096))
    assert isinstance(found[-1], ReadFailure)
    assert found[-1].reason == "damaged_file"
    assert "a is damaged" in found[-1].detail
    read_texts = [record.text for record in found[:-1]]
    assert read_texts == lines[: len(read_texts)]


def test_a_damaged_middle_is_a_counted_failure(tmp_path):
    content = bytearray(gzip.compress(b"\n".join(os.urandom(20).hex().encode() for _ in range(500))))
    content[len(content) // 2] ^= 0xFF
    assert reasons(TextCorpus([write(tmp_path, "a.gz", bytes(content))])) == ["damaged_file"]


def test_each_broken_line_of_jsonl_is_counted_with_its_byte_and_the_rest_is_read(tmp_path):
    lines = [
        '{"id": "first", "text": "a"}',
        "",
        '{"text": "cut',
        '["a list"]',
        '{"other": "key"}',
        '{"text": null}',
        '{"text": 3}',
        "[" * 100_000,
        '{"text": "\\ud800"}',
        '{"text": "last"}',
    ]
    path = write(tmp_path, "a.jsonl", "\n".join(lines))
    found = read(TextCorpus([path]))
    assert [getattr(record, "reason", None) for record in found] == [
        None,
        "not_json",
        "not_an_object",
        "no_text",
        "text_not_string",
        "text_not_string",
        "not_json",
        "undecodable",
        None,
    ]
    offsets = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines)) if number != 1]
    assert [record.offset for record in found] == offsets
    assert [found[0].id, found[-1].id] == ["first", f"a.jsonl:{offsets[-1]}"]
    assert f"a.jsonl at byte {offsets[3]}: expected the key 'text', found the keys other" in found[3].detail


def test_bad_bytes_are_rejected_replaced_or_fatal_as_asked(tmp_path):
    path = write(tmp_path, "a.txt", "Straße\n".encode() + "Straße\n".encode("latin-1") + b"end\n")
    assert reasons(TextCorpus([path])) == ["undecodable"]
    assert texts(TextCorpus([path], bad_bytes="replace")) == ["Straße", "Stra\ufffde", "end"]
    with pytest.raises(InputError, match=r"a\.txt at byte 8: expected utf-8"):
        read(TextCorpus([path], bad_bytes="fail"))
    surrogate = write(tmp_path, "b.jsonl", '{"text": "a\\ud800b \\ud83d\\ude00"}')
    assert texts(TextCorpus([surrogate], bad_bytes="replace")) == ["a\ufffdb \U0001f600"]


def test_another_encoding_is_read_when_named(tmp_path):
    path = write(tmp_path, "a.txt", "Größe\n".encode("latin-1") * 3)
    assert texts(TextCorpus([path], encoding="latin-1", range_bytes=7)) == ["Größe"] * 3
    path = write(tmp_path, "b.txt", "汉字\n龍\n".encode("gb18030"))
    assert texts(TextCorpus([path], encoding="gb18030", range_bytes=3)) == ["汉字", "龍"]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    assert texts(TextCorpus([write(tmp_path, "a.txt", b"\xef\xbb\xbfone\ntwo\n")])) == ["one", "two"]
    assert texts(TextCorpus([write(tmp_path, "a.jsonl", b'\xef\xbb\xbf{"text": "one"}\n')])) == ["one"]


def test_a_record_beyond_the_limit_is_counted_and_memory_is_bounded_by_it(tmp_path):
    path = write(tmp_path, "a.txt", "x" * 100 + "\nshort\n")
    assert reasons(TextCorpus([path], max_record_bytes=10)) == ["record_too_long"]
    assert reasons(TextCorpus([path], max_record_bytes=10, document="file")) == ["record_too_long"]


def test_wildcards_are_sorted_and_a_file_named_twice_is_read_once(tmp_path):
    for name in ["b.txt", "a.txt", "deep/c.txt", ".hidden.txt"]:
        write(tmp_path, name, name + "\n")
    patterns = [f"{tmp_path}/b.txt", f"{tmp_path}/**/*.txt"]
    plan = TextCorpus(patterns).plan()
    assert [file.name for file in plan.files] == ["b.txt", "a.txt", "deep/c.txt"]


def test_paths_start_at_the_working_directory_and_names_are_the_same_wherever_the_corpus_lies(tmp_path, monkeypatch):
    for place in ["here", "there"]:
        write(tmp_path, f"{place}/data/a.txt", "one\ntwo\n")
    monkeypatch.chdir(tmp_path / "here")
    relative = TextCorpus(["data/*.txt"])
    absolute = TextCorpus([str(tmp_path / "there/data/*.txt")])
    assert [range_.id for range_ in relative.plan().ranges] == [range_.id for range_ in absolute.plan().ranges]
    assert read(relative) == read(absolute)
    assert Path(relative.plan().files[0].path).is_absolute()


def test_files_come_from_any_store_that_fsspec_knows():
    system = fsspec.filesystem("memory")
    system.pipe("/corpus/b.txt.gz", gzip.compress(b"three\n"))
    system.pipe("/corpus/a.txt", b"one\ntwo\n")
    corpus = TextCorpus(["memory://corpus/*.txt*"], range_bytes=4)
    assert texts(corpus) == ["one", "two", "three"]
    assert [file.name for file in corpus.plan().files] == ["a.txt", "b.txt.gz"]
    with pytest.raises(InputError, match="matches no file"):
        TextCorpus(["memory://corpus/*.csv"]).plan()
    with pytest.raises(InputError, match="cannot be read"):
        TextCorpus(["nosuchstore://x/*.txt"]).plan()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("Größe".encode("utf-16"), "is UTF-16"),
        (b"PAR1" + bytes(50), "a Parquet file"),
        (bytes(range(256)) * 4, "not text in utf-8"),
        (gzip.compress(bytes(range(256)) * 4), "not text in utf-8"),
    ],
)
def test_a_file_that_is_not_text_is_refused_by_name(tmp_path, content, said):
    path = write(tmp_path, "picture.bin", content)
    with pytest.raises(InputError, match=said) as caught:
        TextCorpus([path]).plan()
    assert "picture.bin" in str(caught.value)


def test_a_stray_nul_in_a_text_is_left_to_cleaning(tmp_path):
    assert texts(TextCorpus([write(tmp_path, "a.txt", b"abc\x00def\n\nplain\n")])) == ["abc\x00def", "plain"]


@pytest.mark.parametrize(
    ("patterns", "said"),
    [([], "at least one file"), (["missing*.txt"], "'missing.*' matches no file"), (["."], "is a directory")],
)
def test_paths_that_lead_to_no_file_are_bad_input(patterns, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        TextCorpus(patterns).plan()


def test_a_corpus_of_empty_files_is_bad_input(tmp_path):
    with pytest.raises(InputError, match=r"the corpus is empty.*2 file"):
        TextCorpus([write(tmp_path, "a.txt", ""), write(tmp_path, "b.txt", "")]).plan()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"encoding": "utf-16"}, "one byte LF"),
        ({"encoding": "nonsense"}, "nonsense"),
        ({"range_bytes": 0}, "range_bytes"),
    ],
)
def test_options_that_cannot_be_are_bad_input(options, said):
    with pytest.raises(InputError, match=said):
        TextCorpus(["a.txt"], **options)


def test_a_file_that_vanishes_after_the_plan_is_a_counted_failure(tmp_path):
    corpus = TextCorpus([write(tmp_path, "a.txt", "one\n")])
    plan = corpus.plan()
    Path(plan.files[0].path).unlink()
    assert [record.reason for record in corpus.read(plan.ranges[0])] == ["damaged_file"]


def test_the_reading_key_names_what_changes_the_documents_and_not_how_they_are_read():
    base = TextCorpus(["a"])
    assert TextCorpus(["b"], block_bytes=7, range_bytes=8).reading_key() == base.reading_key()
    assert TextCorpus(["a"], document="file").reading_key() != base.reading_key()


def test_memory_does_not_grow_with_the_file(tmp_path):
    # 40 MB of records, read with buffers of 64 KiB: what Python holds stays far below one range.
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as handle:
        for _ in range(400):
            handle.write((json.dumps({"text": "x" * 990}) + "\n").encode() * 100)
    corpus = TextCorpus([str(path)], block_bytes=1 << 16)
    (range_,) = corpus.plan().ranges
    tracemalloc.start()
    count = sum(1 for _ in corpus.read(range_))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 40_000
    assert peak < 2 << 20


def test_paths_are_checked_without_opening_a_file(tmp_path):
    path = write(tmp_path, "a.txt", "text")
    Path(path).chmod(0)
    corpus = TextCorpus([str(tmp_path / "*.txt"), path])
    opened = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", lambda *_, **__: opened.append(1))
        corpus.check_paths()
    assert not opened


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ([], "must name at least one file"),
        (["{0}/*.txt", "{0}/*.jsonl"], r"matches no file"),
        (["{0}"], "is a directory"),
        (["memory://nowhere/*.txt"], "matches no file"),
    ],
)
def test_checking_paths_refuses_what_the_plan_would_refuse(tmp_path, paths, said):
    write(tmp_path, "a.txt", "text")
    corpus = TextCorpus([path.format(tmp_path) for path in paths])
    for look in (corpus.check_paths, corpus.plan):
        with pytest.raises(InputError, match=said):
            look()
