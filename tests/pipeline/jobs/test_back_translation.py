import json

import numpy as np
import pytest

from conf.errors import InputError
from pipeline.bitext import BitextCorpus
from pipeline.byte_bpe import train_byte_bpe
from pipeline.cleaning.chain import Cleaning
from pipeline.cleaning.spaces import Spaces
from pipeline.jobs.back_translation import BackTranslationJob
from pipeline.jobs.parallel import ParallelJob
from pipeline.pair_shards import ORIGINS, PairReader
from pipeline.planned import PlannedCorpus
from pipeline.runners import LocalRunner
from pipeline.shards import read_manifest, verify
from pipeline.tokenizer import load_tokenizer, save_tokenizer, special_ids, tokenizer_hash, train_wordpiece
from pipeline.translations import TranslationsCorpus
from tests.helpers.pairs import pair_of, write_translations

GOOD = [pair_of(number) for number in range(60)]
OTHER = pair_of(99)


def line(target: str, *translations: tuple[str, float]):
    outputs = [{"text": text, "score": score} for text, score in translations]
    return {"id": target[:5], "source": target, "translations": outputs}


# Lines that are dropped, by the code they are counted under.
BAD = {
    "empty": [line("Nothing came of it."), line("Nor of this.", ("", -1.0))],
    "copy": [line("The little dog runs.", ("the little dog runs.", -1.0))],
    "ratio": [line("The little dog runs across the meadow.", ("Hund", -1.0))],
    "too_long": [line("dog " * 60, ("Hund " * 60, -1.0))],
    "repetition": [line(OTHER[1], ("der Hund " * 5, -1.0))],
    "language": [line(OTHER[1], (pair_of(98)[1], -1.0))],
    "low_score": [line(OTHER[1], (OTHER[0], -9.5))],
    "duplicate": [line(GOOD[0][1], (GOOD[0][0], -0.25))],
    "excluded": [line("This one is in the test set.", ("Dieser ist nicht im Training.", -1.0))],
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(train_wordpiece([side for pair in GOOD for side in pair], 300, added_tokens=["<bt>"]), path)
    return str(path)


@pytest.fixture(scope="module")
def translations(tmp_path_factory, tokenizer):
    path = tmp_path_factory.mktemp("translations")
    good = [line(target, (source, -n / 8), (f"{source} nochmal", -5.0)) for n, (source, target) in enumerate(GOOD)]
    bad = [row for rows in BAD.values() for row in rows]
    write_translations(path, [good[:20], good[20:], bad], tokenizer_hash(tokenizer))
    (path.parent / "test.txt").write_text("this ONE is in the test set.\n")
    return path


def job(**options):
    return BackTranslationJob(
        **{
            "source_language": "de",
            "target_language": "en",
            "cleaning": Cleaning(spaces=Spaces()),
            "max_length": 60,
            "minimum_score": -9.0,
            "max_ratio": 3.0,
        }
        | options
    )


def build(translations, output, tokenizer, workers=1, use="best", **options):
    output.mkdir(exist_ok=True)
    corpus = PlannedCorpus(TranslationsCorpus(str(translations), use=use, range_bytes=4000))
    options = {"exclude": [str(translations.parent / "test.txt")]} | options
    job(**options).run(corpus, output, tokenizer, LocalRunner(workers))
    return read_manifest(output)


@pytest.fixture(scope="module")
def built(translations, tokenizer, tmp_path_factory):
    output = tmp_path_factory.mktemp("built") / "out"
    build(translations, output, tokenizer)
    return output


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def test_pairs_are_tagged_synthetic_sources_with_their_score_and_real_targets(built, tokenizer):
    library = load_tokenizer(tokenizer)
    cls, sep, tag = (library.token_to_id(name) for name in ("[CLS]", "[SEP]", "<bt>"))
    reader = PairReader(built)
    found = reader.pairs(range(len(reader)))
    encoded = [[library.encode(side, add_special_tokens=False).ids for side in pair] for pair in GOOD]
    assert found.source_ids.tolist() == [i for source, _ in encoded for i in (cls, tag, *source, sep)]
    assert found.target_ids.tolist() == [i for _, target in encoded for i in (cls, *target, sep)]
    assert {ORIGINS[number] for number in found.origin} == {"synthetic"}
    assert found.score.tolist() == [np.float32(-n / 8) for n in range(len(GOOD))]
    assert reader.lengths()[0].tolist() == [len(source) + 3 for source, _ in encoded]


@pytest.mark.parametrize("build_tokenizer", [train_wordpiece, train_byte_bpe])
def test_words_that_noise_took_become_mask_tokens_and_no_text_does(tmp_path, build_tokenizer):
    """A blank is one special token, which the characters "[MASK]" in a text are not."""
    texts = [side for pair in GOOD for side in pair]
    library = build_tokenizer(texts, 400, added_tokens=["<bt>"])
    (tmp_path / "tokenizer").mkdir()
    save_tokenizer(library, tmp_path / "tokenizer")
    rows = [line(target, (source, -1.0)) for source, target in GOOD]
    said = "der Hund [MASK] die kleine Katze [MASK] und"
    rows[0]["translations"][0] |= {"text": said, "blanks": [[33, 39]]}
    rows[1]["translations"][0] |= {"text": said}
    rows[2]["translations"][0] |= {"text": "der \ufdd0Hund und die kleine Katze"}
    hash_ = tokenizer_hash(tmp_path / "tokenizer")
    write_translations(tmp_path / "in", [rows], hash_)
    build(tmp_path / "in", tmp_path / "out", str(tmp_path / "tokenizer"), exclude=[], max_ratio=None)
    reader = PairReader(tmp_path / "out")
    pairs = reader.pairs(range(3))
    found = [ids[2:-1].tolist() for ids in np.split(pairs.source_ids, np.cumsum(pairs.source_lengths)[:-1])]

    def ids(text):
        return library.encode(text, add_special_tokens=False).ids

    mask = library.token_to_id("[MASK]")
    assert found[0] == [*ids("der Hund [MASK] die kleine Katze "), mask, *ids(" und")]
    assert found[1] == ids(said) and found[2] == ids("der Hund und die kleine Katze")
    assert [row.count(mask) for row in found] == [1, 0, 0]


def test_every_translation_is_counted_with_its_reason(built):
    counts = read_manifest(built).counts
    assert counts.dropped == {reason: len(rows) for reason, rows in sorted(BAD.items())}
    assert (counts.read, counts.kept, counts.failed) == (60 + 10, 60, 0)


def test_the_manifest_tells_of_the_translations(built):
    manifest = read_manifest(built)
    assert manifest.languages == {"source": "de", "target": "en"}
    assert manifest.config["translations"]["checkpoint"] == "checkpoints/1"
    assert manifest.config["translations"]["search"] == {"beam": 5}
    assert manifest.config["job"]["tag"] == "<bt>"
    assert "<span>&lt;bt&gt; " in (built / "report.html").read_text()
    verify(built)


@pytest.mark.full  # the processes and the code are those of job=parallel
def test_two_workers_give_the_same_bytes(translations, built, tmp_path, tokenizer):
    build(translations, tmp_path / "two", tokenizer, workers=2)
    assert contents(tmp_path / "two") == contents(built)


def test_all_translations_are_used_where_that_is_asked_for(translations, tmp_path, tokenizer):
    counts = build(translations, tmp_path / "all", tokenizer, use="all").counts
    assert (counts.read, counts.kept) == (60 * 2 + 10, 120)


def test_without_a_tag_and_without_filters_everything_that_has_tokens_stays(translations, tmp_path, tokenizer):
    options = {
        "tag": None,
        "minimum_score": None,
        "max_repeats": None,
        "max_ratio": None,
        "drop_copies": False,
        "deduplicate": False,
        "language_confidence": None,
        "exclude": [],
    }
    counts = build(translations, tmp_path / "out", tokenizer, **options).counts
    assert counts.dropped == {"empty": 2, "too_long": 1}
    found = PairReader(tmp_path / "out").pairs([0])
    assert found.source_ids[0] == special_ids(load_tokenizer(tokenizer))["cls"]
    assert found.source_ids[1] != load_tokenizer(tokenizer).token_to_id("<bt>")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (("de", "en"), r"need translations from en into de, but '\S+' holds translations from de into en: exchange"),
        (("en", "fr"), "holds translations from en into fr: name others"),
    ],
)
def test_translations_of_another_direction_are_refused(tmp_path, tokenizer, found, words):
    write_translations(tmp_path / "in", [[line(GOOD[0][1], (GOOD[0][0], -1.0))]], "x", found)
    (tmp_path / "test.txt").write_text("")
    with pytest.raises(InputError, match=words):
        build(tmp_path / "in", tmp_path / "out", tokenizer)


