import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.manifest import MANIFEST
from pipeline.shards import ROWS_PER_BATCH, ShardReader, ShardWriter, id_dtype, read_manifest, verify
from tests.helpers.manifests import edited
from tests.helpers.ranks import REPOSITORY


def random_documents(count: int, seed: int = 0, longest: int = 40) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(5, 100, generator.integers(1, longest)).tolist() for _ in range(count)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory, write_directory):
    path = tmp_path_factory.mktemp("shards") / "directory"
    documents = {
        "00000-aaaaaaaa.train": random_documents(9000, 1),
        "00000-aaaaaaaa.validation": random_documents(50, 2),
        "00001-bbbbbbbb.train": random_documents(300, 3),
    }
    write_directory(path, documents)
    return path


def test_datasets_reads_the_same_rows_from_the_arrow_files(directory, tmp_path):
    datasets = pytest.importorskip("datasets")
    manifest = read_manifest(directory)
    files = [str(directory / shard.path) for shard in manifest.split("train")]
    table = datasets.load_dataset("arrow", data_files=files, split="train", cache_dir=str(tmp_path))
    reader = ShardReader(directory)
    assert len(table) == len(reader)
    for index in (0, 1, ROWS_PER_BATCH - 1, ROWS_PER_BATCH, len(reader) - 301, len(reader) - 1):
        row = reader.rows([index])
        expected = table[index]
        assert row.input_ids[0][row.segments[0] > 0].tolist() == expected["input_ids"]
        assert np.bincount(row.segments[0])[1:].tolist() == expected["lengths"]
        assert reader.documents(index).tolist() == expected["document"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_asked_together_are_the_rows_asked_one_by_one(directory, data):
    reader = ShardReader(directory, verify=False)
    indices = data.draw(st.lists(st.integers(0, len(reader) - 1), max_size=20))
    together = reader.rows(indices)
    assert together.input_ids.shape == together.segments.shape == (len(indices), 16)
    assert together.input_ids.dtype == np.uint16 and together.segments.dtype == np.int32
    for position, index in enumerate(indices):
        alone = reader.rows([index])
        assert (together.input_ids[position] == alone.input_ids[0]).all()
        assert (together.segments[position] == alone.segments[0]).all()


def test_padding_is_segment_0_and_pieces_count_from_1(directory):
    reader = ShardReader(directory)
    specials = reader.manifest.special_ids
    rows = reader.rows(range(len(reader)))
    for ids, segments in zip(rows.input_ids[::97], rows.segments[::97], strict=True):
        used = int((segments > 0).sum())
        assert (segments[used:] == 0).all() and (ids[used:] == specials["pad"]).all()
        borders = np.diff(segments[:used])
        assert segments[0] == 1 and set(borders.tolist()) <= {0, 1}
        starts = np.concatenate(([0], np.flatnonzero(borders) + 1))
        assert (ids[starts] == specials["cls"]).all()
        assert (ids[np.concatenate((starts[1:], [used])) - 1] == specials["sep"]).all()
    assert int((rows.segments > 0).sum()) == sum(s.tokens for s in reader.manifest.split("train"))


def test_splits_are_read_apart(directory):
    manifest = read_manifest(directory)
    assert len(ShardReader(directory, "validation")) == manifest.rows("validation") > 0
    assert len(ShardReader(directory)) == manifest.rows("train")


@pytest.mark.parametrize("index", [-1, 10**9])
def test_a_row_outside_the_split_is_an_index_error(directory, index):
    with pytest.raises(IndexError):
        ShardReader(directory, verify=False).rows([index])


def test_verify_accepts_what_the_writer_wrote(directory):
    verify(directory)


@pytest.mark.parametrize("place", [0.0, 0.3, 0.999])
def test_one_changed_byte_is_an_error_that_names_the_shard(directory, tmp_path, place):
    copy = shutil.copytree(directory, tmp_path / "copy")
    shard = copy / read_manifest(copy).shards[0].path
    content = bytearray(shard.read_bytes())
    content[int(place * len(content))] ^= 1
    shard.write_bytes(content)
    for check in (verify, ShardReader):
        with pytest.raises(InputError, match=shard.name):
            check(copy)
    verify(copy, checksums=False)


def test_a_missing_and_a_cut_shard_are_errors_without_checksums_too(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    shard = copy / read_manifest(copy).shards[1].path
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"{shard.name}.*must have \d+ bytes, but has"):
        verify(copy, checksums=False)
    shard.unlink()
    with pytest.raises(InputError, match=rf"{shard.name}.*is not there"):
        verify(copy, checksums=False)


def test_another_tokenizer_beside_the_shards_is_an_error(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    path = copy / "tokenizer.json"
    raw = json.loads(path.read_text())
    raw["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(raw))
    with pytest.raises(InputError, match=r"tokenizer\.json.*tokenizer_hash"):
        verify(copy, checksums=False)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda raw: "{", "cannot be read as JSON"),
        (lambda raw: "[]", "one JSON object"),
        (edited(lambda raw: raw.pop("dtype")), "'dtype' is missing"),
        (edited(lambda raw: raw.update(format_version=9)), "'format_version' must be 1, but is 9"),
        (edited(lambda raw: raw.update(row_length="128")), "'row_length' must be of type int"),
        (edited(lambda raw: raw.update(dtype="int8")), "'dtype' must be 'uint16' or 'uint32'"),
        (edited(lambda raw: raw["special_ids"].pop("mask")), r"special_ids\.mask"),
        (edited(lambda raw: raw["shards"][0].pop("rows")), r"shards\[0\]\.rows' is missing"),
        (edited(lambda raw: raw["shards"][0].update(path="../x")), r"shards\[0\]\.path"),
        (edited(lambda raw: raw["shards"][0].update(split="test")), r"shards\[0\]\.split"),
        (edited(lambda raw: raw["shards"][0].update(rows=1)), "content_hash"),
        (edited(lambda raw: raw["counts"].update(read=1)), r"counts\.read"),
    ],
)
def test_a_manifest_that_does_not_fit_names_file_and_field(directory, tmp_path, edit, words):
    copy = shutil.copytree(directory, tmp_path / "copy")
    path = copy / MANIFEST
    path.write_text(edit(json.loads(path.read_text())))
    with pytest.raises(InputError, match=words) as error:
        read_manifest(copy)
    assert str(path) in str(error.value)


