"""Sources read from shards of packed rows: their text, their names, what cannot be read, and chunks."""

import pytest
from tokenizers import Tokenizer

from conf.errors import InputError
from pipeline.byte_bpe import train_byte_bpe
from pipeline.manifest import read_manifest
from pipeline.shards import ShardReader
from pipeline.tokenizer import load_tokenizer, train_wordpiece
from pretrain.translation.shard_input import RowInput, open_shards
from tests.helpers.shard_directory import sentences, write_shards

TEXTS = [f"{text}  Größe «{number}»\n" for number, text in enumerate(sentences(60))]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    return write_shards(folder, TEXTS, row_length=64, tokenizer=train_byte_bpe(TEXTS[:30], 400))


def rows(directory, side="source", split="train", chunk_bytes=1 << 20, tokenizer_hash="sha256:of the model"):
    return RowInput(str(directory), side, split, chunk_bytes, tokenizer_hash)


def read(source):
    return [sentence for chunk in source.chunks() for sentence in source.sentences(chunk)]


def place(name):
    split, row, piece = name.split(":")
    return split, int(row), int(piece)


@pytest.mark.parametrize(("split", "first", "count"), [("train", 0, 54), ("validation", 54, 6)])
def test_every_piece_of_a_row_is_a_source_whose_id_leads_to_its_document(shards, split, first, count):
    found, reader, documents = read(rows(shards, split=split)), ShardReader(shards, split), {}
    assert len({sentence.id for sentence in found}) == len(found) and all(sentence.readable for sentence in found)
    assert [place(sentence.id) for sentence in found] == sorted(place(sentence.id) for sentence in found)
    for sentence in found:
        of, row, piece = place(sentence.id)
        assert of == split
        documents.setdefault(first + int(reader.documents(row)[piece]), []).append(sentence.text)
    # Byte-level BPE: to the byte. A document longer than a row is several pieces.
    assert {number: "".join(parts) for number, parts in sorted(documents.items())} == dict(
        enumerate(TEXTS[first : first + count], start=first)
    )
    assert sum(len(parts) == 1 for parts in documents.values()) > count / 2


def test_chunks_are_rows_in_order_whatever_their_size(shards):
    whole = read(rows(shards))
    for chunk_bytes in (1, 64 * 4 * 5):
        source = rows(shards, chunk_bytes=chunk_bytes)
        chunks = list(source.chunks())
        assert read(source) == whole
        assert {chunk.end - chunk.start for chunk in chunks[:-1]} == {max(1, chunk_bytes // 256)}
        assert len({chunk.id for chunk in chunks}) == len(chunks) > 2 and chunks[-1].end == source.total
        assert source.facts()["chunk_bytes"] == max(256, chunk_bytes)


def test_a_model_with_the_same_tokenizer_is_given_the_ids(shards):
    manifest = read_manifest(shards)
    theirs, ours = read(rows(shards)), read(rows(shards, tokenizer_hash=manifest.tokenizer_hash))
    assert {sentence.ids for sentence in theirs} == {None}
    library, ids = load_tokenizer(shards), ShardReader(shards).rows([0])
    assert [(sentence.id, sentence.text) for sentence in ours] == [(s.id, s.text) for s in theirs]
    assert ours[0].ids == tuple(ids.input_ids[0][ids.segments[0] == 1].tolist()[1:-1])
    assert all(library.decode(list(sentence.ids)) == sentence.text for sentence in ours)


def test_pieces_with_unknown_words_or_half_a_character_cannot_be_read(tmp_path):
    words = write_shards(
        tmp_path / "words", ["bala dorio", "bala ж dorio", "dorio."], vocabulary_of=["bala dorio."] * 3, held_out=0
    )
    assert sorted((s.text, s.readable) for s in read(rows(words))) == [
        ("bala [UNK] dorio", False),
        ("bala dorio", True),
        ("dorio.", True),
    ]
    signs = ["\N{GRINNING FACE}" * 3, "bala"]
    tokenizer = train_byte_bpe(["bala"] * 3, 262)
    cut = write_shards(tmp_path / "signs", signs, row_length=8, tokenizer=tokenizer, held_out=0)
    found = read(rows(cut))
    assert len(found) == 3 and [s.text for s in found if s.readable] == ["bala"]


def test_what_rows_do_not_have_is_refused(shards, tmp_path):
    with pytest.raises(InputError, match="packed rows of one text, which have no side: leave side=target away"):
        rows(shards, side="target")
    whole = write_shards(tmp_path / "whole", TEXTS[:5], held_out=0)
    with pytest.raises(InputError, match=r"whole' has no rows in split=validation: set split=train, or"):
        rows(whole, split="validation")
    tokenizer = Tokenizer.from_str(train_wordpiece(TEXTS, 200).to_str())
    tokenizer.decoder = None
    broken = write_shards(tmp_path, TEXTS[:5], tokenizer=tokenizer)
    with pytest.raises(InputError, match="has no decoder, so that its tokens do not become text"):
        open_shards(str(broken), "source", "train", 1000, None, "sha256:0")
