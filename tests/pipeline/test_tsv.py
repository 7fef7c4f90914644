import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.records import Pair, ReadFailure
from pipeline.tsv import TsvCorpus


def read_all(corpus):
    return [record for range_ in corpus.plan().ranges for record in corpus.read(range_)]


def corpus_of(folder, content: str, **options):
    path = folder / "a.tsv"
    path.write_text(content, newline="")
    return TsvCorpus([str(path)], **options)


CELL = st.text(st.sampled_from("aé中 "), min_size=1, max_size=5).filter(lambda text: text.strip())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=15), size=st.integers(1, 60))
def test_however_it_is_cut_every_line_is_one_pair_of_the_columns_asked_for(tmp_path, rows, size):
    content = "".join("\t".join(row) + "\n" for row in rows)
    corpus = corpus_of(tmp_path, content, source_column=3, target_column=1, range_bytes=size)
    assert [(pair.source, pair.target) for pair in read_all(corpus)] == [(row[2], row[0]) for row in rows]


def test_a_header_names_the_columns_and_is_no_pair_in_any_range(tmp_path):
    content = "\nid\ten\tde\n" + "".join(f"{n}\tword {n}\twort {n}\n" for n in range(20))
    corpus = corpus_of(tmp_path, content, header=True, source_column="de", target_column="en", range_bytes=30)
    assert len(corpus.plan().ranges) > 3
    assert [(pair.source, pair.target) for pair in read_all(corpus)] == [(f"wort {n}", f"word {n}") for n in range(20)]
    with pytest.raises(InputError, match=r"has no column 'fr' .*names id, en, de"):
        corpus_of(tmp_path, content, header=True, source_column="fr", target_column="en").plan()


def test_a_line_of_other_columns_is_a_failure_that_names_file_and_line(tmp_path):
    rows = [f"{n}\twort\tword" for n in range(40)]
    rows[3], rows[30] = "only\ttwo", "a\tb\tc\td"
    corpus = corpus_of(tmp_path, "\n".join(rows), source_column=2, target_column=3, range_bytes=100)
    records = read_all(corpus)
    failures = [record for record in records if isinstance(record, ReadFailure)]
    assert [failure.reason for failure in failures] == ["wrong_columns"] * 2
    assert failures[0].detail == "a.tsv in line 4: expected 3 tab-separated columns, found 2"
    assert failures[1].detail == "a.tsv in line 31: expected 3 tab-separated columns, found 4"
    assert sum(isinstance(record, Pair) for record in records) == 38
    with pytest.raises(InputError, match=r"a\.tsv in line 4: expected 3 tab-separated columns, found 2"):
        read_all(TsvCorpus(corpus._lines.paths, source_column=2, target_column=3, bad_lines="fail"))


def test_the_number_of_columns_can_be_told(tmp_path):
    corpus = corpus_of(tmp_path, "a\nb\tc\n", columns=2)
    first, second = read_all(corpus)
    assert isinstance(first, ReadFailure) and (second.source, second.target) == ("b", "c")


def test_compressed_files_blank_lines_and_bad_bytes(tmp_path):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfeins\tone\r\n\n \nzwei\tt\xffo\n"))
    first, second = read_all(TsvCorpus([str(path)]))
    assert (first.source, first.target) == ("eins", "one")
    assert second.reason == "undecodable" and "a.tsv.gz at byte" in second.detail


def test_a_file_of_blank_lines_alone_has_no_pairs_and_no_fault(tmp_path):
    assert read_all(corpus_of(tmp_path, "\n\t\n")) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"source_column": "de"}, r"corpus\.source_column' must be a number"),
        ({"source_column": 0}, r"corpus\.source_column' must be at least 1"),
        ({"target_column": 1}, "must differ, but both are 1"),
        ({"target_column": 4}, r"corpus\.target_column' is 4, but '\S+a\.tsv' has 2 tab-separated columns"),
    ],
)
def test_columns_that_cannot_be_are_refused(tmp_path, options, words):
    with pytest.raises(InputError, match=words):
        corpus_of(tmp_path, "a\tb\n", **options).plan()
