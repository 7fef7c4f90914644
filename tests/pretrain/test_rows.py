"""`python -m pretrain.rows` as a user runs it, against what the loader hands to training."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from conf.command import compose
from conf.provenance import write_provenance
from pipeline.shards import read_manifest, write_manifest
from pretrain.data.loader import Layout, Loader
from pretrain.data.mixture import open_mixture
from pretrain.objectives import MicroBatch
from pretrain.rows import read_run, rows_of_step, table
from pretrain.stages import StageEntry
from tests.helpers.pair_directory import NOUNS, write_toy_pairs
from tests.helpers.ranks import REPOSITORY
from tests.helpers.shard_directory import sentences, write_shards
from tests.helpers.warm_python import run_module

TEXTS = sentences(400)
FROM_THE_START = (StageEntry(0, 0, 0),)


class Recorder:
    """An objective whose batch is the rows it was given."""

    loss_names, columns, needs_partners = ("x",), (), False

    def make_batch(self, rows, row_keys, used, *, training, partners=None):
        return MicroBatch((rows.input_ids, used), {}, 0)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    made = write_shards(folder / "a", TEXTS), write_shards(folder / "b", TEXTS[::-1], held_out=0.3)
    for directory in made:
        source = {"name": f"corpus_{directory.name}.txt", "size": 1, "fingerprint": "x"}
        write_manifest(directory, replace(read_manifest(directory), sources=[source]))
    return made


def write_run(run_dir, shards, entries=FROM_THE_START, *overrides, last=40, data=None):
    """What a run leaves that its rows follow from: options, provenance and where each stage began."""
    a, b = shards
    run_dir.mkdir()
    sizes = (
        "trainer.global_batch_size=16",
        "trainer.micro_batch_size=4",
        "trainer.log_every=10",
        "ranks=2",
        "trainer.max_steps=60",
    )
    data = f"data={data or f'{{{a}: 0.7, {b}: 0.3}}'}"
    config = compose("pretrain", ["experiment=tiny", f"run_dir={run_dir}", data, "seed=5", *sizes, *overrides])
    hashes = {str(path): read_manifest(path).content_hash for path in shards}
    write_provenance(run_dir, config, hashes, {"seed": 5})
    lines = [{"step": e.step, "stage": e.stage, "first_sample": e.first_sample} for e in entries]
    lines += [{"step": step, "loss": 1.0} for step in range(10, last + 1, 10)]
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 4')
    return run_dir


def rows_command(*overrides):
    return run_module([sys.executable, "-m", "pretrain.rows", *overrides], cwd=REPOSITORY)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_rows_of_a_step_are_those_that_each_rank_trained_on(shards, tmp_path, ranks):
    run = read_run(write_run(tmp_path / "run", shards))
    rows = rows_of_step(run, 23, ranks=ranks, text=True)
    assert [row.place for row in rows] == list(range(16))
    mixture = open_mixture({str(path): weight for path, weight in zip(shards, (0.7, 0.3), strict=True)})
    readers = {str(source.directory): source.reader for source in mixture.sources}
    for rank in range(ranks):
        made = Loader(mixture, Recorder(), 5, Layout(16, 4, rank, ranks)).step(22 * 16)
        for micro_step, micro_batch in enumerate(made):
            mine = [row for row in rows if (row.rank, row.micro_step) == (rank, micro_step)]
            found = np.concatenate([readers[row.data].rows(row.row).input_ids for row in mine])
            assert np.array_equal(found, micro_batch.batch[0])
    assert {row.data for row in rows} == set(readers)
    for row in rows:
        assert len(row.documents) == len(row.text) > 0
        for document, text in zip(row.documents, row.text, strict=True):
            assert document["file"] == f"corpus_{'a' if row.data == str(shards[0]) else 'b'}.txt"
            texts = TEXTS if row.data == str(shards[0]) else TEXTS[::-1]
            # A long document is cut into pieces; WordPiece leaves the spaces open.
            assert text.replace(" ", "") in texts[document["offset"]].replace(" ", "")


def test_the_step_belongs_to_the_stage_it_was_made_in_and_goes_on_where_its_data_stopped(shards, tmp_path):
    a, b = shards
    stages = f"stages={{short: {{share: 0.5, data: {a}, global_batch_size: 8}}, long: {{share: 0.5, data: {b}}}}}"
    entries = (StageEntry(0, 0, 0), StageEntry(20, 1, 0), StageEntry(30, 1, 160))
    run = read_run(write_run(tmp_path / "run", shards, entries, stages))
    first = rows_of_step(run, 20, ranks=2)
    assert len(first) == 8 and {row.data for row in first} == {str(a)}
    assert [row.row for row in first] == open_mixture(str(a)).pick(5, 19 * 8, 8).rows.tolist()
    second = rows_of_step(run, 33)
    assert len(second) == 16 and {row.data for row in second} == {str(b)}
    assert [row.row for row in second] == open_mixture(str(b)).pick(5, 160 + 2 * 16, 16).rows.tolist()


def test_rows_of_a_run_whose_weights_followed_from_an_exponent_are_found(shards, tmp_path):
    a, b = map(str, shards)
    sized = {"data": f"[{a},{b}]"}
    run = read_run(write_run(tmp_path / "run", shards, FROM_THE_START, "sampling_exponent=0.5", **sized))
    found = [(row.data, row.row) for row in rows_of_step(run, 23)]
    mixture = open_mixture([a, b], sampling_exponent=0.5)
    expected = mixture.pick(5, 22 * 16, 16)
    names = [str(mixture.sources[number].directory) for number in expected.source]
    assert found == list(zip(names, expected.rows.tolist(), strict=True))


@pytest.mark.parametrize(("into", "words"), [("en", set(NOUNS)), ("de", set(NOUNS.values()))])
def test_a_run_on_pairs_is_read_as_its_objective_says(tmp_path, into, words):
    """In batches of its size, and into its language: where the shards go from it, with their sides swapped."""
    pairs = write_toy_pairs(tmp_path / "pairs", 300)
    options = ["model=mass_tiny", "objective=translation", "objective.batch_tokens=128"]
    options += [f"objective.target_language={into}"]
    run = write_run(tmp_path / "run", (pairs, pairs), FROM_THE_START, *options, data=pairs)
    rows = rows_of_step(read_run(run), 1, text=True)
    assert all(0 < len(row.text) == len(row.documents) <= 128 // 8 for row in rows)
    assert {word for row in rows for text in row.text for word in text.split(" => ")[0].split()} == words


def test_the_table_shows_every_row_with_its_documents_and_texts(shards, tmp_path):
    rows = rows_of_step(read_run(write_run(tmp_path / "run", shards)), 1, text=True)
    head, *lines = table(rows)
    assert head.split() == [
        "place",
        "rank",
        "micro-step",
        "data",
        "row",
        "visit",
        "weight",
        "documents",
        "(file:offset)",
    ]
    plain = [line for line in lines if not line.startswith("    | ")]
    assert len(plain) == 16 and len(lines) == 16 + sum(len(row.text) for row in rows)
    assert plain[5].split()[:7] == ["5", "1", "0", rows[5].data, str(rows[5].row), "0", "1"]
    assert f"{rows[5].documents[0]['file']}:{rows[5].documents[0]['offset']}" in plain[5]
    assert lines[1] == f"    | {rows[0].text[0]}"


def test_what_the_command_prints_as_jsonl_is_a_skip_list(shards, tmp_path):
    done = rows_command(f"run_dir={write_run(tmp_path / 'run', shards)}", "step=3", "format=jsonl", "text=true")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    first = json.loads(lines[0])
    assert first["step"] == 3 and first["place"] == 0 and first["weight"] == 1 and first["text"]
    (tmp_path / "skip.jsonl").write_text("\n".join(lines[4:6]))
    skipping = write_run(tmp_path / "again", shards, FROM_THE_START, f"skip_rows={tmp_path / 'skip.jsonl'}")
    again = rows_command(f"run_dir={skipping}", "step=3", "ranks=1")
    assert again.returncode == 0, again.stderr
    weights = [line.split()[6] for line in again.stdout.splitlines()[1:]]
    assert weights == ["1"] * 4 + ["0"] * 2 + ["1"] * 10


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ["run_dir=none", "step=1"],
            "run_dir must be the directory of a run of `python -m pretrain`, but 'none/",
        ),
        (["run_dir={run}", "step=0"], "step must be a step of the run, from 1 on, but is 0"),
        (["run_dir={run}", "step=51"], "step must be one that the run in '{run}' has made, at most 50, but is 51"),
        (["run_dir={done}", "step=41"], "step must be one that the run in '{done}' has made, at most 40, but is 41"),
        (["run_dir={fork}", "step=30"], "made, after 30, where it began as a fork, but is 30"),
        (["run_dir={run}", "step=1", "ranks=3"], "ranks = 4 * 3, but is 16"),
        (["run_dir={run}", "step=1", "ranks=0"], "ranks must be at least 1, but is 0"),
        (["run_dir={run}"], "option 'step' must be given"),
        (["run_dir={run}", "step=one"], "option 'step' must be a whole number"),
        (["run_dir={run}", "step=1", "format=csv"], "option 'format' must be one of 'table', 'jsonl'"),
        (["run_dir={empty}", "step=1"], "'{empty}/config.yaml' must hold the options of a run"),
        (["run_dir={young}", "step=1"], "must have made a step, but has no metrics.jsonl"),
        (["run_dir={other}", "step=1"], "must be those that the run in '{other}' read"),
    ],
)
def test_what_cannot_be_printed_is_one_sentence(shards, tmp_path, overrides, sentence):
    places = {name: tmp_path / name for name in ("run", "empty", "young", "other", "fork", "done")}
    for name in ("run", "young", "other"):
        write_run(places[name], shards)
    write_run(places["fork"], shards, (StageEntry(30, 0, 480),))
    write_run(places["done"], shards, FROM_THE_START, "trainer.max_steps=40")
    places["empty"].mkdir()
    (places["empty"] / "config.yaml").write_text("checkpoint: x\n")
    (places["young"] / "metrics.jsonl").unlink()
    (places["other"] / "provenance.json").write_text('{"inputs": {"shards": "sha256:of another day"}}')
    done = rows_command(*(word.format(**places) for word in overrides))
    assert done.returncode == 2, done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ") and sentence.format(**places) in done.stderr
