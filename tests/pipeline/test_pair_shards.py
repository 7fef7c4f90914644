import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.manifest import MANIFEST
from pipeline.pair_shards import ORIGINS, PairReader, PairRows, Pairs, PairWriter, pair_schema, write_pairs
from pipeline.shards import ROWS_PER_BATCH, ShardReader, ShardRows, read_manifest, verify
from pipeline.tokenizer import save_tokenizer, train_wordpiece
from tests.helpers.pair_directory import pairs_of, write_pair_directory
from tests.helpers.ranks import REPOSITORY


def random_rows(count: int, seed: int = 0, longest: int = 20):
    generator = np.random.default_rng(seed)

    def side():
        return [2, *generator.integers(5, 60, generator.integers(0, longest)).tolist(), 3]

    return [(side(), side(), n % 2, float(n) / 7 if n % 2 else math.nan) for n in range(count)]


ROWS = {
    "00000-aaaaaaaa.train": random_rows(ROWS_PER_BATCH + 1000, 1),
    "00000-aaaaaaaa.validation": random_rows(50, 2),
    "00001-bbbbbbbb.train": random_rows(300, 3),
}
TRAIN = [row for name, rows in ROWS.items() if name.endswith("train") for row in rows]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(train_wordpiece([f"the {n} brown foxes jump" for n in range(50)], 80), path)
    return path


@pytest.fixture(scope="module")
def directory(tmp_path_factory, tokenizer):
    path = tmp_path_factory.mktemp("pairs") / "directory"
    write_pair_directory(path, tokenizer, ROWS)
    return path


def rows_of(pairs: Pairs):
    """Pairs as rows again: [(source, target, origin, score)]."""
    sources = np.split(pairs.source_ids, np.cumsum(pairs.source_lengths)[:-1]) if len(pairs) else []
    targets = np.split(pairs.target_ids, np.cumsum(pairs.target_lengths)[:-1]) if len(pairs) else []
    return [
        (source.tolist(), target.tolist(), int(origin), float(score))
        for source, target, origin, score in zip(sources, targets, pairs.origin, pairs.score, strict=True)
    ]


def same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a[:3] == (list(b[0]), list(b[1]), b[2])
        assert a[3] == np.float32(b[3]) or (math.isnan(a[3]) and math.isnan(b[3]))