def test_translations_that_do_not_say_their_direction_are_taken_with_a_warning(tmp_path, tokenizer, caplog):
    rows = [line(target, (source, -1.0)) for source, target in GOOD]
    write_translations(tmp_path / "in", [rows], tokenizer_hash(tokenizer), (None, None))
    build(tmp_path / "in", tmp_path / "out", tokenizer, exclude=[])
    assert "does not say which languages it is of" in caplog.text
    rows = [line(source, (target, -1.0)) for source, target in GOOD]
    write_translations(tmp_path / "in", [rows], tokenizer_hash(tokenizer), (None, None))
    with pytest.raises(InputError, match="source and target seem to be swapped"):
        build(tmp_path / "in", tmp_path / "out", tokenizer, exclude=[])


def test_another_vocabulary_of_the_reverse_model_is_refused(tmp_path, tokenizer):
    write_translations(tmp_path / "in", [[line("a", ("b", -1.0))]], "sha256:of-another")
    (tmp_path / "test.txt").write_text("")
    with pytest.raises(InputError, match=r"the reverse model's vocabulary is not the forward model's: .*of-another"):
        build(tmp_path / "in", tmp_path / "out", tokenizer)


def test_other_corpora_and_a_score_that_is_no_number_are_refused(tmp_path, translations, tokenizer):
    (tmp_path / "a").write_text("x\n")
    bitext = PlannedCorpus(BitextCorpus([str(tmp_path / "a")], [str(tmp_path / "a")]))
    with pytest.raises(InputError, match="add corpus=translations"):
        job().run(bitext, tmp_path, tokenizer, LocalRunner(1))
    with pytest.raises(InputError, match=r"job\.minimum_score' must be a number"):
        build(translations, tmp_path / "out", tokenizer, minimum_score=float("inf"))


