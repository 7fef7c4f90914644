"""The on-demand columns of a shard: what is written comes back, row by row, and shards without them say so."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.manifest import ShardInfo
from pipeline.packing import assemble, pack
from pipeline.shards import ShardReader, ShardRows, ShardWriter, read_manifest
from pipeline.token_flags import COLUMNS, ID_MASK, SENTENCE_END, SENTENCE_START, WORD_START, check_columns, has

CLS, SEP, LENGTH = 2, 3, 16
MARKS = (WORD_START, SENTENCE_START, SENTENCE_END)


def write(directory, documents, columns, rows_per_block=4096):
    """Write documents of marked ids as one shard, and return a reader of it."""
    lengths = np.array([len(document) for document in documents], dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    tokens = np.concatenate(documents)
    tokens = tokens.astype(np.uint32) if columns else (tokens & ID_MASK).astype(np.uint16)
    keys = np.arange(len(documents), dtype=np.uint64)
    with ShardWriter(directory, "shards/a.train.arrow", "train", LENGTH, "uint16", columns) as writer:
        for block in assemble(pack(lengths, LENGTH), tokens, offsets, keys, CLS, SEP):
            writer.write(block)
    return writer.info


def reader_of(directory, info: ShardInfo, template):
    """Rows of a directory with the one shard; the manifest is another directory's, but for that."""
    manifest = read_manifest(template)
    return ShardRows(directory, type(manifest)(**(vars(manifest) | {"shards": [info], "row_length": LENGTH})), "train")


@pytest.fixture(scope="module")
def template(tmp_path_factory, write_directory):
    path = tmp_path_factory.mktemp("template") / "directory"
    write_directory(path, {"00000-aaaaaaaa.train": [[5, 6, 7]]})
    return path


documents = st.lists(
    st.lists(st.tuples(st.integers(5, 60_000), *[st.booleans()] * 3), min_size=1, max_size=40), min_size=1, max_size=12
)


@settings(max_examples=60)
@given(documents, st.sets(st.sampled_from(COLUMNS)))
def test_marks_come_back_at_their_tokens(template, tmp_path_factory, documents, columns):
    directory = tmp_path_factory.mktemp("columns")
    marked = [
        np.array([token + sum(mark * on for mark, on in zip(MARKS, marks, strict=True)) for token, *marks in document])
        for document in documents
    ]
    info = write(directory, marked, sorted(columns))
    reader = reader_of(directory, info, template)
    reader.require(sorted(columns))
    rows, plain = reader.rows(range(len(reader)), sorted(columns)), reader.rows(range(len(reader)))
    assert np.array_equal(rows.input_ids, plain.input_ids) and np.array_equal(rows.segments, plain.segments)
    assert plain.word_start is None and plain.sentence_start is None
    assert (rows.word_start is None) == ("word_start" not in columns)
    found = 0
    for row in range(len(reader)):
        for number, document in enumerate(reader.documents(row).tolist(), start=1):
            places = np.flatnonzero(rows.segments[row] == number)
            inner = rows.input_ids[row][places[1:-1]]
            text = marked[document]
            # Equal tokens may occur twice: the piece is one of the places where its tokens lie in the document.
            starts = [
                begin
                for begin in range(0, len(text), LENGTH - 2)
                if np.array_equal(text[begin : begin + len(inner)] & ID_MASK, inner)
            ]
            pieces = [text[begin : begin + len(inner)] for begin in starts]
            found += len(inner)
            if "word_start" in columns:
                starts_here = rows.word_start[row][places]
                assert starts_here[0] and starts_here[-1]
                assert any(np.array_equal(starts_here[1:-1], has(piece, WORD_START)) for piece in pieces)
            if "sentence_lengths" in columns:
                starts_here = rows.sentence_start[row][places]
                expected = [[True, *has(p, SENTENCE_START), has(p[-1:], SENTENCE_END)[0]] for p in pieces]
                assert starts_here.tolist() in [[bool(mark) for mark in one] for one in expected]
        padding = rows.segments[row] == 0
        assert not any(
            column[row][padding].any() for column in (rows.word_start, rows.sentence_start) if column is not None
        )
    assert found == sum(map(len, documents))


def test_columns_are_plain_arrow_lists_that_add_up(tmp_path, template):
    marked = [np.array([5 + WORD_START + SENTENCE_START, 6, 7 + SENTENCE_END]), np.arange(5, 40) + WORD_START]
    info = write(tmp_path, marked, COLUMNS)
    with pa.ipc.open_file(pa.memory_map(str(tmp_path / info.path))) as file:
        table = file.read_all()
    assert table.schema.field("word_start").type == pa.list_(pa.bool_())
    assert table.schema.field("sentence_lengths").type == pa.list_(pa.uint16())
    for row in table.to_pylist():
        assert len(row["word_start"]) == len(row["input_ids"]) == sum(row["sentence_lengths"])
    assert [1, 3, 1] in [row["sentence_lengths"][:3] for row in table.to_pylist()]


def test_datasets_reads_the_columns(tmp_path, template):
    datasets = pytest.importorskip("datasets")
    info = write(tmp_path, [np.arange(5, 40) + WORD_START], COLUMNS)
    table = datasets.load_dataset(
        "arrow", data_files=[str(tmp_path / info.path)], split="train", cache_dir=str(tmp_path / "cache")
    )
    assert all(row["word_start"] == [True] * len(row["input_ids"]) for row in table)


@pytest.mark.parametrize("column", COLUMNS)
def test_shards_without_a_column_name_the_option_that_writes_it(tmp_path, template, column):
    other = tuple(name for name in COLUMNS if name != column)
    info = write(tmp_path, [np.array([5, 6, 7])], other)
    reader = reader_of(tmp_path, info, template)
    for ask in (lambda: reader.require([column]), lambda: reader.rows([0], [column])):
        with pytest.raises(InputError, match=rf"job\.{column}=true") as error:
            ask()
        assert "a.train.arrow" in str(error.value)
    reader.require(other)
    assert len(ShardReader(template).rows([0]).input_ids) == 1


def test_columns_have_one_order_and_others_are_refused():
    assert check_columns(["sentence_lengths", "word_start"]) == COLUMNS
    with pytest.raises(ValueError, match="no column"):
        check_columns(["words"])
