import gzip
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.bitext import BitextCorpus
from pipeline.pair_sources import as_documents
from pipeline.ranges import WHOLE, Plan
from pipeline.records import Pair, ReadFailure
from pipeline.sources import TextCorpus


def read_all(corpus):
    return [record for range_ in corpus.plan().ranges for record in corpus.read(range_)]


def write(folder, source: bytes, target: bytes, suffix: str = "") -> BitextCorpus:
    (folder / f"a.de{suffix}").write_bytes(source)
    (folder / f"a.en{suffix}").write_bytes(target)
    return BitextCorpus([str(folder / f"a.de{suffix}")], [str(folder / f"a.en{suffix}")])


def lines(count: int, word: str) -> bytes:
    return "".join(f"{word} {n}" + "\n" for n in range(count)).encode()


LINE = st.text(st.sampled_from("aé中 "), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(pairs=st.lists(st.tuples(LINE, LINE), min_size=1, max_size=20), size=st.integers(1, 60), last=st.booleans())
def test_however_it_is_cut_the_ranges_together_have_every_pair_once_in_order(tmp_path, pairs, size, last):
    sides = ["\n".join(side) + ("\n" if last or not side[-1] else "") for side in zip(*pairs, strict=True)]
    (tmp_path / "a.de").write_text(sides[0], newline="")
    (tmp_path / "a.en").write_text(sides[1], newline="")
    corpus = BitextCorpus([str(tmp_path / "a.de")], [str(tmp_path / "a.en")], range_bytes=size, block_bytes=3)
    assert [(record.source, record.target) for record in read_all(corpus)] == pairs
    starts = [piece.start for range_ in corpus.plan().ranges for piece in range_.pieces]
    assert starts == list(range(0, max(1, len(sides[0].encode())), size))


def test_a_pair_knows_its_line_and_the_byte_of_its_source(tmp_path):
    corpus = write(tmp_path, b"\xef\xbb\xbfeins\r\nzwei\n", b"\xef\xbb\xbfone\r\ntwo\n")
    first, second = read_all(corpus)
    assert (first.source, first.target, first.id, first.offset) == ("eins", "one", "a.de:1", 0)
    assert (second.source, second.target, second.id, second.offset) == ("zwei", "two", "a.de:2", 9)
    assert math.isnan(first.score) and first.file == 0


@pytest.mark.parametrize(("source_gz", "target_gz"), [(True, True), (True, False), (False, True)])
def test_compressed_files_pair_up_with_plain_ones(tmp_path, source_gz, target_gz):
    source, target = lines(50, "wort"), lines(50, "word")
    corpus = write(
        tmp_path,
        gzip.compress(source) if source_gz else source,
        gzip.compress(target) if target_gz else target,
    )
    small = BitextCorpus(corpus.source, corpus.target, range_bytes=100)
    assert len(small.plan().ranges) == 1
    assert [record.target for record in read_all(small)] == target.decode().splitlines()


def test_files_pair_up_in_their_order_and_small_ones_share_a_range(tmp_path):
    for number, count in ((1, 3), (2, 2)):
        (tmp_path / f"{number}.de").write_bytes(lines(count, f"wort{number}"))
        (tmp_path / f"{number}.en").write_bytes(lines(count, f"word{number}"))
    corpus = BitextCorpus([str(tmp_path / "*.de")], [str(tmp_path / "*.en")])
    plan = corpus.plan()
    assert len(plan.ranges) == 1 and [file.name for file in plan.files] == ["1.de", "2.de", "1.en", "2.en"]
    assert [(pair.file, pair.source, pair.target) for pair in read_all(corpus)] == [
        (0, "wort1 0", "word1 0"),
        (0, "wort1 1", "word1 1"),
        (0, "wort1 2", "word1 2"),
        (1, "wort2 0", "word2 0"),
        (1, "wort2 1", "word2 1"),
    ]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize(("source", "target"), [(7, 9), (9, 7), (0, 2)])
def test_files_of_different_numbers_of_lines_are_named_with_both_counts(tmp_path, compress, source, target):
    corpus = write(tmp_path, compress(lines(source, "wort")), compress(lines(target, "word")))
    with pytest.raises(InputError, match=rf"a\.de' has {source} and '\S*a\.en' has {target}: they are not aligned"):
        corpus.plan()


@pytest.mark.parametrize(("source", "target"), [(7, 9), (9, 7)])
def test_large_compressed_files_are_found_to_be_misaligned_when_they_are_read(tmp_path, monkeypatch, source, target):
    monkeypatch.setattr("pipeline.bitext.COUNTED_BYTES", 10)
    corpus = write(tmp_path, gzip.compress(lines(source, "wort")), gzip.compress(lines(target, "word")))
    with pytest.raises(InputError, match=rf"a\.de' has {source} and '\S*a\.en' has {target}: they are not aligned"):
        read_all(corpus)


def test_sides_of_different_numbers_of_files_are_refused(tmp_path):
    corpus = write(tmp_path, b"a\n", b"b\n")
    with pytest.raises(InputError, match=r"corpus\.source matches 2 .* and corpus\.target 1"):
        BitextCorpus([*corpus.source, *corpus.target], corpus.target).plan()
    with pytest.raises(InputError, match=r"check corpus\.target"):
        BitextCorpus(corpus.source, [str(tmp_path / "no")]).check_paths()
    with pytest.raises(InputError, match="the corpus is empty"):
        write(tmp_path, b"", b"").plan()


def test_bad_bytes_cost_their_pair_and_are_told_with_file_and_line(tmp_path):
    corpus = write(tmp_path, b"eins\nz\xffei\ndrei\n", b"one\ntwo\nth\xffree\n")
    first, second, third = read_all(corpus)
    assert isinstance(first, Pair)
    assert (second.reason, third.reason) == ("undecodable", "undecodable")
    assert "a.de in line 2" in second.detail and "a.en in line 3" in third.detail
    failing = BitextCorpus(corpus.source, corpus.target, bad_bytes="fail")
    with pytest.raises(InputError, match=r"a\.de in line 2: expected utf-8"):
        read_all(failing)
    repaired = read_all(BitextCorpus(corpus.source, corpus.target, bad_bytes="replace"))
    assert [pair.source for pair in repaired] == ["eins", "z\ufffdei", "drei"]


def test_a_line_too_long_costs_its_pair_and_no_other(tmp_path):
    corpus = write(tmp_path, b"eins\n" + b"z" * 50 + b"\ndrei\n", b"one\ntwo\nthree\n")
    records = read_all(BitextCorpus(corpus.source, corpus.target, max_record_bytes=10))
    assert [type(record) for record in records] == [Pair, ReadFailure, Pair]
    assert records[1].reason == "record_too_long" and records[2].target == "three"


def test_a_damaged_file_is_one_failure_after_the_pairs_before_it(tmp_path):
    whole = gzip.compress(b"".join(b"%d\n" % n for n in range(20_000)))
    corpus = write(tmp_path, whole[: len(whole) // 2], gzip.compress(lines(20_000, "word")))
    *pairs, last = read_all(BitextCorpus(corpus.source, corpus.target, block_bytes=1000))
    assert len(pairs) > 100 and all(isinstance(pair, Pair) for pair in pairs)
    assert last.reason == "damaged_file" and f"after line {len(pairs)}" in last.detail


def test_both_sides_are_documents_for_a_joint_tokenizer(tmp_path):
    corpus = write(tmp_path, b"eins\nzwei\n", b"one\n\xff\n")
    documents = as_documents(corpus)
    (range_,) = documents.plan().ranges
    found = list(documents.read(range_))
    assert [record.text for record in found[:2]] == ["eins", "one"] and found[2].reason == "undecodable"
    assert documents.reading_key() != corpus.reading_key()
    text = TextCorpus(corpus.source)
    assert as_documents(text) is text


def test_the_plan_of_a_cut_file_ends_open_so_that_a_longer_target_is_noticed(tmp_path):
    corpus = write(tmp_path, lines(20, "wort"), lines(20, "word"))
    plan: Plan = BitextCorpus(corpus.source, corpus.target, range_bytes=50).plan()
    last = plan.ranges[-1].pieces[-1]
    assert last.end == WHOLE and last.beside.line > 0
    with (tmp_path / "a.en").open("ab") as handle:
        handle.write(b"one more\n")
    with pytest.raises(InputError, match=r"has 20 and .* has 21"):
        list(corpus.read(plan.ranges[-1]))
