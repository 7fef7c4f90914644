import pickle

import pytest

from conf.errors import InputError
from pipeline.cleaning.chain import Cleaning, Dropped
from pipeline.jobs.reading import cleaned, range_fingerprint, refuse_nothing
from pipeline.manifest import Counts
from pipeline.planned import PlannedCorpus
from pipeline.sources import TextCorpus


def no_long_words(text):
    if text == "raise":
        raise ValueError("a fault of the step")
    return Dropped("long_word") if max(map(len, text.split())) > 9 else text.upper()


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "a.txt").write_text("one\nraise\nunreasonable\n\xff\ntwo\n", encoding="latin-1")
    return PlannedCorpus(TextCorpus([str(tmp_path / "a.txt")]))


def test_every_record_comes_with_its_fate_in_order(corpus):
    (range_,) = corpus.plan().ranges
    records = list(cleaned(corpus, range_, Cleaning(words=no_long_words)))
    assert [(r.index, r.fate, r.text, r.reason) for r in records] == [
        (0, "kept", "ONE", ""),
        (1, "failed", "", "cleaning_error"),
        (2, "dropped", "", "long_word"),
        (3, "failed", "", "undecodable"),
        (4, "kept", "TWO", ""),
    ]
    assert "ValueError: a fault of the step" in records[1].detail


def test_a_range_has_another_fingerprint_when_its_text_its_reading_or_its_cleaning_changes(corpus, tmp_path):
    def of(corpus, cleaning):
        return range_fingerprint(corpus.plan(), corpus.plan().ranges[0], corpus, cleaning)

    paths = [str(tmp_path / "a.txt")]
    first = of(corpus, Cleaning())
    assert first == of(PlannedCorpus(TextCorpus(paths)), Cleaning())
    assert first != of(PlannedCorpus(TextCorpus(paths, bad_bytes="replace")), Cleaning())
    assert first != of(corpus, Cleaning(words=no_long_words))
    (tmp_path / "a.txt").write_text("other\n")
    assert first != of(PlannedCorpus(TextCorpus(paths)), Cleaning())


def test_a_corpus_is_planned_once_and_travels_without_its_plan(corpus, monkeypatch):
    plan = corpus.plan()
    monkeypatch.setattr(TextCorpus, "plan", lambda self: pytest.fail("planned again"))
    assert corpus.plan() is plan and corpus.fingerprint().startswith("sha256:")
    copy = pickle.loads(pickle.dumps(corpus))
    assert copy.__dict__["_plan"] is None
    assert list(copy.read(plan.ranges[0])) == list(corpus.read(plan.ranges[0]))


def test_a_corpus_that_cannot_be_read_is_told_from_an_empty_one_and_names_the_first_cause():
    refuse_nothing(Counts(3, 1, {"too_short": 1}, 1), ["a:0: broken"])
    with pytest.raises(InputError, match=r"none of the 2 documents .* could be read: a:0: expected the key 'text'"):
        refuse_nothing(Counts(2, 0, {}, 2), ["a:0: expected the key 'text'"])
    with pytest.raises(InputError, match=r"is empty: of 3 documents read none is left \(1 too_short, 2 failed: a:9"):
        refuse_nothing(Counts(3, 0, {"too_short": 1}, 2), ["a:9"])
    with pytest.raises(
        InputError, match=r"left \(3 empty, 2 ratio\): look whether .* should be, or change job.max_ratio$"
    ):
        refuse_nothing(Counts(5, 0, {"empty": 3, "ratio": 2}, 0), what="pairs")
    with pytest.raises(InputError, match=r"left \(3 ratio\)$"):
        refuse_nothing(Counts(3, 0, {"ratio": 3}, 0))
