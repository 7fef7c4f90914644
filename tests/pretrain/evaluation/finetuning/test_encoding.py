"""Layouts of every kind of item by hand and by the tokenizer's own template; what is cut, counted and refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.evaluation.finetuning.encoding import cut_lengths, encode, window
from pretrain.evaluation.tasks.definition import ChoiceItem, PairItem, SpanItem, TextItem

from .items import choices, spans, texts


def sequences(encoded):
    return [encoded.ids[a:b].tolist() for a, b in zip(encoded.starts, encoded.starts[1:], strict=False)]


def words(tokenizer, encoded):
    return [tokenizer.decode(one, skip_special_tokens=False) for one in sequences(encoded)]


@pytest.mark.parametrize("pair", [False, True])
def test_texts_are_laid_out_as_by_the_tokenizers_own_template(tokenizer, pair):
    rows = texts(6, pair)
    encoded, cut = encode(rows, tokenizer, 64, "refuse")
    assert cut == 0 and len(encoded) == 6
    assert encoded.labels.tolist() == [0, 1, 0, 1, 0, 1]
    for number, row in enumerate(rows):
        theirs = tokenizer.encode(row.text_a, row.text_b)
        here = slice(encoded.starts[number], encoded.starts[number + 1])
        assert encoded.ids[here].tolist() == theirs.ids
        assert encoded.types[here].tolist() == theirs.type_ids


def test_every_option_is_a_sequence_with_the_context_before_it(tokenizer):
    rows = [
        ChoiceItem("a", "we use ", ("the key", "the file"), " now", 0, "g"),
        ChoiceItem("b", "", ("the file", "it"), " is new", None, "g"),
    ]
    encoded, _ = encode(rows, tokenizer, 64, "refuse")
    assert words(tokenizer, encoded) == [
        "[CLS] we use [SEP] the key now [SEP]",
        "[CLS] we use [SEP] the file now [SEP]",
        "[CLS] the file is new [SEP]",
        "[CLS] it is new [SEP]",
    ]
    assert encoded.items.tolist() == [0, 2, 4]
    border = encoded.ids.tolist().index(tokenizer.token_to_id("[SEP]")) + 1
    assert encoded.types[: encoded.starts[1]].tolist() == [0] * border + [1] * (int(encoded.starts[1]) - border)
    assert encoded.labels[0] == 0 and np.isnan(encoded.labels[1])


def test_spans_are_the_tokens_of_their_characters(tokenizer):
    encoded, _ = encode(spans(2), tokenizer, 64, "refuse")
    for number, expected in enumerate(("key", "dog")):
        tokens = sequences(encoded)[number]
        a, b, c, d = encoded.spans[number]
        assert tokenizer.decode(tokens[a:b]) == expected
        assert tokenizer.decode(tokens[c:d]) == "it"


def test_a_long_text_is_refused_or_cut_and_counted(tokenizer):
    rows = [TextItem("x", "the table the table", "the table the", 0, "g"), TextItem("y", "the", "the", 0, "g")]
    with pytest.raises(InputError, match="item x has 10 tokens, but max_length is 8"):
        encode(rows, tokenizer, 8, "refuse")
    encoded, cut = encode(rows, tokenizer, 8, "cut")
    assert cut == 1
    assert encoded.lengths.tolist() == [8, 5]


def test_of_a_choice_only_what_stands_before_the_options_is_cut(tokenizer):
    row = ChoiceItem("x", "the table is new we use the file", ("the key", "it"), " now", 0, "g")

    def ids(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    context, endings = ids(row.prefix), [ids("the key now"), ids("it now")]
    longest = 3 + len(endings[0])
    with pytest.raises(
        InputError, match=f"item x has {len(context) + longest} tokens, but max_length is {longest + 2}"
    ):
        encode([row], tokenizer, longest + 2, "refuse")
    encoded, cut = encode([row], tokenizer, longest + 2, "cut")
    assert cut == 1 and encoded.lengths.tolist() == [longest + 2] * 2
    cls, sep = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    for sequence, ending in zip(sequences(encoded), endings, strict=True):
        kept = longest - 1 - len(ending)
        assert sequence == [cls, *context[-kept:], sep, *ending, sep]
    with pytest.raises(
        InputError, match=rf"item x has an option of {longest - 3} tokens .* does not fit into max_length"
    ):
        encode([row], tokenizer, longest, "cut")


def test_a_long_text_with_spans_keeps_them(tokenizer):
    (row,) = spans(1)
    whole, _ = encode([row], tokenizer, 64, "refuse")
    extent = int(whole.spans[0, 3] - whole.spans[0, 0])
    encoded, cut = encode([row], tokenizer, extent + 3, "cut")
    assert cut == 1 and encoded.lengths.tolist() == [extent + 3]
    a, b, c, d = encoded.spans[0]
    (tokens,) = sequences(encoded)
    assert (tokenizer.decode(tokens[a:b]), tokenizer.decode(tokens[c:d])) == ("key", "it")
    with pytest.raises(InputError, match=f"the spans of item 0 lie {extent} tokens apart"):
        encode([row], tokenizer, extent + 1, "cut")


def test_what_has_no_token_is_refused(tokenizer):
    with pytest.raises(InputError, match="item x has a text without any token"):
        encode([TextItem("x", " ", None, 0, "g")], tokenizer, 8, "cut")
    with pytest.raises(InputError, match=r"item x has an option without any token"):
        encode([ChoiceItem("x", "the", (" ", "it"), "", 0, "g")], tokenizer, 8, "cut")
    with pytest.raises(InputError, match="makes no token of the span ' '"):
        encode([SpanItem("x", "the dog", (3, 4), (0, 3), 0, "g")], tokenizer, 8, "cut")
    with pytest.raises(InputError, match="minimal pairs are scored without training"):
        encode([PairItem("x", "a", "b", "p", "g")], tokenizer, 8, "cut")


@given(st.integers(1, 200), st.integers(1, 200), st.integers(2, 200))
def test_cutting_fills_the_room_and_takes_from_the_longer(length_a, length_b, room):
    kept_a, kept_b = cut_lengths(length_a, length_b, room)
    assert kept_a + kept_b == min(room, length_a + length_b)
    assert 0 < kept_a <= length_a and 0 < kept_b <= length_b
    if kept_a < length_a and kept_b < length_b:
        assert abs(kept_a - kept_b) <= 1


@given(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(0, n - 1), st.integers(1, n), st.integers(1, n))
    )
)
def test_a_window_is_full_and_holds_what_it_must(values):
    length, first, size, room = values
    last = min(length, first + min(size, room))
    start, end = window(length, first, last, room)
    assert 0 <= start <= first and last <= end <= length and end - start == min(room, length)


def test_taking_items_keeps_their_sequences(tokenizer):
    encoded, _ = encode(choices(6), tokenizer, 64, "refuse")
    taken = encoded.take([5, 2])
    assert taken.labels.tolist() == [encoded.labels[5], encoded.labels[2]]
    lists = sequences(encoded)
    expected = lists[encoded.items[5] : encoded.items[6]] + lists[encoded.items[2] : encoded.items[3]]
    assert sequences(taken) == expected
    marked, _ = encode(spans(4), tokenizer, 64, "refuse")
    assert marked.take([3]).spans.tolist() == [marked.spans[3].tolist()]
