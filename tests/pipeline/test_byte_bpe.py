import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.byte_bpe import train_byte_bpe
from pipeline.tokenizer import load_tokenizer, save_tokenizer, special_ids

TEXTS = [f"Der Preis von {n} Äpfeln ist {n}.{n % 10}0 €, und [MASK] bleibt Text." for n in range(200)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_byte_bpe(TEXTS, 400, split_digits=True, added_tokens=["<bt>"])


@settings(max_examples=50)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back_from_its_ids(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=True) == text


def test_the_same_texts_give_the_same_tokenizer(tokenizer):
    assert tokenizer.to_str() == train_byte_bpe(TEXTS, 400, split_digits=True, added_tokens=["<bt>"]).to_str()


def test_special_and_reserved_tokens_are_no_text(tokenizer, tmp_path):
    save_tokenizer(tokenizer, tmp_path)
    loaded = load_tokenizer(tmp_path)
    specials = special_ids(loaded)
    ids = loaded.encode("[MASK] <bt>").ids
    assert ids[0] == specials["cls"] and ids[-1] == specials["sep"]
    assert not {specials["mask"], loaded.token_to_id("<bt>")} & set(ids)
    assert sorted([*specials.values(), loaded.token_to_id("<bt>")]) == list(range(6))


def test_digits_are_tokens_of_their_own_where_asked_for(tokenizer):
    assert tokenizer.encode("2026", add_special_tokens=False).tokens == ["2", "0", "2", "6"]
    joined = train_byte_bpe(["2026 2026 2026 2026"], 400)
    assert joined.encode("2026", add_special_tokens=False).tokens == ["2026"]


def test_case_is_folded_and_rare_pairs_stay_apart_where_asked_for():
    folded = train_byte_bpe(TEXTS, 400, lowercase=True)
    assert folded.encode("DER").ids == folded.encode("der").ids
    assert (
        len(train_byte_bpe(["ab"], 300).get_vocab())
        == len(train_byte_bpe(["ab"], 300, min_frequency=1).get_vocab()) - 1
    )


def test_a_vocabulary_below_the_bytes_is_refused():
    with pytest.raises(InputError, match=r"job\.vocab_size' must be at least 262 .* but is 261"):
        train_byte_bpe(TEXTS, 261, added_tokens=["<bt>"])
