"""Translations by several ranks, killed and stopped: always the same bytes; and memory that does not grow."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pipeline.pair_shards import PairReader
from pipeline.tokenizer import load_tokenizer
from tests.helpers.ranks import REPOSITORY
from tests.helpers.shard_directory import write_shards
from tests.helpers.translation import command, content, environment, lines, run, sentences, write_model
from tests.integration.print_translate_memory import measure


def crash(*options):
    return subprocess.run(
        [sys.executable, "-m", "tests.integration.translate_kills", *options],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def check(done, kills):
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert f"{kills} kills by seed" in done.stdout and "is byte for byte what it is undisturbed" in done.stdout
    return [list(map(str.strip, row.split("|")[1:-1])) for row in done.stdout.splitlines()[2 : 2 + kills]]


def test_two_kills_leave_no_trace():
    hits = check(crash("kills=2", "seed=3", "sentences=90"), 2)
    assert int(hits[-1][3]) > 0


@pytest.mark.full
def test_ten_kills_leave_no_trace():
    hits = check(crash("kills=10", "seed=2"), 10)
    assert len({row[1] for row in hits}) > 1  # numbers of ranks


@pytest.mark.full  # a command of docs/commands/translate.md runs two ranks too
def test_ranks_that_the_command_starts_write_what_one_does(tmp_path):
    model = write_model(tmp_path / "model")
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in sentences(100)))
    outputs = []
    for ranks in (1, 2):
        output = tmp_path / f"out{ranks}"
        words = [f"checkpoint={model}", f"input={tmp_path / 'in.txt'}", "chunk_bytes=300", "decoding.beams=2"]
        done = run(*words, f"output={output}", f"ranks={ranks}")
        assert done.returncode == 0, done.stderr[-3000:]
        assert "complete: 100 read" in done.stderr
        outputs.append(output)
    assert content(outputs[0]) == content(outputs[1])
    assert "sentences/s" in done.stderr and "tokens/s" in done.stderr


def test_a_signal_ends_it_between_two_batches_and_the_same_command_goes_on(tmp_path):
    model = write_model(tmp_path / "model")
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in sentences(400)))
    words = [f"checkpoint={model}", f"input={tmp_path / 'in.txt'}", f"output={tmp_path / 'out'}", "chunk_bytes=300"]
    words += ["batch_tokens=100"]
    process = subprocess.Popen(command(*words), cwd=REPOSITORY, env=environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while not list((tmp_path / "out").glob("progress/*.json")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 85, said
    assert "asked to stop: finished chunks are kept" in said
    assert (tmp_path / "out" / "requeue").exists() and not (tmp_path / "out" / "manifest.json").exists()
    settings = json.loads((tmp_path / "out" / "settings.json").read_text())
    assert settings["search"]["beams"] == 5


def test_packed_rows_become_scored_and_filtered_pairs_by_two_commands(tmp_path):
    model, forward = write_model(tmp_path / "model"), write_model(tmp_path / "forward", seed=3)
    write_shards(tmp_path / "rows", sentences(60), row_length=24, held_out=0, tokenizer=load_tokenizer(model))
    words = [f"checkpoint={model}", f"score_with={forward}", f"input={tmp_path / 'rows'}", "chunk_bytes=480"]
    done = run(
        *words, f"output={tmp_path / 'out'}", "decoding=greedy", "decoding.maximum_length=5", "decoding.maximum_ratio=1"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [output for line in lines(tmp_path / "out") for output in line["translations"] if output["text"]]
    scores = sorted(output["dual_score"] for output in found)
    least = scores[len(scores) // 2]
    options = ["tag=null", "max_ratio=null", "max_repeats=null", "direction_check=off", "language_confidence=null"]
    options += ["deduplicate=false", "drop_copies=false", f"minimum_dual_score={least}", "score=dual"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pipeline", "job=back_translation", f"corpus.directory={tmp_path / 'out'}"),
            *(f"tokenizer={model}", f"output={tmp_path / 'pairs'}", "runner.workers=1"),
            *("job.source_language=de", "job.target_language=en", *(f"job.{option}" for option in options)),
        ],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reader = PairReader(tmp_path / "pairs")
    assert reader.manifest.counts.dropped["low_dual_score"] == sum(score < least for score in scores) > 5
    kept = reader.pairs(range(len(reader))).score
    assert sorted(kept.tolist()) == [np.float32(score) for score in scores if score >= least]


def test_bad_input_ends_with_2_and_one_sentence(tmp_path):
    done = run(f"checkpoint={tmp_path / 'none'}", "input=none.txt", f"output={tmp_path / 'out'}", "chunk_bytes=0")
    assert done.returncode == 2
    assert re.fullmatch(r"error: option 'chunk_bytes' must be at least 1, but is 0\n", done.stderr)
    assert not (tmp_path / "out").exists()


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_memory_does_not_grow_with_the_input(tmp_path):
    rows = measure(2000, 1, tmp_path)
    assert rows[-1][2] < 1.1 * rows[0][2], rows
