"""Texts with a scored part: which tokens are the part's, and what is cut of the context."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from conf.errors import InputError
from pretrain.evaluation.scoring_texts import Passage, TokenizedText, fit_together, tokenize_passages

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def byte_level():
    """A tokenizer whose tokens carry the space before them, and whose characters beyond ASCII are several tokens."""
    pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    pieces = [*SPECIAL, *pre_tokenizers.ByteLevel.alphabet()]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    merges = []
    for word in ("Ġdog", "Ġran"):
        for end in range(2, len(word) + 1):
            merges.append((word[: end - 1], word[end - 1]))
            vocabulary[word[:end]] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer


def part(text: str, scored: str) -> Passage:
    start = text.index(scored)
    span = (start, start + len(scored))
    return Passage(text, span, span)


def test_a_token_with_a_leading_space_belongs_to_its_word(byte_level):
    (text,) = tokenize_passages(byte_level, [part("a dog ran", "dog")])
    assert [byte_level.id_to_token(text.ids[at]) for at in range(*text.scored)] == ["Ġdog"]
    (text,) = tokenize_passages(byte_level, [part("a dog ran", " ran")])
    assert [byte_level.id_to_token(text.ids[at]) for at in range(*text.scored)] == ["Ġran"]


def test_all_bytes_of_a_character_belong_to_its_part(byte_level):
    (text,) = tokenize_passages(byte_level, [part("a 狗 ran", "狗")])
    assert text.num_tokens == len("狗".encode()) == 3  # and the space before it, here a token of its own, does not


def test_the_scored_tokens_are_those_of_the_option(tokenizer):
    (text,) = tokenize_passages(tokenizer, [part("The dog is here.", "dog")])
    assert text.ids[slice(*text.scored)] == tuple(tokenizer.encode("dog", add_special_tokens=False).ids)
    assert (text.before, text.after) == (text.scored[0] - 1, len(text.ids) - 1 - text.scored[1])
    assert text.words[0] is text.words[-1] is None


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_parts_of_a_text_share_out_its_tokens(data, tokenizer, byte_level, texts):
    which = data.draw(st.sampled_from([tokenizer, byte_level]))
    text = data.draw(st.sampled_from(texts))
    bounds = [0, *sorted(data.draw(st.lists(st.integers(1, len(text) - 1), min_size=2, max_size=2))), len(text)]
    found = []
    for span in itertools.pairwise(bounds):
        try:
            (tokenized,) = tokenize_passages(which, [Passage(text, span, span)])
        except InputError as error:
            assert "has no token" in str(error)
            continue
        found += list(range(*tokenized.scored))
    assert found == list(range(1, len(tokenize_passages(which, [Passage.whole(text)])[0].ids) - 1))


def test_a_part_without_a_token_is_refused(tokenizer):
    with pytest.raises(InputError, match="the part ' ' of 'The dog' has no token, so it has no score: remove it"):
        tokenize_passages(tokenizer, [Passage("The dog", (3, 4), (3, 4))])


def made(before: int, kept: int, after: int) -> TokenizedText:
    size = before + kept + after
    span = (1 + before, 1 + before + kept)
    return TokenizedText("t", (2, *range(10, 10 + size), 3), (None, *range(size), None), span, span)


def test_context_is_cut_from_far_to_near_by_hand():
    long, short = made(3, 2, 2), made(3, 1, 2)
    options, cut = fit_together([long, short], 7)
    assert cut == 2
    assert options[0].ids == (2, 12, 13, 14, 15, 16, 3)
    assert options[0].scored == options[0].kept == (2, 4)
    assert options[0].words == (None, 2, 3, 4, 5, 6, None)
    assert options[1].ids == (2, 12, 13, 14, 15, 3)  # it fits as it is, but is compared in the same context
    options, cut = fit_together([long], 5)
    assert cut == 4 and options[0].ids == (2, 13, 14, 15, 3)  # all before the answer, then what is last
    assert fit_together([long], 3) is None
    assert fit_together([long, short], 9) == ([long, short], 0)


@given(
    options=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4),
    room=st.integers(3, 24),
)
def test_the_answer_is_never_cut_and_the_context_only_as_far_as_needed(options, room):
    texts = [made(*sizes) for sizes in options]
    found = fit_together(texts, room)
    context = min(before for before, _, _ in options) + min(after for _, _, after in options)
    excess = max(0, max(len(text.ids) for text in texts) - room)
    if found is None:
        assert excess > context or excess > min(before + after for before, _, after in options)
        return
    for text, cut in zip(texts, found[0], strict=True):
        assert cut.ids[slice(*cut.scored)] == text.ids[slice(*text.scored)]
        assert len(text.ids) - len(cut.ids) == found[1] == excess
    assert max(len(cut.ids) for cut in found[0]) <= room


def test_cutting_what_must_stay_is_an_error():
    with pytest.raises(ValueError, match="3 and 2 tokens may be cut, not 4 and 0"):
        made(3, 2, 2).without(4, 0)