def test_all_pairs_come_back_as_they_were_written(directory):
    reader = PairReader(directory)
    same(rows_of(reader.pairs(range(len(reader)))), TRAIN)
    same(rows_of(PairReader(directory, "validation").pairs(range(50))), ROWS["00000-aaaaaaaa.validation"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pairs_asked_in_any_order_and_repeatedly_are_those_pairs(directory, data):
    reader = PairReader(directory, verify=False)
    indices = data.draw(st.lists(st.integers(0, len(TRAIN) - 1), max_size=20))
    found = reader.pairs(indices)
    assert found.source_ids.dtype == found.target_ids.dtype == np.uint16
    assert found.source_lengths.dtype == found.target_lengths.dtype == np.int64
    assert (found.origin.dtype, found.score.dtype) == (np.uint8, np.float32)
    same(rows_of(found), [TRAIN[i] for i in indices])


def test_lengths_are_those_of_every_pair(directory):
    sources, targets = PairReader(directory).lengths()
    assert sources.dtype == targets.dtype == np.int32
    assert sources.tolist() == [len(row[0]) for row in TRAIN]
    assert targets.tolist() == [len(row[1]) for row in TRAIN]


def test_a_split_without_pairs_has_lengths_and_pairs_of_none(tmp_path, tokenizer):
    write_pair_directory(tmp_path / "a", tokenizer, {"00000-aaaaaaaa.train": random_rows(3)})
    reader = PairReader(tmp_path / "a", "validation")
    assert len(reader) == 0 and [part.shape for part in reader.lengths()] == [(0,), (0,)]
    assert len(reader.pairs([])) == 0 and reader.pairs([]).source_ids.dtype == np.uint16


@pytest.mark.parametrize("index", [-1, len(TRAIN)])
def test_a_pair_outside_the_split_is_an_index_error(directory, index):
    with pytest.raises(IndexError):
        PairReader(directory, verify=False).pairs([index])


def test_the_manifest_tells_of_kind_languages_tokens_and_the_longest_side(directory):
    manifest = read_manifest(directory)
    assert (manifest.kind, manifest.row_length) == ("parallel", 32)
    assert manifest.languages == {"source": "de", "target": "en"}
    assert [shard.tokens for shard in manifest.shards] == [
        sum(len(row[0]) + len(row[1]) for row in rows) for rows in ROWS.values()
    ]
    assert ORIGINS == ("bitext", "synthetic")


def test_datasets_reads_the_same_pairs(directory, tmp_path):
    datasets = pytest.importorskip("datasets")
    files = [str(directory / shard.path) for shard in read_manifest(directory).split("train")]
    table = datasets.load_dataset("arrow", data_files=files, split="train", cache_dir=str(tmp_path))
    assert len(table) == len(TRAIN)
    for index in (0, ROWS_PER_BATCH, len(TRAIN) - 1):
        row = table[index]
        same([(row["source_ids"], row["target_ids"], row["origin"], row["score"])], [TRAIN[index]])


def test_one_changed_byte_is_an_error_that_names_the_shard(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    verify(copy)
    shard = copy / read_manifest(copy).shards[0].path
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    with pytest.raises(InputError, match=shard.name):
        PairReader(copy)


def test_a_cut_shard_and_another_tokenizer_are_errors(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    shard = copy / read_manifest(copy).shards[2].path
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"{shard.name}.*must have \d+ bytes, but has"):
        PairReader(copy, verify=False)
    raw = json.loads((copy / "tokenizer.json").read_text())
    raw["normalizer"]["lowercase"] = False
    (copy / "tokenizer.json").write_text(json.dumps(raw))
    with pytest.raises(InputError, match=r"tokenizer\.json.*tokenizer_hash"):
        PairReader(copy, verify=False)


@pytest.mark.parametrize("languages", [{}, {"source": "de"}, {"source": "de", "target": None}])
def test_a_parallel_manifest_without_its_languages_names_the_field(directory, tmp_path, languages):
    copy = shutil.copytree(directory, tmp_path / "copy")
    raw = json.loads((copy / MANIFEST).read_text())
    (copy / MANIFEST).write_text(json.dumps(raw | {"languages": languages}))
    with pytest.raises(InputError, match=r"languages\.(source|target)' must be the name of a language"):
        read_manifest(copy)


def test_each_kind_of_reader_refuses_the_other_kind_of_directory(directory, tmp_path, write_directory):
    packed = tmp_path / "packed"
    write_directory(packed, {"00000-aaaaaaaa.train": [[7, 8], [9]]})
    for build in (PairReader, lambda path: PairRows(path, read_manifest(path), "train")):
        with pytest.raises(InputError, match=r"packed' must hold pairs of sentences .* but holds packed rows") as error:
            build(packed)
        assert "job=parallel" in str(error.value)
    for build in (ShardReader, lambda path: ShardRows(path, read_manifest(path), "train")):
        with pytest.raises(InputError, match=r"must hold packed rows of one text .* but holds pairs") as error:
            build(directory)
        assert "job=masked_lm" in str(error.value)


def test_a_manifest_from_before_there_were_pairs_is_still_read(tmp_path, write_directory):
    write_directory(tmp_path / "packed", {"00000-aaaaaaaa.train": [[7, 8], [9]]})
    raw = json.loads((tmp_path / "packed" / MANIFEST).read_text())
    del raw["languages"]
    (tmp_path / "packed" / MANIFEST).write_text(json.dumps(raw))
    assert read_manifest(tmp_path / "packed").languages == {}


def test_a_shard_of_other_columns_is_refused(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    shard = copy / read_manifest(copy).shards[0].path
    with pa.ipc.new_file(str(shard), pa.schema([("text", pa.string())])):
        pass
    with pytest.raises(InputError, match=r"must hold pairs of ids in uint16, but holds text: string"):
        PairRows(copy, read_manifest(copy), "train").pairs([0])


def test_what_does_not_fit_together_is_refused_before_it_is_written(tmp_path):
    row = ([2, 9, 3], [2, 3], 0, math.nan)
    with pytest.raises(ValueError, match="source lengths add up to 3, but there are 4"):
        Pairs(np.zeros(4, "u2"), np.array([3]), np.zeros(1, "u2"), np.array([1]), np.zeros(1, "u1"), np.zeros(1, "f4"))
    with pytest.raises(ValueError, match="as many lengths and scores as origins"):
        Pairs(np.zeros(3, "u2"), np.array([3]), np.zeros(1, "u2"), np.array([1]), np.zeros(2, "u1"), np.zeros(1, "f4"))
    with pytest.raises(ValueError, match="a side of 3 tokens, over 2"):
        write_pairs(tmp_path, "a.arrow", "train", 2, "uint16", pairs_of([row]))
    with pytest.raises(ValueError, match="has origin 2"):
        write_pairs(tmp_path, "a.arrow", "train", 9, "uint16", pairs_of([(*row[:2], 2, 0.0)]))
    short = pairs_of([row])
    with (
        pytest.raises(ValueError, match="every block but the last"),
        PairWriter(tmp_path, "a.arrow", "train", 9, "uint16") as writer,
    ):
        writer.write(short)
        writer.write(short)
    assert list(tmp_path.iterdir()) == []


def test_the_same_pairs_give_the_same_bytes_and_the_ids_have_the_type_asked_for(tmp_path):
    rows = random_rows(40)
    for name in ("a", "b"):
        write_pairs(tmp_path, name, "train", 32, "uint32", pairs_of(rows, "uint32"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert pa.ipc.open_file(str(tmp_path / "a")).schema == pair_schema("uint32")


@given(st.lists(st.tuples(*[st.lists(st.integers(5, 60), max_size=4)] * 2), max_size=12), st.integers(1, 5))
def test_blocks_cut_pairs_into_runs_that_together_are_all_of_them(sides, size):
    rows = [(source, target, 0, 1.0) for source, target in sides]
    blocks = list(pairs_of(rows).blocks(size))
    assert [len(block) for block in blocks] == [size] * (len(rows) // size) + [len(rows) % size] * (
        len(rows) % size > 0
    )
    same([row for block in blocks for row in rows_of(block)], rows)


def test_reading_pairs_imports_no_pandas_no_beam_and_no_torch(directory):
    code = (
        f"import sys; from pipeline.pair_shards import PairReader; r = PairReader({str(directory)!r}); "
        "r.pairs([0, 4097]); r.lengths(); print({'pandas.core', 'apache_beam', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr
