"""The Hydra entries of corpora, cleaning and the jobs that read them."""

import inspect
import json
import re
import sys
from pathlib import Path

import hydra
import pytest
from omegaconf import OmegaConf

import conf
from conf.checks import locate
from conf.command import compose
from pipeline.__main__ import PipelineOptions
from tests.helpers.warm_python import run_module

GROUPS = Path(conf.__file__).parent
ENTRIES = [
    *(f"corpus/{name}" for name in ("text", "none", "python_docs", "bitext", "tsv", "translations")),
    *(f"job/{name}" for name in ("documents", "corpus_tasks", "parallel", "back_translation", "cldr_bitext")),
]


def nodes(node):
    yield node
    for value in node.values():
        if isinstance(value, dict) and "_target_" in value:
            yield from nodes(value)


LANGUAGES = ["job.source_language=de", "job.target_language=en"]


@pytest.mark.parametrize("entry", [*ENTRIES, "cleaning/default", "cleaning/sentences"])
def test_every_option_can_be_overridden_because_the_entry_lists_it(entry):
    config = OmegaConf.to_container(OmegaConf.load(GROUPS / f"{entry}.yaml"), resolve=False)
    for node in nodes(config):
        parameters = inspect.signature(locate(node["_target_"], entry)).parameters.values()
        named = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
        assert named <= set(node), node["_target_"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_values_of_an_entry_are_the_defaults_of_its_class(entry):
    config = OmegaConf.to_container(OmegaConf.load(GROUPS / f"{entry}.yaml"), resolve=False)
    for name, parameter in inspect.signature(locate(config["_target_"], entry)).parameters.items():
        if name in config and isinstance(parameter.default, str | int | float):
            assert config[name] == parameter.default, name


@pytest.mark.parametrize("job", ["documents", "corpus_tasks"])
@pytest.mark.parametrize("cleaning", ["default", "none"])
def test_jobs_are_built_with_the_cleaning_that_is_chosen(job, cleaning):
    overrides = [f"job={job}", f"cleaning={cleaning}", "output=x", "corpus=python_docs"]
    config = compose("pipeline", overrides, PipelineOptions)
    built = hydra.utils.instantiate(config.job, _convert_="all")
    assert (len(built.cleaning.steps) > 0) == (cleaning == "default")


@pytest.mark.parametrize(("job", "corpus"), [("parallel", "text"), ("back_translation", "translations")])
def test_jobs_on_pairs_choose_their_cleaning_and_leave_it_to_be_overridden(job, corpus):
    given = [f"job={job}", "output=x", "job.source_language=de", "job.target_language=en"]
    given.append("corpus.directory=y" if corpus == "translations" else "corpus.paths=[y]")
    config = compose("pipeline", given, PipelineOptions)
    assert list(config.cleaning) == ["_target_", "normalise", "spaces"]
    assert "TranslationsCorpus" in config.corpus._target_ or corpus == "text"
    config = compose("pipeline", [*given, "cleaning=none"], PipelineOptions)
    assert list(config.cleaning) == ["_target_"]


@pytest.mark.parametrize(
    ("job", "corpus", "words"),
    [
        (
            "documents",
            ["corpus=bitext", "corpus.source=[a.txt]", "corpus.target=[a.txt]"],
            "reads documents, but .* pairs",
        ),
        ("parallel", ["corpus.paths=[a.txt]", *LANGUAGES], "reads pairs, but the corpus holds documents"),
    ],
)
def test_a_corpus_that_does_not_fit_the_job_is_one_sentence(job, corpus, words, tmp_path):
    (tmp_path / "a.txt").write_text("A line\n")
    result = command(f"job={job}", *corpus, "output=out", directory=tmp_path)
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert re.search(f"error: this job {words}", result.stderr)


def command(*overrides, directory):
    return run_module([sys.executable, "-m", "pipeline", "runner.workers=1", *overrides], cwd=directory)


def test_the_command_writes_documents(tmp_path):
    (tmp_path / "a.txt").write_text("A line of text that is long enough to be kept.\nshort\n")
    result = command("job=documents", "corpus.paths=[a.txt]", "output=out", directory=tmp_path)
    assert result.returncode == 0, result.stderr
    counts = json.loads((tmp_path / "out" / "manifest.json").read_text())["counts"]
    assert counts == {"read": 2, "kept": 1, "dropped": {"too_short": 1}, "failed": 0}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing-is-not-there", None, "matches no file"),
        ("empty.txt", b"", "the corpus is empty"),
        ("blank.txt", b"\n \n\n", "the corpus is empty: of 0 documents read none is left"),
        ("program.bin", b"\x7fELF\x00\x00\x01\x02" * 100, "program.bin' is not text"),
    ],
)
def test_bad_input_is_one_sentence_and_a_failing_exit_code(name, content, said, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = command("job=documents", f"corpus.paths=[{name}]", "output=out", directory=tmp_path)
    assert result.returncode == 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert said in errors[0]
    assert "Traceback" not in result.stderr
