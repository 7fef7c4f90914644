"""`python -m pipeline` as a user runs it: in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from pipeline.shards import read_manifest, verify
from pipeline.tokenizer import save_tokenizer, train_wordpiece

ROOT = Path(__file__).resolve().parents[2]
# What may differ between two runs that made the same thing: when, where and by whom.
NOT_CONTENT = {"provenance.json", "config.yaml", ".lock"}


def command(*options: str, **more) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def run(*options: str, **more) -> tuple[int, str]:
    process = command(*options, **more)
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors


def sentence(errors: str) -> str:
    """The one line of an error, which is the last."""
    assert "Traceback" not in errors
    last = errors.strip().splitlines()[-1]
    assert last.startswith("error: ")
    return last


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in NOT_CONTENT
    }


def stamps(directory: Path) -> dict[str, tuple[int, int]]:
    """When each file was written last, and which file it is; locks, which every run takes, left out."""
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.stat().st_ino)
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name[0] != "."
    }


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus of 5 MB with duplicates, and a tokenizer."""
    folder = tmp_path_factory.mktemp("data")
    generator = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(generator.choice(letters, generator.integers(2, 9))) for _ in range(4000)])
    texts = [" ".join(generator.choice(words, generator.integers(8, 200))) for _ in range(9000)]
    texts += texts[:300]
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    save_tokenizer(train_wordpiece(texts[:2000], 1000), tokenizer)
    (folder / "empty.txt").write_text("")
    (folder / "blank.txt").write_text("\n \n\t\n")
    (folder / "program.bin").write_bytes(Path(sys.executable).read_bytes()[:100_000])
    return folder


@pytest.fixture
def options(data, tmp_path):
    return {
        "job": "masked_lm",
        "output": tmp_path / "out",
        "corpus.paths": f"[{data}/corpus.jsonl]",
        "corpus.range_bytes": 200_000,
        "tokenizer": data / "tokenizer",
        "runner.workers": 1,
    }


def as_words(options: dict) -> list[str]:
    return [f"{key}={value}" for key, value in options.items()]


def test_a_killed_run_leaves_nothing_that_looks_complete_and_the_next_ends_like_an_undisturbed_one(options, tmp_path):
    options |= {"runner.workers": 2}
    process = command(*as_words(options))
    shards = tmp_path / "out/shards/0000"
    while process.poll() is None and len(list(shards.glob("*.json"))) < 4:
        time.sleep(0.002)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "out/manifest.json").exists()
    psutil.wait_procs(family, timeout=20)
    done = {path: path.stat().st_mtime_ns for path in shards.glob("*.json")}
    assert 4 <= len(done) < 20
    code, errors = run(*as_words(options))
    assert code == 0, errors
    assert done == {path: path.stat().st_mtime_ns for path in done}  # what was finished was not done again
    code, errors = run(*as_words(options | {"output": tmp_path / "undisturbed", "runner.workers": 1}))
    assert code == 0, errors
    assert contents(tmp_path / "out") == contents(tmp_path / "undisturbed")
    verify(tmp_path / "out")
    assert read_manifest(tmp_path / "out").fill > 0.99


def test_a_run_tells_its_progress_writes_its_provenance_and_does_nothing_the_second_time(options, tmp_path, data):
    code, errors = run(*as_words(options), cwd=tmp_path)
    assert code == 0, errors
    assert "100%" in errors and "Traceback" not in errors and "WARNING" not in errors
    provenance = json.loads((tmp_path / "out/provenance.json").read_text())
    assert set(provenance["inputs"]) == {"corpus", "tokenizer"}
    assert "masked_lm" in (tmp_path / "out/config.yaml").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert provenance["command"].startswith("python -m pipeline job=masked_lm output=")
    # As if another version of the code had written it: the run that finds all complete must not sign for it.
    (tmp_path / "out/provenance.json").write_text('{"git": "another"}')
    before = stamps(tmp_path / "out")
    code, errors = run(*as_words(options))
    assert code == 0 and "nothing to do" in errors
    assert stamps(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("job", "more"),
    [
        ("tokenizer", {"job.vocab_size": 300}),
        ("documents", {}),
        ("corpus_tasks", {"job.held_out_share": 0.3, "job.train": 20, "job.dev": 20, "job.minimum": 2}),
    ],
)
def test_a_job_that_finds_its_output_complete_touches_no_file(tmp_path, job, more):
    library = Path(json.__file__).parents[1]
    roots = ",".join(str(library / name) for name in ("asyncio", "email", "http"))
    words = as_words({"job": job, "corpus": "python_docs", "corpus.roots": f"[{roots}]", "runner.workers": 1} | more)
    code, errors = run(*words, "output=out", cwd=tmp_path)
    assert code == 0, errors
    before = stamps(tmp_path / "out")
    assert "provenance.json" in before
    code, errors = run(*words, f"output={tmp_path}/out", cwd=tmp_path)
    assert code == 0 and "nothing to do" in errors
    assert stamps(tmp_path / "out") == before


def test_torch_is_never_imported(options):
    program = (
        "import sys, pipeline.__main__, pipeline.jobs.masked_lm, pipeline.jobs.tokenizer, pipeline.worker_processes\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"corpus.paths": "[/nowhere/*.jsonl]"}, "corpus path '/nowhere/*.jsonl' matches no file"),
        ({"corpus.paths": "[{data}/empty.txt]"}, "the corpus is empty"),
        ({"corpus.paths": "[{data}/blank.txt]"}, "the corpus is empty: of 0 documents read"),
        ({"corpus.paths": "[{data}/program.bin]"}, "program.bin' is not text"),
        ({"tokenizer": "/nowhere"}, "there is no tokenizer at '/nowhere'"),
        ({"tokenizer": "null"}, "option 'tokenizer' must name a directory"),
        ({"output": "{data}/empty.txt/out"}, "empty.txt/out' cannot be made, for '"),
        ({"job.row_length": 2}, "option 'job.row_length' must lie between 8 and 65535, but is 2"),
        ({"job.row_length": "wide"}, "option 'job.row_length' must be a whole number, but is 'wide'"),
        ({"runner.workers": 0}, "option 'runner.workers' must be at least 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_one_sentence_and_status_2(options, data, change, words):
    change = {key: str(value).replace("{data}", str(data)) for key, value in change.items()}
    code, errors = run(*as_words(options | change))
    assert code == 2, errors
    assert words in sentence(errors)


def test_an_output_in_use_is_an_error_that_names_the_holder(options, tmp_path):
    first = command(*as_words(options | {"corpus.range_bytes": 60_000}))
    while first.poll() is None and not list((tmp_path / "out").glob("work/hashes/*.npy")):
        time.sleep(0.01)
    code, errors = run(*as_words(options))
    assert code == 2 and f"in use by another run (process {first.pid} on " in sentence(errors)
    _, errors = first.communicate()
    assert first.returncode == 0, errors


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.full), 2])
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_when_there_is_room(options, small_disk, workers):
    options |= {"output": small_disk / "out", "runner.workers": workers}
    code, errors = run(*as_words(options))
    assert code != 0
    assert errors.strip().splitlines()[-1].startswith("error: disk full while writing '"), errors
    assert not (small_disk / "out/manifest.json").exists()
    assert not list(small_disk.rglob("*.tmp"))
    subprocess.run(["mount", "-o", "remount,size=100m", small_disk], check=True)
    code, errors = run(*as_words(options))
    assert code == 0, errors
    verify(small_disk / "out")
