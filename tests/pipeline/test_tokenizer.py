import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from conf.errors import InputError
from pipeline.tokenizer import (
    added_token_id,
    load_tokenizer,
    save_tokenizer,
    special_ids,
    tokenizer_hash,
    train_wordpiece,
)
from pipeline.word_cache import PlainEncoder, WordCache, encoder

TEXTS = [f"Naïve readers read {n} books; unreadable ones stay unread, re-reading helps. 中文 {n}" for n in range(300)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer")
    save_tokenizer(train_wordpiece(TEXTS, 160), path)
    return path


def test_special_tokens_are_the_first_five_ids(directory):
    tokenizer = load_tokenizer(directory)
    assert special_ids(tokenizer) == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert tokenizer.encode("books").tokens[0] == "[CLS]" and tokenizer.encode("books").tokens[-1] == "[SEP]"


def test_ids_are_dense_and_only_special_tokens_are_added_tokens(directory):
    raw = json.loads((directory / "tokenizer.json").read_text())
    assert sorted(raw["model"]["vocab"].values()) == list(range(len(raw["model"]["vocab"])))
    assert [token["content"] for token in raw["added_tokens"]] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert all(token["special"] for token in raw["added_tokens"])


@pytest.mark.parametrize("text", ["[MASK]", "a [MASK] b", "[CLS][SEP]", "x[PAD]y", "[mask]"])
def test_special_tokens_in_the_text_never_become_special_ids(directory, text):
    tokenizer = load_tokenizer(directory)
    # [UNK] (1) may be right: a bracket need not be in this small vocabulary.
    assert not {0, 2, 3, 4} & set(tokenizer.encode(text, add_special_tokens=False).ids)


@settings(max_examples=50)
@given(st.text(max_size=60))
def test_no_text_becomes_a_special_id(directory, text):
    tokenizer = load_tokenizer(directory)
    assert not {0, 2, 3, 4} & set(tokenizer.encode(f"[MASK]{text}[SEP]", add_special_tokens=False).ids)


def test_words_of_the_corpus_come_back(directory):
    tokenizer = load_tokenizer(directory)
    encoded = tokenizer.encode("naive READERS read books", add_special_tokens=False)
    assert tokenizer.decode(encoded.ids) == "naive readers read books"
    assert tokenizer.token_to_id("books") is not None


def test_cased_tokenizers_keep_case():
    tokenizer = train_wordpiece(TEXTS, 160, lowercase=False)
    assert (
        tokenizer.encode("Naïve", add_special_tokens=False).tokens
        != tokenizer.encode("naive", add_special_tokens=False).tokens
    )


def test_training_is_the_same_in_every_process_and_on_any_number_of_threads():
    program = (
        "import hashlib; from pipeline.tokenizer import train_wordpiece;"
        "texts = [f'Naïve readers read {n} books; unreadable ones stay unread {n * 7919}' for n in range(300)];"
        "print(hashlib.sha256(train_wordpiece(texts, 200).to_str().encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={"RAYON_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "4", "4")
    }
    assert len(seen) == 1


def test_a_vocabulary_too_small_for_the_characters_is_refused():
    with pytest.raises(InputError, match=r"job\.vocab_size' must be at least \d+"):
        train_wordpiece(TEXTS, 20)


def test_rare_characters_go_when_the_alphabet_is_full():
    tokenizer = train_wordpiece(["aaa bbb aaa bbb abab ccc aaa", "z"], 16, alphabet_size=2, min_frequency=1)
    assert tokenizer.encode("z", add_special_tokens=False).tokens == ["[UNK]"]
    assert "[UNK]" not in tokenizer.encode("ab", add_special_tokens=False).tokens


def test_the_hash_stands_for_what_makes_ids_and_not_for_the_layout_of_the_file(directory, tmp_path):
    raw = json.loads((directory / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw | {"post_processor": None, "decoder": None}))
    assert tokenizer_hash(tmp_path) == tokenizer_hash(directory) == tokenizer_hash(directory / "tokenizer.json")
    raw["normalizer"]["lowercase"] = False
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw))
    assert tokenizer_hash(tmp_path) != tokenizer_hash(directory)


