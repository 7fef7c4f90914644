import json
import math

import pytest

from conf.errors import InputError
from pipeline.blanks import BLANK
from pipeline.records import Pair, ReadFailure
from pipeline.translations import TranslationsCorpus
from tests.helpers.manifests import edited
from tests.helpers.pairs import write_translations


def line(source, *translations, **more):
    return {
        "id": f"s{len(source)}",
        "source": source,
        "translations": [{"text": text, "score": score} for text, score in translations],
        **more,
    }


CHUNKS = [
    [line("One.", ("Eins.", -0.5), ("Ein.", -2)), line("Two two.", ("Zwei.", -1.5))],
    [line("None.")],
]


@pytest.fixture
def directory(tmp_path):
    write_translations(tmp_path / "out", CHUNKS, "sha256:1")
    return tmp_path / "out"


def read_all(corpus):
    return [record for range_ in corpus.plan().ranges for record in corpus.read(range_)]


def test_the_real_sentence_is_the_target_and_the_best_translation_the_source(directory):
    first, second, third = read_all(TranslationsCorpus(str(directory)))
    assert first == Pair("Eins.", "One.", "s4", 0, 0, -0.5)
    assert (second.source, second.target, second.score) == ("Zwei.", "Two two.", -1.5)
    assert (third.source, third.target, third.file) == ("", "None.", 1) and math.isnan(third.score)


def one(tmp_path, text, target="One.", **more):
    """The record of one translation."""
    row = {"id": "s", "source": target, "translations": [{"text": text, "score": -1.0, **more}]}
    write_translations(tmp_path / "one", [[row]], "sha256:1")
    (record,) = read_all(TranslationsCorpus(str(tmp_path / "one")))
    return record


def test_words_that_noise_took_are_blanks_and_their_name_in_a_text_is_not(tmp_path):
    found = one(tmp_path, "[MASK] und [MASK], [MASK]", blanks=[[0, 6], [19, 25]])
    assert found.source == f"{BLANK} und [MASK], {BLANK}"
    assert one(tmp_path, "[MASK] und").source == "[MASK] und"


def test_no_text_brings_a_blank_along(tmp_path):
    found = one(tmp_path, f"a {BLANK}b [MASK]", f"c{BLANK} d", blanks=[[5, 11]])
    assert (found.source, found.target) == (f"a b {BLANK}", "c d")


@pytest.mark.parametrize(
    "blanks", [[[0, 9]], [[2, 1]], [[3, 4], [0, 1]], [[0, 2], [1, 3]], [[-1, 2]], [[0]], [["0", "1"]], 3, None]
)
def test_blanks_that_are_no_spans_of_the_text_cost_the_record(tmp_path, blanks):
    found = one(tmp_path, "Eins und", blanks=blanks)
    assert isinstance(found, ReadFailure) and found.reason == "not_a_translation"
    assert "expected 'blanks' to be spans [start, end] of 'text', in order" in found.detail


def test_all_translations_are_pairs_of_the_same_target_where_that_is_asked_for(directory):
    found = read_all(TranslationsCorpus(str(directory), use="all"))
    assert [(pair.source, pair.target, pair.score) for pair in found[:2]] == [
        ("Eins.", "One.", -0.5),
        ("Ein.", "One.", -2.0),
    ]
    assert len(found) == 4
    keys = {TranslationsCorpus(str(directory), use=use).reading_key() for use in ("best", "all")}
    assert len(keys) == 2


def test_the_score_of_both_directions_is_read_where_there_is_one(tmp_path):
    rows = [line(name, (name, -1.0)) for name in ("One.", "Two two.", "Three three.")]
    rows[0]["translations"][0]["dual_score"] = 0.25
    rows[1]["translations"][0]["dual_score"] = None
    write_translations(tmp_path, [rows], "sha256:1")
    found = read_all(TranslationsCorpus(str(tmp_path)))
    assert [pair.score for pair in found] == [-1.0] * 3
    assert found[0].dual_score == 0.25 and all(math.isnan(pair.dual_score) for pair in found[1:])


def test_chunks_are_grouped_into_ranges_by_size_and_never_cut(directory):
    assert len(TranslationsCorpus(str(directory)).plan().ranges) == 1
    plan = TranslationsCorpus(str(directory), range_bytes=10).plan()
    assert [[piece.name for piece in range_.pieces] for range_ in plan.ranges] == [
        ["translations/00000.jsonl"],
        ["translations/00001.jsonl"],
    ]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("{", "found what is no JSON"),
        ("[]", "expected an object with the key 'source'"),
        ('{"source": 3}', "expected an object with the key 'source'"),
        ('{"source": "a"}', "expected a list under the key 'translations'"),
        ('{"source": "a", "translations": ["b"]}', "expected a translation with 'text' and 'score', found 'b'"),
        ('{"source": "a", "translations": [{"text": "b"}]}', "expected a translation with 'text' and 'score'"),
        ('{"source": "a", "translations": [{"text": "b", "score": true}]}', "expected a translation"),
        (
            '{"source": "a", "translations": [{"text": "b", "score": 1, "dual_score": "x"}]}',
            "expected a number or null as 'dual_score', found",
        ),
    ],
)
def test_a_line_that_is_no_translation_is_a_failure_that_says_where(tmp_path, raw, words):
    write_translations(tmp_path, [CHUNKS[0]], "sha256:1")
    chunk = tmp_path / "translations/00000.jsonl"
    (range_,) = TranslationsCorpus(str(tmp_path)).plan().ranges
    chunk.write_text(f"{json.dumps(CHUNKS[0][0])}\n{raw}\n{json.dumps(CHUNKS[0][1])}\n")
    first, bad, last = TranslationsCorpus(str(tmp_path)).read(range_)
    assert isinstance(first, Pair) and isinstance(last, Pair) and isinstance(bad, ReadFailure)
    assert bad.reason == "not_a_translation" and words in bad.detail
    assert f"translations/00000.jsonl at byte {len(json.dumps(CHUNKS[0][0])) + 1}" in bad.detail


def test_a_chunk_that_is_missing_or_damaged_is_named(directory):
    chunk = directory / "translations/00001.jsonl"
    content = chunk.read_bytes()
    chunk.write_bytes(content.replace(b"None", b"Nine"))
    with pytest.raises(InputError, match=r"00001\.jsonl' is damaged"):
        TranslationsCorpus(str(directory)).plan()
    chunk.unlink()
    with pytest.raises(InputError, match=r"00001\.jsonl' is named in manifest\.json but is not there"):
        TranslationsCorpus(str(directory)).plan()


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda raw: "{", "cannot be read as JSON"),
        (lambda raw: "[]", "'format_version' of type int"),
        (edited(lambda raw: raw.pop("tokenizer_hash")), "'tokenizer_hash' of type str, but has None"),
        (edited(lambda raw: raw.update(format_version=2)), "'format_version' must be 1, but is 2"),
        (edited(lambda raw: raw["chunks"][0].update(path="../x")), r"chunks\[0\]\.path' must be a path inside"),
        (edited(lambda raw: raw["chunks"].clear()), "holds no translations"),
    ],
)
def test_a_manifest_that_does_not_fit_names_file_and_field(directory, edit, words):
    path = directory / "manifest.json"
    path.write_text(edit(json.loads(path.read_text())))
    with pytest.raises(InputError, match=words):
        TranslationsCorpus(str(directory)).plan()


def test_translations_without_a_manifest_are_not_finished(tmp_path):
    with pytest.raises(InputError, match=r"not a finished directory of translations.*pretrain\.translate"):
        TranslationsCorpus(str(tmp_path)).plan()
