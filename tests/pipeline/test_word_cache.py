import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from pipeline.token_flags import COLUMNS, ID_MASK, SENTENCE_END, SENTENCE_START, WORD_START, has
from pipeline.tokenizer import train_wordpiece
from pipeline.word_cache import PROBES, PlainEncoder, SentenceEncoder, WordCache, encoder, splits_at_white_space

TEXTS = [f"Naïve readers read {n} books; unreadable ones stay unread, re-reading helps. 中文 {n}" for n in range(300)]
TRICKY = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u2028\u3000\u200b\ufeff\xad\x00\u0301Ae\u0130ΣςÅ中각[MASK].,-##'"

texts = st.lists(st.text(max_size=40) | st.text(alphabet=TRICKY, max_size=40), max_size=12)


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def tokenizer(request):
    return train_wordpiece(TEXTS + [TRICKY] * 5, 300, lowercase=request.param)


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@settings(max_examples=300)
@given(texts)
def test_ids_are_those_of_the_library_for_any_text(tokenizer, texts):
    plain = PlainEncoder(tokenizer).encode(texts)
    cache = WordCache(tokenizer)
    cache.encode([" ".join(texts)] * 3)  # so that chunks are looked up, and not all new
    for _ in range(2):
        assert same(cache.encode(texts), plain)


@settings(max_examples=50)
@given(st.lists(texts, max_size=6))
def test_a_table_that_keeps_starting_anew_gives_the_same_ids(tokenizer, batches):
    cache = WordCache(tokenizer, max_entries=8)
    for batch in batches:
        assert same(cache.encode(batch * 3), PlainEncoder(tokenizer).encode(batch * 3))
        assert cache.entries <= 8


def test_offsets_part_the_documents(tokenizer):
    ids, offsets = WordCache(tokenizer).encode(["read books", "", "read"])
    assert offsets[0] == 0 and offsets[-1] == len(ids) and offsets[1] == offsets[2]
    assert ids[offsets[2] :].tolist() == tokenizer.encode("read", add_special_tokens=False).ids


def test_no_texts_give_no_ids(tokenizer):
    ids, offsets = WordCache(tokenizer).encode([])
    assert ids.tolist() == [] and offsets.tolist() == [0]


def test_the_cache_is_used_for_the_tokenizers_that_we_train(tokenizer):
    assert isinstance(encoder(tokenizer, TEXTS), WordCache)
    assert same(encoder(tokenizer, []).encode(list(PROBES)), PlainEncoder(tokenizer).encode(list(PROBES)))


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.update(normalizer=None),
        lambda raw: raw.update(pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}),
        lambda raw: raw["added_tokens"][4].update(special=False),
    ],
    ids=["no normaliser", "other pre-tokenizer", "token matched in the text"],
)
def test_other_builds_take_the_plain_way(tokenizer, change):
    raw = json.loads(tokenizer.to_str())
    change(raw)
    other = Tokenizer.from_str(json.dumps(raw))
    other.encode_special_tokens = True
    assert not splits_at_white_space(other)
    assert isinstance(encoder(other, TEXTS), PlainEncoder)


def test_a_cache_that_errs_on_the_sample_is_left_unused(tokenizer, monkeypatch, caplog):
    encode = WordCache.encode
    monkeypatch.setattr(WordCache, "encode", lambda self, texts: (encode(self, texts)[0] + 1, encode(self, texts)[1]))
    assert isinstance(encoder(tokenizer, TEXTS), PlainEncoder)
    assert "other ids" in caplog.text


mixed = st.lists(
    st.lists(st.sampled_from(["Read.", "books", "Do?", "re-", "\n\n", "\t", " ", "中", "\x0b", "\u200b", "#"])).map(
        " ".join
    ),
    max_size=6,
)


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    return tokenizer


def llama_like():
    """No pre-tokenizer: white space becomes a mark within the tokens."""
    tokenizer = Tokenizer(models.BPE(fuse_unk=True, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.train_from_iterator(
        ["Read", " re", "-readers.", " Do", " they?"], trainers.BpeTrainer(vocab_size=300, show_progress=False)
    )
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        TEXTS, trainers.UnigramTrainer(vocab_size=300, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    )
    return tokenizer


@settings(max_examples=100)
@given(texts | mixed, st.sets(st.sampled_from(COLUMNS)))
def test_marks_are_those_of_the_library_and_ids_stay_the_same(tokenizer, texts, columns):
    ids, offsets = PlainEncoder(tokenizer).encode(texts)
    plain = PlainEncoder(tokenizer, sorted(columns)).encode(texts)
    assert same((plain[0] & ID_MASK, plain[1]), (ids, offsets))
    cache = WordCache(tokenizer, word_start="word_start" in columns)
    made = SentenceEncoder(cache) if "sentence_lengths" in columns else cache
    made.encode([" ".join(texts)] * 3)
    for _ in range(2):
        assert same(made.encode(texts), plain)


def groups(tokenizer, text, starts):
    """The parts of a text that its tokens make, from one start to the next, without the white space around."""
    tokens = tokenizer.encode(text, add_special_tokens=False).tokens
    at = np.flatnonzero(starts).tolist()
    found = ["".join(tokens[i:j]) for i, j in pairwise([*at, len(tokens)])]
    return [part.replace("▁", " ").replace("Ġ", " ").strip() for part in found]


BY_MARKS = ["Read", "re", "-", "readers", ".", "Do", "they", "?"]
BY_SPACE = ["Read", "re-readers.", "Do", "they?"]


@pytest.mark.parametrize(
    ("build", "words"),
    [(byte_level, BY_MARKS), (unigram, BY_SPACE), (llama_like, BY_SPACE)],
    ids=["byte level", "metaspace", "no pre-tokenizer"],
)
def test_any_tokenizer_gives_words_and_sentences(build, words):
    tokenizer, text = build(), "Read re-readers. Do they?"
    for columns in (("word_start",), ("sentence_lengths",), COLUMNS):
        made = encoder(tokenizer, TEXTS, columns=columns)
        assert isinstance(made, PlainEncoder)
        marked, offsets = made.encode(["", text, "one", text])
        assert same((marked & ID_MASK, offsets), PlainEncoder(tokenizer).encode(["", text, "one", text]))
        for part in (marked[: offsets[2]], marked[offsets[3] :]):
            if "word_start" in columns:
                assert groups(tokenizer, text, has(part, WORD_START)) == words
            if "sentence_lengths" in columns:
                assert groups(tokenizer, text, has(part, SENTENCE_START)) == ["Read re-readers.", "Do they?"]
                assert np.array_equal(np.roll(has(part, SENTENCE_END), 1), has(part, SENTENCE_START))


def test_words_are_those_between_white_space_and_marks(tokenizer):
    (marked, _), text = (
        WordCache(tokenizer, word_start=True).encode(["unreadable books, re-read"]),
        "unreadable books , re - read",
    )
    tokens = [tokenizer.id_to_token(int(token)) for token in marked & ID_MASK]
    words = ""
    for token, start in zip(tokens, has(marked, WORD_START), strict=True):
        words += (" " if start else "") + token.removeprefix("##")
        assert start != token.startswith("##")
    assert words.strip() == text


def test_a_cache_goes_on_only_with_its_own_marks(tokenizer):
    with pytest.raises(ValueError, match="marks"):
        encoder(tokenizer, TEXTS, WordCache(tokenizer), ("word_start",))
    with pytest.raises(ValueError, match="no column"):
        encoder(tokenizer, TEXTS, columns=("sentences",))
