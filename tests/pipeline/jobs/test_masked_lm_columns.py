"""The columns that the masked_lm job writes on demand: exact, the same for any workers, and nothing else changes."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from pipeline.cleaning.chain import Cleaning
from pipeline.jobs.masked_lm import MaskedLMJob
from pipeline.records import split_document_key
from pipeline.runners import LocalRunner
from pipeline.sentences import sentence_starts
from pipeline.shards import ShardReader, read_manifest, verify
from pipeline.sources import TextCorpus
from pipeline.token_flags import COLUMNS
from pipeline.tokenizer import SPECIAL_NAMES, load_tokenizer, save_tokenizer, train_wordpiece

LENGTH = 32


def text_of(number):
    generator = np.random.default_rng(number)
    words = ["reader", "reads", "naïve", "books", "unread", "中文", "re-reading", "Dr. No", "it's", "out."]
    sentences = [
        " ".join(generator.choice(words, generator.integers(1, 12))).capitalize() + "." for _ in range(number % 9 + 1)
    ]
    return f"Document {number}.\n\n" + " ".join(sentences)


def byte_level(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = [names[0] for names in SPECIAL_NAMES.values()]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, special_tokens=specials, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


@pytest.fixture(scope="module", params=["wordpiece", "byte level"])
def tokenizer(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    texts = [text_of(number) for number in range(200)]
    save_tokenizer(train_wordpiece(texts, 150) if request.param == "wordpiece" else byte_level(texts), path)
    return str(path)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for name in range(2):
        records = [json.dumps({"text": text_of(number)}) for number in range(name * 100, name * 100 + 100)]
        (folder / f"{name}.jsonl").write_text("\n".join(records) + "\n")
    return TextCorpus([str(folder / "*.jsonl")], range_bytes=10_000)


def build(corpus, output, tokenizer, workers=1, **columns):
    output.mkdir(exist_ok=True)
    job = MaskedLMJob(cleaning=Cleaning(), row_length=LENGTH, held_out_share=0.2, **columns)
    job.run(corpus, output, tokenizer, LocalRunner(workers))
    return read_manifest(output)


def shards(directory):
    return {path.name: path.read_bytes() for path in sorted((directory / "shards").rglob("*.arrow"))}


def expected_starts(tokenizer, text):
    """Word and sentence starts of the tokens of a text, from the library's own word numbers and places."""
    encoding = tokenizer.encode(text, add_special_tokens=False)
    words = [
        number == 0 or encoding.word_ids[number] != encoding.word_ids[number - 1] for number in range(len(encoding))
    ]
    sentence = np.searchsorted(sentence_starts(text), [end - 1 for _, end in encoding.offsets], side="right")
    return encoding.ids, np.array(words), np.diff(sentence, prepend=-1) != 0


def test_columns_hold_the_words_and_sentences_of_every_document(corpus, tmp_path, tokenizer):
    build(corpus, tmp_path / "out", tokenizer, word_start=True, sentence_lengths=True)
    library, checked = load_tokenizer(tokenizer), 0
    texts = {
        (record.file, record.offset): record.text for range_ in corpus.plan().ranges for record in corpus.read(range_)
    }
    for split in ("train", "validation"):
        reader = ShardReader(tmp_path / "out", split)
        rows = reader.rows(range(len(reader)), COLUMNS)
        for row in range(len(reader)):
            for number, key in enumerate(reader.documents(row).tolist(), start=1):
                places = np.flatnonzero(rows.segments[row] == number)
                inner = rows.input_ids[row][places[1:-1]].tolist()
                ids, words, sentences = expected_starts(library, texts[split_document_key(key)])
                starts = rows.word_start[row][places].tolist(), rows.sentence_start[row][places].tolist()
                expected = []
                for begin in range(0, len(ids), LENGTH - 2):  # equal pieces of a document may differ in their marks
                    end = begin + len(inner)
                    if ids[begin:end] == inner and (end == len(ids) or len(inner) == LENGTH - 2):
                        whole = end == len(ids) or bool(sentences[end])
                        expected.append(([True, *words[begin:end], True], [True, *sentences[begin:end], whole]))
                assert starts in expected
                checked += len(inner)
    assert checked == sum(len(library.encode(text, add_special_tokens=False).ids) for text in texts.values())


def test_one_and_two_workers_give_the_same_bytes_with_columns(corpus, tmp_path, tokenizer):
    columns = dict.fromkeys(COLUMNS, True)
    one = build(corpus, tmp_path / "one", tokenizer, workers=1, **columns)
    two = build(corpus, tmp_path / "two", tokenizer, workers=2, **columns)
    assert shards(tmp_path / "one") == shards(tmp_path / "two") and one.content_hash == two.content_hash
    verify(tmp_path / "two")


def test_the_tokens_of_every_row_are_the_same_with_and_without_columns(corpus, tmp_path, tokenizer):
    build(corpus, tmp_path / "without", tokenizer)
    for name, columns in (("words", ["word_start"]), ("sentences", ["sentence_lengths"]), ("both", COLUMNS)):
        build(corpus, tmp_path / name, tokenizer, **dict.fromkeys(columns, True))
        for split in ("train", "validation"):
            plain, marked = (ShardReader(tmp_path / place, split) for place in ("without", name))
            assert len(plain) == len(marked) > 0
            first, second = plain.rows(range(len(plain))), marked.rows(range(len(plain)), columns)
            assert np.array_equal(first.input_ids, second.input_ids)
            assert np.array_equal(first.segments, second.segments)


def test_a_directory_gets_and_loses_columns_by_the_option(corpus, tmp_path, tokenizer):
    output = tmp_path / "out"
    build(corpus, output, tokenizer)
    before = shards(output)
    assert read_manifest(output).config["job"]["word_start"] is False
    build(corpus, output, tokenizer, word_start=True)
    ShardReader(output).require(["word_start"])
    build(corpus, output, tokenizer)
    assert shards(output) == before
