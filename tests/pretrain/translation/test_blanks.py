"""Which [MASK] in an output is one that noise left there, for both kinds of tokenizers."""

import pytest

from pipeline.blanks import BLANK
from pipeline.byte_bpe import train_byte_bpe
from pipeline.tokenizer import train_wordpiece
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.translation.blanks import blank_name, text_with_blanks

TEXTS = ["the dog, the cat and the bird [MASK]"] * 3
BUILDS = {"wordpiece": train_wordpiece(TEXTS, 60), "byte_bpe": train_byte_bpe(TEXTS, 330, added_tokens=["<bt>"])}


@pytest.mark.parametrize("build", BUILDS)
def test_blanks_stand_where_their_ids_are(build):
    tokenizer = BUILDS[build]
    vocabulary = Vocabulary.of(tokenizer)
    assert blank_name(tokenizer, vocabulary) == "[MASK]"

    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    blank = [vocabulary.blank_id]
    assert text_with_blanks(tokenizer, vocabulary, ids("the dog") + blank + ids(" and")).split() in (
        ["the", "dog", BLANK, "and"],
        ["the", f"dog{BLANK}", "and"],
    )
    assert text_with_blanks(tokenizer, vocabulary, blank * 2).replace(" ", "") == BLANK * 2
    some = [vocabulary.cls_id, *blank, *ids(" the"), vocabulary.sep_id]
    assert text_with_blanks(tokenizer, vocabulary, some) == f"{BLANK} the"


def test_the_name_of_the_blank_as_words_of_the_model_is_text():
    tokenizer = BUILDS["byte_bpe"]
    vocabulary = Vocabulary.of(tokenizer)
    words = tokenizer.encode("[MASK] the [MASK]", add_special_tokens=False).ids
    assert vocabulary.blank_id not in words
    found = text_with_blanks(tokenizer, vocabulary, [*words, vocabulary.blank_id, *words, vocabulary.blank_id])
    assert found == f"[MASK] the [MASK]{BLANK}[MASK] the [MASK]{BLANK}"
    assert BLANK not in text_with_blanks(tokenizer, vocabulary, tokenizer.encode(BLANK, add_special_tokens=False).ids)


def test_other_reserved_tokens_go():
    tokenizer = BUILDS["byte_bpe"]
    vocabulary = Vocabulary.of(tokenizer)
    tokens = [tokenizer.token_to_id("<bt>"), vocabulary.blank_id, *tokenizer.encode(" the").ids]
    assert text_with_blanks(tokenizer, vocabulary, tokens) == f"{BLANK} the"
