import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pipeline.tokenizer import train_wordpiece
from pipeline.word_cache import PROBES, PlainEncoder, WordCache, encoder, splits_at_white_space

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