def test_loading_says_what_is_wrong(tmp_path):
    with pytest.raises(InputError, match="there is no tokenizer at"):
        load_tokenizer(tmp_path / "nowhere")
    with pytest.raises(InputError, match="there is no tokenizer at"):
        tokenizer_hash(tmp_path)
    (tmp_path / "tokenizer.json").write_text("[]")
    for read in (load_tokenizer, tokenizer_hash):
        with pytest.raises(InputError, match="is not a tokenizer"):
            read(tmp_path)


def test_a_tokenizer_without_mask_token_is_refused(directory):
    raw = json.loads((directory / "tokenizer.json").read_text())
    raw["added_tokens"] = raw["added_tokens"][:-1]
    del raw["model"]["vocab"]["[MASK]"]
    with pytest.raises(InputError, match=r"no mask token: expected \[MASK\]"):
        special_ids(Tokenizer.from_str(json.dumps(raw)))


ADDED = ["<bt>", "2de", "__en__"]


@pytest.fixture(scope="module")
def reserving(tmp_path_factory):
    """A tokenizer with reserved tokens, one of which looks like a word."""
    path = tmp_path_factory.mktemp("reserving")
    save_tokenizer(train_wordpiece(TEXTS, 160, added_tokens=ADDED), path)
    return load_tokenizer(path)


def test_reserved_tokens_take_the_last_ids_within_the_size_asked_for(reserving):
    assert reserving.get_vocab_size() == 160
    assert [added_token_id(reserving, name, "job.tag") for name in ADDED] == [157, 158, 159]
    assert special_ids(reserving) == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


@given(st.lists(st.sampled_from([*ADDED, " ", "[MASK]", "read", "<", "de", "\t"])).map("".join))
def test_no_text_becomes_a_reserved_token_on_either_way_to_ids(reserving, text):
    codec = encoder(reserving, [text])
    assert isinstance(codec, WordCache)
    for ids in (codec.encode([text])[0], PlainEncoder(reserving).encode([text])[0]):
        assert not {0, 2, 3, 4, 157, 158, 159} & set(ids.tolist())


def test_the_reserved_tokens_are_part_of_the_tokenizers_identity(tmp_path):
    for name, added in (("a", []), ("b", ["<bt>"]), ("c", ["<bt>"])):
        (tmp_path / name).mkdir()
        save_tokenizer(train_wordpiece(TEXTS, 160 + len(added), added_tokens=added), tmp_path / name)
    first, second, third = (tokenizer_hash(tmp_path / name) for name in "abc")
    assert first != second == third


@pytest.mark.parametrize("names", [["<bt>", "<bt>"], [""], ["a b"], ["\t"], ["[CLS]"], ["<mask>"]])
def test_names_that_cannot_be_reserved_are_refused(names):
    with pytest.raises(InputError, match=r"job\.added_tokens' must hold different names"):
        train_wordpiece(TEXTS, 160, added_tokens=names)


def test_a_word_of_the_corpus_is_no_name_for_a_reserved_token(reserving):
    word = next(token for token in reserving.get_vocab() if token.isalpha() and len(token) > 3)
    with pytest.raises(InputError, match=f"'{word}', which is a word of this corpus"):
        train_wordpiece(TEXTS, 160, added_tokens=[word])
    with pytest.raises(InputError, match=f"job.tag' is '{word}', which is a word of the tokenizer"):
        added_token_id(reserving, word, "job.tag")
    with pytest.raises(InputError, match=r"has no such token: train it with job\.added_tokens"):
        added_token_id(reserving, "<fr>", "job.tag")
    with pytest.raises(InputError, match=r"job\.vocab_size' must be at least"):
        train_wordpiece(TEXTS, 40, added_tokens=[f"<{n}>" for n in range(20)])
