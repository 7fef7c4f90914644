import json
import re
import sys
from pathlib import Path

import babel
import pytest

from conf.command import compose
from conf.errors import InputError
from conf.files import sha256_file
from pipeline.__main__ import PipelineOptions
from pipeline.cldr_bitext.split import SEEN, UNSEEN, normalised
from pipeline.jobs.cldr_bitext import CldrBitextJob
from pipeline.no_corpus import NoCorpus
from pipeline.runners import LocalRunner
from pipeline.sources import TextCorpus
from tests.helpers.warm_python import run_module

SMALL = {"bitext_pairs": 120, "monolingual_sentences": 300, "validation_pairs": 20, "test_pairs": 50}
FILES = {
    "bitext.tsv": 120,
    "monolingual.en": 300,
    "monolingual.de": 300,
    "validation.tsv": 20,
    "validation.jsonl": 20,
    "test.tsv": 50,
    "test.jsonl": 50,
    "exclusions.txt": 100,
}


class CountingRunner:
    workers = 1

    def __init__(self):
        self.runs = 0

    def run(self, build, units=None):
        self.runs += 1
        LocalRunner(1).run(build, units)


def run(output, corpus=None, runner=None, **options):
    output.mkdir(exist_ok=True)
    CldrBitextJob(**SMALL | options).run(corpus or NoCorpus(), output, None, runner or LocalRunner(1))
    return json.loads((output / "manifest.json").read_text())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    output = tmp_path_factory.mktemp("cldr") / "out"
    return output, run(output)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_files_and_the_manifest_hold_what_was_asked_for(made):
    output, manifest = made
    assert {name: len(lines(output / name)) for name in FILES} == FILES
    assert {path.name for path in output.iterdir()} == {*FILES, "manifest.json"}
    for name, number in FILES.items():
        assert manifest["files"][name] == {"lines": number, "checksum": f"sha256:{sha256_file(output / name)}"}
    assert manifest["babel_version"] == babel.__version__
    assert manifest["config"]["seed"] == 0
    assert manifest["tags"]["test"] == {SEEN: 25, UNSEEN: 25}
    names = manifest["names"]
    assert names["bitext"]["present"] + len(names["bitext"]["absent"]) == names["all"]
    assert names["bitext"]["present"] < names["monolingual.de"]["present"]


def test_exclusions_are_both_sides_of_the_test_and_none_of_them_is_in_a_training_file(made):
    output, _ = made
    excluded = lines(output / "exclusions.txt")
    pairs = [line.split("\t") for line in lines(output / "test.tsv")]
    assert excluded == [source for source, _ in pairs] + [target for _, target in pairs]
    training = [
        text for name in ("bitext.tsv", "validation.tsv") for line in lines(output / name) for text in line.split("\t")
    ]
    training += lines(output / "monolingual.en") + lines(output / "monolingual.de")
    assert {normalised(text) for text in excluded}.isdisjoint({normalised(text) for text in training})


def test_items_of_the_test_are_its_pairs_with_their_tags(made):
    output, manifest = made
    items = [json.loads(line) for line in lines(output / "test.jsonl")]
    assert [f"{item['text']}\t{item['reference']}" for item in items] == lines(output / "test.tsv")
    assert [item["id"] for item in items] == [f"test-{number}" for number in range(50)]
    assert sum(item["names"] == UNSEEN for item in items) == 25
    absent = {name for name in manifest["names"]["bitext"]["absent"] if name.startswith("currency/")}
    assert absent
    assert {"frame", "id", "names", "reference", "text"} == set(items[0])


def test_the_sides_are_the_languages_they_are_said_to_be(made):
    output, _ = made
    for line in lines(output / "bitext.tsv"):
        source, target = line.split("\t")
        assert not re.search(r"\b(der|die|das|um|nach|in der|sie|er)\b", source)
        assert re.search(r"\b(Sie|Er|Der|Die|Das|Am|Im|In|Zu|Wir|Bitte)\b", target)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_sentences(made, tmp_path):
    output, manifest = made
    run(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(output)
    other = run(tmp_path / "other", seed=1)
    assert other["content_hash"] != manifest["content_hash"]
    assert len(set(lines(tmp_path / "other" / "bitext.tsv")) & set(lines(output / "bitext.tsv"))) < 6


def test_a_complete_output_is_left_as_it_is_and_a_damaged_or_differing_one_is_made_again(tmp_path):
    runner = CountingRunner()
    output = tmp_path / "out"
    first = run(output, runner=runner)
    before = contents(output)
    run(output, runner=runner)
    assert runner.runs == 1
    (output / "monolingual.de").write_text("Etwas anderes.\n")
    run(output, runner=runner)
    assert runner.runs == 2
    assert contents(output) == before
    assert run(output, runner=runner, target="zh")["key"] != first["key"]
    assert len(lines(output / "monolingual.zh")) == 300
    assert not (output / "monolingual.de").exists()


def test_a_runner_that_does_nothing_is_noticed(tmp_path):
    class Idle:
        workers = 1

        def run(self, build, units=None):
            pass

    with pytest.raises(RuntimeError, match="nothing was written"):
        run(tmp_path / "out", runner=Idle())


def test_a_corpus_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("Text.\n")
    with pytest.raises(InputError, match="leave the corpus out"):
        run(tmp_path / "out", corpus=TextCorpus([str(tmp_path / "a.txt")]))
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bitext_pairs": 0}, "'job.bitext_pairs' must be at least 1, but is 0"),
        ({"test_pairs": -3}, "'job.test_pairs' must be at least 1, but is -3"),
        ({"names_in_bitext": 0.0}, "'job.names_in_bitext' must be above 0 and at most 1, but is 0.0"),
        ({"names_in_bitext": 1.5}, "'job.names_in_bitext' must be above 0 and at most 1, but is 1.5"),
        ({"unseen_share": 1.1}, "'job.unseen_share' must be between 0 and 1, but is 1.1"),
    ],
)
def test_an_option_out_of_its_range_is_said_in_a_sentence(options, said):
    with pytest.raises(InputError, match=re.escape(said)):
        CldrBitextJob(**options)


def test_the_job_chooses_no_corpus_for_itself_and_others_keep_theirs():
    config = compose("pipeline", ["job=cldr_bitext", "output=x"], PipelineOptions)
    assert config.corpus == {"_target_": "pipeline.no_corpus.NoCorpus"}
    assert set(config.job) == {"_target_", *CldrBitextJob.__dataclass_fields__}
    assert compose("pipeline", ["job=documents", "output=x"]).corpus._target_ == "pipeline.sources.TextCorpus"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "fr"}, "option 'job.target' must be one of en, de, zh, but is 'fr'"),
        ({"bitext_pairs": 10**14}, "option 'job.bitext_pairs' asks for 100000000000000 sentences of 'bitext'"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_a_sentence_and_nothing_is_written(options, said, tmp_path):
    with pytest.raises(InputError, match=f"^{re.escape(said)}"):
        run(tmp_path / "out", **options)
    assert not list((tmp_path / "out").iterdir())


def test_the_command_writes_it_and_records_its_provenance(tmp_path):
    command = [sys.executable, "-m", "pipeline", "job=cldr_bitext", "output=out", "runner.workers=1", "job.seed=1"]
    words = [*command, *(f"job.{name}={value}" for name, value in SMALL.items())]
    done = run_module(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bitext.tsv 120" in done.stderr.splitlines()[-1]
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["config"]["seed"] == 1
    assert json.loads((tmp_path / "out" / "provenance.json").read_text())["seeds"] == {"job": 1}
