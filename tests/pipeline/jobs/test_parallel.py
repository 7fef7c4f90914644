import gzip
import json
import re
import shutil

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from conf.errors import InputError
from pipeline.bitext import BitextCorpus
from pipeline.cleaning.chain import Cleaning
from pipeline.cleaning.normalise import Normalise
from pipeline.cleaning.spaces import Spaces
from pipeline.held_out import is_held_out
from pipeline.jobs.pair_job import build_pipeline
from pipeline.jobs.parallel import ParallelJob
from pipeline.pair_shards import ORIGINS, PairReader
from pipeline.planned import PlannedCorpus
from pipeline.records import text_hash
from pipeline.runners import LocalRunner
from pipeline.shards import ShardReader, read_manifest, verify
from pipeline.tokenizer import load_tokenizer, save_tokenizer, special_ids, train_wordpiece
from pipeline.tsv import TsvCorpus
from tests.helpers.pairs import pair_of

SHARE = 0.25
PAIRS = [pair_of(number) for number in range(240)]
# What is dropped or fails, by the code it is counted under.
BAD = {
    "duplicate": [PAIRS[3], PAIRS[200], (f" {PAIRS[7][0]}", f"{PAIRS[7][1]}\u200b")],
    "empty": [("", "something"), ("etwas", " "), ("", "")],
    "copy": [("Access2Base", "access2base")],
    "ratio": [("ja", "yes yes yes yes")],
    "too_long": [("Hund " * 60, "dog " * 60)],
    "excluded": [("Das ist nur ein Test.", "A sentence"), ("Ein Satz", "THIS is  held back")],
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    texts = [side for pair in PAIRS for side in pair]
    save_tokenizer(train_wordpiece(texts, 300, added_tokens=["<bt>", "<2en>"]), path)
    return str(path)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two pairs of files, the first of them cut into several ranges."""
    folder = tmp_path_factory.mktemp("corpus")
    bad = [pair for pairs in BAD.values() for pair in pairs]
    for name, pairs in (("a", PAIRS[:150]), ("b", PAIRS[150:] + bad)):
        for side, suffix in ((0, "de"), (1, "en")):
            (folder / f"{name}.{suffix}").write_text("".join(pair[side] + "\n" for pair in pairs))
    with (folder / "b.de").open("ab") as source, (folder / "b.en").open("ab") as target:
        source.write(b"kaputt\xff\n")
        target.write(b"broken\n")
    (folder / "test.txt").write_text("das ist NUR ein Test.\nThis is held back\n")
    return BitextCorpus([str(folder / "*.de")], [str(folder / "*.en")], range_bytes=3000)


def job(**options):
    return ParallelJob(
        **{
            "source_language": "de",
            "target_language": "en",
            "cleaning": Cleaning(normalise=Normalise(), spaces=Spaces()),
            "max_length": 60,
            "held_out_share": SHARE,
        }
        | options
    )


def build(corpus, output, tokenizer, workers=1, **options):
    output.mkdir(exist_ok=True)
    job(**options).run(PlannedCorpus(corpus), output, tokenizer, LocalRunner(workers))
    return read_manifest(output)


def excluding(corpus):
    return [corpus.source[0].replace("*.de", "test.txt")]


@pytest.fixture(scope="module")
def built(corpus, tokenizer, tmp_path_factory):
    output = tmp_path_factory.mktemp("built") / "out"
    build(corpus, output, tokenizer, exclude=excluding(corpus))
    return output


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def pairs_in(directory, split):
    """[(source ids, target ids)] of a split."""
    reader = PairReader(directory, split)
    found = reader.pairs(range(len(reader)))
    rows, source, target = [], 0, 0
    for a, b in zip(found.source_lengths.tolist(), found.target_lengths.tolist(), strict=True):
        rows.append((found.source_ids[source : source + a].tolist(), found.target_ids[target : target + b].tolist()))
        source, target = source + a, target + b
    return rows


def test_shards_hold_the_tokens_of_every_kept_pair_once_in_order_and_in_the_right_split(built, tokenizer):
    library = load_tokenizer(tokenizer)
    cls, sep = (special_ids(library)[name] for name in ("cls", "sep"))

    def ids(text):
        return [cls, *library.encode(text, add_special_tokens=False).ids, sep]

    expected = {"train": [], "validation": []}
    for source, target in PAIRS:
        held_out = is_held_out(text_hash(target), SHARE)
        expected["validation" if held_out else "train"].append((ids(source), ids(target)))
    assert len(expected["validation"]) > 20
    for split, rows in expected.items():
        assert pairs_in(built, split) == rows


def test_every_pair_is_counted_with_its_reason(built):
    counts = read_manifest(built).counts
    assert counts.dropped == {reason: len(pairs) for reason, pairs in sorted(BAD.items())}
    assert (counts.read, counts.kept, counts.failed) == (240 + 11 + 1, 240, 1)


def test_the_manifest_and_the_pairs_say_what_they_are(built):
    manifest = read_manifest(built)
    assert (manifest.kind, manifest.row_length) == ("parallel", 60)
    assert manifest.languages == {"source": "de", "target": "en"}
    assert len(manifest.shards) > 4 and [source["name"] for source in manifest.sources] == [
        "a.de", "b.de", "a.en", "b.en",
    ]  # fmt: skip
    found = PairReader(built).pairs([0, 1])
    assert {ORIGINS[number] for number in found.origin} == {"bitext"} and str(found.score.tolist()) == "[nan, nan]"
    with pytest.raises(InputError, match="but holds pairs of sentences"):
        ShardReader(built)


def test_the_report_shows_counts_both_lengths_and_pairs_as_text(built):
    page = (built / "report.html").read_text()
    for words in ("dropped: ratio", "failed: undecodable", "Sources (de)", "Targets (en)", "de → en", "pairs kept"):
        assert words in page
    assert page.count("<svg") == 2 and "Hund".lower() in page and "b.en" in page
    assert not re.findall(r"https?|<script|src=|href=", page)


def test_one_and_two_workers_give_the_same_bytes(corpus, built, tmp_path, tokenizer):
    build(corpus, tmp_path / "two", tokenizer, workers=2, exclude=excluding(corpus))
    assert contents(tmp_path / "two") == contents(built)
    verify(tmp_path / "two")


def test_a_second_run_touches_nothing(corpus, built, tmp_path, tokenizer, caplog):
    caplog.set_level("INFO")
    output = shutil.copytree(built, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    build(corpus, output, tokenizer, exclude=excluding(corpus))
    assert "nothing to do" in caplog.text
    assert before == {path: path.stat().st_mtime_ns for path in output.rglob("*")}


def test_what_a_killed_run_left_is_completed_and_only_what_is_lacking_is_written(corpus, built, tmp_path, tokenizer):
    output = shutil.copytree(built, tmp_path / "out")
    shards = sorted((output / "shards/0000").glob("*.train.arrow"))
    (output / "manifest.json").unlink()
    shards[1].with_name(shards[1].name.replace(".train.arrow", ".json")).unlink()
    shards[1].write_bytes(b"half")
    (output / "shards/0000/.00000-00000000.train.arrow.7.tmp").write_bytes(b"half")
    with pytest.raises(InputError, match=r"no manifest\.json"):
        PairReader(output)
    stamps = {path: path.stat().st_mtime_ns for path in shards if path != shards[1]}
    build(corpus, output, tokenizer, exclude=excluding(corpus))
    assert contents(output) == contents(built)
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_an_option_that_changes_what_is_kept_builds_anew(corpus, built, tmp_path, tokenizer):
    output = shutil.copytree(built, tmp_path / "out")
    counts = build(corpus, output, tokenizer, max_ratio=None, drop_copies=False, deduplicate=False).counts
    assert counts.dropped == {"empty": 3, "too_long": 1}
    assert not (output / "work").exists()


def test_the_pipeline_has_one_leaf_and_only_portable_transforms():
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    build_pipeline(pipeline, tasks=[1, 2], settings=None, partitions=3)
    proto, _ = pipeline.to_runner_api(return_context=True)
    top = proto.components.transforms[proto.root_transform_ids[0]].subtransforms
    names = {proto.components.transforms[name].unique_name for name in top}
    assert names == {"ranges", "spread", "hash", "to partitions", "group", "find duplicates", "write"}


def test_a_tag_stands_behind_cls_and_no_text_becomes_it(tmp_path, tokenizer):
    (tmp_path / "a.tsv").write_text("der Hund <2en> [MASK]\tthe dog <2en> [MASK]\n")
    build(TsvCorpus([str(tmp_path / "a.tsv")]), tmp_path / "out", tokenizer, tag="<2en>", held_out_share=0.0)
    library = load_tokenizer(tokenizer)
    tag, reserved = library.token_to_id("<2en>"), {*special_ids(library).values()} - {library.token_to_id("[UNK]")}
    ((source, target),) = pairs_in(tmp_path / "out", "train")
    assert source[:2] == [special_ids(library)["cls"], tag] and source[-1] == special_ids(library)["sep"]
    assert tag not in source[2:] + target and not reserved & {*source[2:-1], *target[1:-1]}
    assert "&lt;2en&gt; der hund" in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize("tag", ["<2fr>", "hund"])
def test_a_tag_that_the_tokenizer_has_not_reserved_is_an_error(corpus, tmp_path, tokenizer, tag):
    with pytest.raises(InputError, match=rf"option 'job\.tag' is '{tag}'.*job\.added_tokens"):
        build(corpus, tmp_path / "out", tokenizer, tag=tag)


def test_swapped_sides_are_an_error_a_warning_or_nothing(corpus, tmp_path, tokenizer, caplog):
    swapped = BitextCorpus(corpus.target, corpus.source)
    options = {"exclude": [str(tmp_path / "none.txt")]}
    (tmp_path / "none.txt").write_text("")
    with pytest.raises(InputError, match=r"swapped: 100 of 100 sampled pairs have 'en' as source and 'de' as target"):
        build(swapped, tmp_path / "out", tokenizer, **options)
    assert not (tmp_path / "out/manifest.json").exists() and not (tmp_path / "out/shards").exists()
    build(swapped, tmp_path / "out", tokenizer, direction_check="warn", **options)
    assert "source and target seem to be swapped" in caplog.text
    caplog.clear()
    build(corpus, tmp_path / "right", tokenizer)
    build(swapped, tmp_path / "off", tokenizer, direction_check="off")
    assert "swapped" not in caplog.text


def test_languages_that_cannot_be_told_apart_are_not_checked(corpus, tmp_path, tokenizer, caplog):
    caplog.set_level("INFO")
    build(corpus, tmp_path / "out", tokenizer, source_language="xx-made-up", language_confidence=0.9)
    assert "the direction is not checked" in caplog.text and "language_confidence has no effect" in caplog.text


def test_pairs_with_a_side_in_the_other_language_go_where_that_is_asked_for(corpus, tmp_path, tokenizer):
    rows = [*PAIRS[:20], (PAIRS[20][1], PAIRS[21][1]), (PAIRS[30][0], PAIRS[31][0])]
    (tmp_path / "a.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    options = {"language_confidence": 0.9, "max_ratio": None}
    counts = build(TsvCorpus([str(tmp_path / "a.tsv")]), tmp_path / "out", tokenizer, **options).counts
    assert (counts.kept, counts.dropped) == (20, {"language": 2})


def test_misaligned_files_and_a_fault_in_a_step_are_told(tmp_path, tokenizer):
    (tmp_path / "a.de").write_bytes(gzip.compress(b"eins\nzwei\n"))
    (tmp_path / "a.en").write_bytes(b"one\n")
    corpus = BitextCorpus([str(tmp_path / "a.de")], [str(tmp_path / "a.en")])
    with pytest.raises(InputError, match=r"a\.de' has 2 and '\S*a\.en' has 1"):
        build(corpus, tmp_path / "out", tokenizer)
    (tmp_path / "a.en").write_bytes(b"one\nboom\n")

    def explode(text):
        return str(int(text)) if text == "boom" else text

    cleaning = Cleaning(explode=explode)
    counts = build(corpus, tmp_path / "out", tokenizer, cleaning=cleaning, max_ratio=9.0, held_out_share=0.0).counts
    assert (counts.kept, counts.failed) == (1, 1)
    assert "cleaning raised ValueError" in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("a\ta\n", r"the corpus is empty: of 1 pairs read none is left \(1 copy\)"),
        ("\xff many letters\tb\n", r"none of the 1 pairs of the corpus could be read: a\.tsv at byte 0"),
    ],
)
def test_a_corpus_of_which_nothing_is_left_is_an_error(tmp_path, tokenizer, lines, words):
    (tmp_path / "a.tsv").write_text(lines, encoding="latin-1")
    with pytest.raises(InputError, match=words):
        build(TsvCorpus([str(tmp_path / "a.tsv")]), tmp_path / "out", tokenizer)
    assert not (tmp_path / "out/manifest.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_length": 2}, r"job\.max_length' must be at least"),
        ({"max_length": 70_000}, r"job\.max_length' must be at most 65535"),
        ({"held_out_share": 1.0}, r"job\.held_out_share"),
        ({"language_confidence": 1.0}, r"job\.language_confidence' must be at least 0\.5 and below 1"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        job(**options)


def test_all_pairs_held_out_and_a_lacking_tokenizer_are_errors(corpus, tmp_path, tokenizer):
    with pytest.raises(InputError, match=r"option 'tokenizer' must name a directory .* for job=parallel"):
        build(corpus, tmp_path / "out", None)
    held_out = next(pair for pair in PAIRS if is_held_out(text_hash(pair[1]), SHARE))
    (tmp_path / "a.tsv").write_text("\t".join(held_out) + "\n")
    with pytest.raises(InputError, match=r"all 1 pairs are held out, .* lower job\.held_out_share"):
        build(TsvCorpus([str(tmp_path / "a.tsv")]), tmp_path / "out", tokenizer)


def test_sidecars_are_json_with_the_counts_of_their_range(built):
    sidecars = [json.loads(path.read_text()) for path in sorted((built / "shards/0000").glob("*.json"))]
    assert sum(sidecar["counts"]["read"] for sidecar in sidecars) == read_manifest(built).counts.read