def test_a_translation_without_a_score_has_not_reached_the_least_one(tmp_path, tokenizer):
    rows = [line(target, (source, -1.0)) for source, target in GOOD[:20]]
    rows[0]["translations"][0]["score"] = float("nan")
    write_translations(tmp_path / "in", [rows], tokenizer_hash(tokenizer))
    assert "NaN" in json.dumps(rows[0])
    counts = build(tmp_path / "in", tmp_path / "out", tokenizer, exclude=[]).counts
    assert counts.dropped == {"low_score": 1}


@pytest.fixture
def scored(tmp_path, tokenizer):
    """Translations with scores of both directions: the first has none, the others 0.05, 0.1, ..."""
    rows = [line(target, (source, -1.0)) for source, target in GOOD[:16]]
    for number, row in enumerate(rows):
        row["translations"][0]["dual_score"] = number / 20 or None
    write_translations(tmp_path / "in", [rows], tokenizer_hash(tokenizer), score_with="checkpoints/2")
    return tmp_path / "in"


def test_pairs_that_both_directions_do_not_find_likely_are_dropped_and_counted(scored, tmp_path, tokenizer):
    manifest = build(scored, tmp_path / "out", tokenizer, exclude=[], minimum_dual_score=0.25)
    assert manifest.counts.dropped == {"low_dual_score": 5} and manifest.counts.kept == 11
    assert manifest.config["translations"]["score_with"] == "checkpoints/2"
    found = PairReader(tmp_path / "out").pairs(range(11))
    assert found.score.tolist() == [-1.0] * 11


def test_a_row_keeps_the_score_that_is_asked_for(scored, tmp_path, tokenizer):
    build(scored, tmp_path / "out", tokenizer, exclude=[], score="dual")
    kept = PairReader(tmp_path / "out").pairs(range(16)).score
    assert np.isnan(kept[0]) and kept[1:].tolist() == [np.float32(n / 20) for n in range(1, 16)]


def test_scores_of_both_directions_that_are_not_there_or_no_scores_are_refused(
    translations, scored, tmp_path, tokenizer
):
    for options, named in (
        ({"minimum_dual_score": 0.1}, "minimum_dual_score"),
        ({"score": "dual"}, "score=dual"),
    ):
        with pytest.raises(InputError, match=rf"option 'job\.{named}' needs .*translate with score_with=CHECKPOINT"):
            build(translations, tmp_path / "out", tokenizer, **options)
    with pytest.raises(InputError, match=r"job\.minimum_dual_score' must be between 0 and 1, or null, but is -1"):
        build(scored, tmp_path / "out", tokenizer, exclude=[], minimum_dual_score=-1)


def test_translations_are_no_bitext(translations, tmp_path, tokenizer):
    job = ParallelJob(source_language="de", target_language="en")
    with pytest.raises(InputError, match="what a model wrote: use job=back_translation"):
        job.run(PlannedCorpus(TranslationsCorpus(str(translations))), tmp_path, tokenizer, LocalRunner(1))
