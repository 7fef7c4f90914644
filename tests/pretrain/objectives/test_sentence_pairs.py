"""Pairs of text parts: made of whole pieces, balanced, and not to be told by lengths or by how a part ends."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.packing import assemble, pack
from pipeline.shard_columns import sentence_start_column
from pipeline.shards import Rows
from pipeline.token_flags import SENTENCE_END, SENTENCE_START, ids_of
from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.objectives.sentence_pairs import MINIMUM_PLACES, make_pairs, pair_capacity
from tests.helpers.rows import part_of

SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
STOP, LENGTH = 5, 48
TASKS = ("next_sentence", "sentence_order")


def packed_rows(count, seed, documents=None, sentences=(1, 12), length=LENGTH, lengths=(2, 14)):
    """`count` rows of documents whose sentences end in STOP. A token is 6 + 1000 * document + place in it: unique."""
    generator = np.random.default_rng(seed)
    codes, sizes = [], []
    for document in range(documents or 4 * count):
        tokens = []
        for _ in range(generator.integers(*sentences)):
            sentence = 6 + 1000 * (document + 1) + len(tokens) + np.arange(generator.integers(*lengths))
            sentence[-1] = STOP
            sentence[0] |= SENTENCE_START
            sentence[-1] |= SENTENCE_END
            tokens.extend(sentence.tolist())
        codes.extend(tokens)
        sizes.append(len(tokens))
    sizes = np.array(sizes, dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    keys = np.arange(len(sizes), dtype=np.uint64)
    packing = pack(sizes, length)
    ids, segments, starts = (np.zeros((packing.rows, length), dtype) for dtype in (np.uint32, np.int32, bool))
    row = 0
    for block in assemble(packing, np.array(codes, np.uint32), offsets, keys, SPECIAL["cls"], SPECIAL["sep"]):
        flat, column = ids_of(block.input_ids, "uint32"), sentence_start_column(block)
        for number in range(len(block)):
            begin, end = block.row_offsets[number : number + 2]
            pieces = block.lengths[block.piece_offsets[number] : block.piece_offsets[number + 1]]
            ids[row, : end - begin], starts[row, : end - begin] = flat[begin:end], column[begin:end]
            segments[row, : end - begin] = np.repeat(np.arange(1, len(pieces) + 1), pieces)
            row += 1
    order = np.random.default_rng(seed + 1).permutation(packing.rows)[:count]
    return Rows(ids[order], segments[order], (ids[order] % 3 > 0) | (ids[order] == SPECIAL["sep"]), starts[order])


def pairs_of(task, rows, partners=None, name="test", used=None):
    count = len(rows.input_ids)
    keys = hash_coordinates(derive_key(name), np.arange(count))
    return make_pairs(rows, keys, np.ones(count, dtype=bool) if used is None else used, task, SPECIAL, partners)


def parts_of(pairs):
    """(label, first part, second part, row) of each pair, tokens without special ones."""
    ids, types = pairs.rows.input_ids.reshape(-1), pairs.token_type_ids.reshape(-1)
    segments = pairs.rows.segments.reshape(-1)
    length = pairs.rows.input_ids.shape[1]
    found = []
    for position, label in zip(pairs.positions[pairs.weights > 0], pairs.labels[pairs.weights > 0], strict=True):
        row_end = (position // length + 1) * length
        inside = np.arange(position, row_end)
        inside = inside[segments[inside] == segments[position]]
        first, second = ids[inside[types[inside] == 0]], ids[inside[types[inside] == 1]]
        assert first[0] == SPECIAL["cls"] and first[-1] == second[-1] == SPECIAL["sep"]
        found.append((int(label), first[1:-1].tolist(), second[:-1].tolist(), int(position // length)))
    return found


def holds(rows, row, tokens):
    """Whether the tokens follow each other in a row."""
    text = rows.input_ids[row].tolist()
    return any(text[begin : begin + len(tokens)] == tokens for begin in range(len(text) - len(tokens) + 1))


def follows(rows, row, first, second):
    """Whether `second` comes after `first` in a row, with no more than a lost full stop between them."""
    return holds(rows, row, first + second) or holds(rows, row, [*first, STOP, *second])


@st.composite
def worlds(draw):
    seed = draw(st.integers(0, 2**31))
    longest = draw(st.sampled_from([4, 14, 60]))
    made = {"sentences": (1, draw(st.integers(2, 12))), "lengths": (2, longest)}
    return packed_rows(6, seed, 60, **made), packed_rows(6, seed + 7, 60, **made)


@given(worlds(), st.sampled_from(TASKS), st.integers(0, 2**31))
@settings(max_examples=100, deadline=None)
def test_pieces_become_pairs_or_stay_and_nothing_else_happens(world, task, seed):
    rows, partners = world
    count = min(len(rows.input_ids), len(partners.input_ids))
    rows, partners = (part_of(made, slice(count)) for made in world)
    columns = [part for made in (rows, partners) for part in vars(made).values() if part is not None]
    before = [column.copy() for column in columns]
    pairs = pairs_of(task, rows, partners, str(seed))
    assert all(np.array_equal(a, b) for a, b in zip(before, columns, strict=True))
    made = pairs.rows
    pieces = [int(row.max()) for row in rows.segments]
    assert [int(row.max()) for row in made.segments] == pieces
    padding = made.segments == 0
    assert (made.input_ids[padding] == SPECIAL["pad"]).all() and not pairs.token_type_ids[padding].any()
    # Padding only at the end, no row longer than it was, and one [CLS] for each piece.
    assert (np.diff(padding.astype(int), axis=1) >= 0).all()
    assert ((made.input_ids == SPECIAL["cls"]).sum(axis=1) == pieces).all()
    for label, first, second, row in parts_of(pairs):
        assert first and second
        if task == "sentence_order":
            assert follows(rows, row, *((second, first) if label else (first, second)))
        elif label:
            assert not follows(rows, row, first, second)
            assert holds(partners, row, second) and holds(rows, row, first)
        else:
            assert follows(rows, row, first, second)
    assert len(pairs.positions) == count * pair_capacity(LENGTH)
    stayed = {tuple(row[row > 0]) for row in np.where(pairs.token_type_ids.any(axis=1)[:, None], 0, made.input_ids)}
    assert stayed - {()} <= {tuple(row[row > 0]) for row in rows.input_ids}


@given(worlds(), st.sampled_from(TASKS))
@settings(max_examples=50, deadline=None)
def test_parts_begin_with_sentences(world, task):
    rows, partners = world
    count = min(len(rows.input_ids), len(partners.input_ids))
    rows, partners = (part_of(made, slice(count)) for made in world)
    begins = {
        int(made.input_ids[place])
        for made in (rows, partners)
        for place in zip(*np.nonzero(made.sentence_start), strict=True)
    }
    for _, first, second, _ in parts_of(pairs_of(task, rows, partners)):
        assert second[0] in begins
        if task == "sentence_order":
            assert first[0] in begins
            # Both whole, or both without their last token.
            assert (first[-1] == STOP) == (second[-1] == STOP)


def many_pairs(task, **made):
    rows, partners = packed_rows(3000, 1, **made), packed_rows(3000, 2, **made)
    count = min(len(rows.input_ids), len(partners.input_ids))
    rows, partners = (part_of(kind, slice(count)) for kind in (rows, partners))
    return parts_of(pairs_of(task, rows, partners))


SHORT = {"documents": 9000, "sentences": (2, 6)}
LONG = {"documents": 300, "sentences": (20, 80)}
TITLED = {"documents": 9000, "sentences": (2, 4), "lengths": (1, 20)}


@pytest.mark.parametrize("made", [SHORT, LONG, TITLED], ids=["short", "long", "few sentences"])
@pytest.mark.parametrize("task", TASKS)
def test_labels_are_balanced_and_no_rule_of_lengths_or_ends_tells_them(task, made):
    found = many_pairs(task, **made)
    labels = np.array([label for label, *_ in found])
    assert len(labels) > 500
    assert scipy.stats.binomtest(int(labels.sum()), len(labels), 0.5).pvalue > 0.001
    first = np.array([len(part) for _, part, _, _ in found])
    second = np.array([len(part) for _, _, part, _ in found])
    ends_first = np.array([part[-1] == STOP for _, part, _, _ in found])
    ends_second = np.array([part[-1] == STOP for _, _, part, _ in found])
    rules = {
        "the first is longer": first > second,
        "the first is long": first > np.median(first),
        "the second is long": second > np.median(second),
        "the pair is long": first + second > np.median(first + second),
        "the first ends a sentence": ends_first,
    }
    if task == "sentence_order":
        rules["the second ends a sentence"] = ends_second
    for name, says in rules.items():
        right = int((says == (labels == 1)).sum())
        assert scipy.stats.binomtest(right, len(labels), 0.5).pvalue > 0.001, f"{name}: {right / len(labels):.3f}"
    # The true second part and the other end a sentence about as often.
    assert abs(ends_second[labels == 1].mean() - ends_second[labels == 0].mean()) < 0.12


@pytest.mark.parametrize("task", TASKS)
def test_a_row_gives_the_same_pairs_in_any_batch_and_others_with_another_key(task):
    rows, partners = packed_rows(20, 3), packed_rows(20, 4)
    keys = hash_coordinates(derive_key("test"), np.arange(20))

    def ids(part, keys):
        mine, theirs = (part_of(made, part) for made in (rows, partners))
        return make_pairs(mine, keys[part], np.ones(20, dtype=bool)[part], task, SPECIAL, theirs).rows.input_ids

    whole = ids(slice(None), keys)
    assert np.array_equal(np.concatenate([ids(slice(0, 7), keys), ids(slice(7, None), keys)]), whole)
    assert not np.array_equal(ids(slice(None), keys + np.uint64(1)), whole)


@pytest.mark.parametrize("task", TASKS)
def test_rows_that_are_not_used_give_pairs_without_weight(task):
    rows, partners = packed_rows(20, 3), packed_rows(20, 4)
    used = np.arange(20) % 2 == 0
    pairs, all_used = pairs_of(task, rows, partners, used=used), pairs_of(task, rows, partners)
    assert np.array_equal(pairs.rows.input_ids, all_used.rows.input_ids)
    weighted = pairs.positions[pairs.weights > 0] // LENGTH
    assert len(weighted) and (weighted % 2 == 0).all()


@pytest.mark.parametrize("task", TASKS)
def test_words_keep_their_starts(task):
    rows, partners = packed_rows(20, 3), packed_rows(20, 4)
    made = pairs_of(task, rows, partners).rows
    ordinary = made.input_ids > 5
    assert np.array_equal(made.word_start[ordinary], made.input_ids[ordinary] % 3 > 0)
    assert made.word_start[(made.input_ids == SPECIAL["sep"])].all() and not made.word_start[made.segments == 0].any()


def test_short_pieces_stay_and_a_row_has_no_more_pairs_than_slots():
    rows = packed_rows(50, 5, 900, sentences=(3, 6), lengths=(2, 5))
    pairs = pairs_of("sentence_order", rows)
    starts = pairs.positions[pairs.weights > 0]
    assert np.bincount(starts // LENGTH).max() <= pair_capacity(LENGTH) == LENGTH // MINIMUM_PLACES
    sizes = [int((row == number).sum()) for row in rows.segments for number in range(1, row.max() + 1)]
    assert min(sizes) < MINIMUM_PLACES and len(starts) <= sum(size >= MINIMUM_PLACES for size in sizes)


@pytest.mark.parametrize("task", TASKS)
def test_rows_without_the_column_are_refused(task):
    rows = packed_rows(2, 3)
    with pytest.raises(ValueError, match="sentence_lengths"):
        pairs_of(task, Rows(rows.input_ids, rows.segments), rows)
    with pytest.raises(ValueError, match="partners"):
        pairs_of("next_sentence", rows, None)
