"""`benchmarks.mlm_step` at a tiny size: all contestants run, ratios are written, wrong files are one sentence."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import mlm_data
from benchmarks.mlm_breakdown import VARIANTS
from pipeline.shards import ShardReader
from tests.helpers.warm_python import run_module

REPOSITORY = Path(__file__).resolve().parents[2]
WORDS = [f"{stem}{ending}" for stem in ("bal", "dor", "fim", "gan", "hul", "jet") for ending in ("a", "ek", "io", "ul")]


def texts(count: int) -> list[str]:
    """Documents of three paragraphs of very different lengths."""
    return [
        "\n\n".join(
            f"{number} " + " ".join(WORDS[(number * 7 + i * step) % len(WORDS)] for i in range(length))
            for step, length in ((1, 12), (3, 40), (5, 150))
        )
        for number in range(count)
    ]


def write(path: Path, lines: list[str]) -> Path:
    content = "".join(json.dumps({"text": line}) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return run_module([sys.executable, "-m", "benchmarks.mlm_step", *options], cwd=REPOSITORY, timeout=550)


PEERS = {f"{name}_ratio_tiny" for name in ("transformers", "plain", "plain_random")}
PARTS = {f"{one.key}_factor_tiny" for one in VARIANTS}


@pytest.mark.parametrize(
    ("clock", "more", "expected"),
    [
        # The first and the last are commands of docs/benchmarks.md.
        pytest.param("wall", [], PEERS, marks=pytest.mark.full),
        pytest.param("cpu", [], PEERS, marks=pytest.mark.full),
        pytest.param("wall", ["--breakdown"], PARTS, marks=pytest.mark.full),
    ],
)
def test_runs_through_and_writes_its_ratios(tmp_path: Path, clock: str, more: list[str], expected: set[str]) -> None:
    file = write(tmp_path / "texts.jsonl.gz", texts(400))
    options = ["--quick", "--shapes", "tiny", "--steps", "1", "--file", str(file), "--clock", clock]
    done = run(*options, *more, "--json", str(tmp_path / "ratios.json"))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    ratios = json.loads((tmp_path / "ratios.json").read_text())
    assert ratios.keys() == expected
    assert all(value > 0.0 for value in ratios.values())
    assert "real tokens" in " ".join(done.stdout.split())


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"title": "no text"}\n')
    done = run("--quick", "--file", str(path))
    assert done.returncode == 2
    assert done.stderr.startswith("error: --file must name jsonl or jsonl.gz files with a field 'text', but ")


def test_paragraphs_are_cut_and_all_contestants_get_the_same_pieces(tmp_path: Path) -> None:
    file = write(tmp_path / "texts.jsonl", texts(40))
    shards = mlm_data.prepare(tmp_path, [file], "paragraphs", 10**9, 64)
    reader = ShardReader(shards)
    pieces = mlm_data.sequences(shards, len(reader))
    assert sum(map(len, pieces)) == sum(shard.tokens for shard in reader.manifest.split("train"))
    assert max(map(len, pieces)) <= 64
    # A paragraph of 12 words is a piece of its own, and none is put together from two.
    assert min(map(len, pieces)) < 30


def test_a_limit_takes_the_same_share_of_every_text() -> None:
    cut = mlm_data._evenly(["a" * 100, "b" * 300], 200)
    assert [len(text) for text in cut] == [50, 150]


def test_text_without_blank_lines_is_cut_at_line_ends() -> None:
    assert mlm_data._cut("one\ntwo\n\nthree") == ["one\ntwo", "three"]
    assert mlm_data._cut("one\ntwo\n") == ["one", "two"]