def test_a_directory_without_a_manifest_is_not_finished(tmp_path):
    with pytest.raises(InputError, match=r"no manifest\.json"):
        read_manifest(tmp_path)


def test_an_error_while_writing_leaves_no_file(tmp_path):
    with pytest.raises(RuntimeError), ShardWriter(tmp_path, "shards/a.train.arrow", "train", 16, "uint16"):
        raise RuntimeError
    assert list((tmp_path / "shards").iterdir()) == []


def test_the_id_type_follows_from_the_vocabulary():
    assert [id_dtype(n) for n in (1, 65_536, 65_537)] == ["uint16", "uint16", "uint32"]


def test_the_same_rows_give_the_same_bytes(directory, tmp_path, write_directory):
    write_directory(tmp_path / "again", {"00000-aaaaaaaa.train": random_documents(9000, 1)})
    first = directory / "shards/0000/00000-aaaaaaaa.train.arrow"
    assert first.read_bytes() == (tmp_path / "again/shards/0000" / first.name).read_bytes()


def test_reading_rows_imports_no_pandas(directory):
    code = (
        f"import sys; from pipeline.shards import ShardReader; ShardReader({str(directory)!r}).rows([0, 9000]); "
        "print('pandas.core' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    ("files", "name", "words"),
    [
        (("x/tokenizer.json",), "x", "'{path}' is a tokenizer, not shards: name a directory that the pipeline wrote"),
        (("x/tokenizer.json", "x/checkpoints/latest"), "x", "'{path}' is a run, not shards"),
        (("x/tokenizer.json", "x/shards/0.arrow"), "x", "'{path}' is not a finished shard directory"),
        (("x/a.arrow",), "x/a.arrow", "'{path}' is a file, not a shard directory"),
        (("x/a",), "x*", "'{path}' is a pattern, but shards are named one directory by one"),
    ],
)
def test_a_path_that_is_no_shards_is_said_to_be_what_it_is(tmp_path, files, name, words):
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    with pytest.raises(InputError) as refused:
        read_manifest(tmp_path / name)
    assert str(refused.value).startswith(words.format(path=tmp_path / name))


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (
            {"format_version": 1, "search": {}, "chunks": []},
            "holds translations, not shards: `python -m pipeline job=ba",
        ),
        ({"kind": "tokenizer", "key": "x"}, "is a tokenizer, not shards: `python -m pipeline job=masked_lm`"),
    ],
)
def test_the_manifest_of_another_command_is_said_to_be_one(tmp_path, manifest, words):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError) as refused:
        read_manifest(tmp_path)
    assert str(refused.value).startswith(f"'{tmp_path}' {words}")
