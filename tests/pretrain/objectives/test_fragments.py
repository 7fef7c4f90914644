"""Which fragments of a row are taken out: their lengths, their starts, and what these depend on."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.objectives.fragments import FragmentRule, choose_fragments, fragment_length, most_targets

LENGTH = 40


def row_keys(count, name="test"):
    return hash_coordinates(derive_key(name), np.arange(count))


def segments_of(rows, length=LENGTH):
    """Rows of pieces with so many places each (special tokens counted), and padding."""
    segments = np.zeros((len(rows), length), dtype=np.int32)
    for row, pieces in enumerate(rows):
        numbers = np.repeat(np.arange(1, len(pieces) + 1), pieces)
        segments[row, : len(numbers)] = numbers
    return segments


def blocks_of(pieces, block_size):
    """(first place, tokens) of each block of a row's pieces, by the words of the rule."""
    found, place = [], 0
    for size in pieces:
        text = list(range(place + 1, place + size - 1))
        step = block_size or max(len(text), 1)
        found += [(text[i], len(text[i : i + step])) for i in range(0, len(text), step)]
        place += size
    return found


def spans(fragments, row):
    mine = fragments.row == row
    return list(zip(fragments.start[mine].tolist(), fragments.length[mine].tolist(), strict=True))


some_rows = st.lists(
    st.lists(st.integers(1, 14), max_size=6).filter(lambda pieces: sum(pieces) <= LENGTH), min_size=1, max_size=5
)
shares = st.floats(0.01, 1.0)
rules = st.builds(
    lambda share, first, last, size: FragmentRule(share, first, (1 - first) * last, size),
    shares,
    st.floats(0, 1),
    st.floats(0, 1),
    st.none() | st.integers(1, 20),
)


def test_a_fragment_is_half_of_the_text_rounded_half_to_even():
    assert fragment_length(np.array([0, 1, 2, 3, 5, 7, 10, 64]), 0.5).tolist() == [0, 0, 1, 2, 2, 4, 5, 32]


def test_a_row_worked_out_by_hand():
    """[CLS] a b c d [SEP] [CLS] e [SEP] [CLS] f g [SEP], padding: k = 2, 0 and 1."""
    segments = segments_of([[6, 3, 4]], 15)
    first = choose_fragments(segments, row_keys(1), FragmentRule(first_share=1.0, last_share=0.0))
    last = choose_fragments(segments, row_keys(1), FragmentRule(first_share=0.0, last_share=1.0))
    assert spans(first, 0) == [(1, 2), (10, 1)]
    assert spans(last, 0) == [(3, 2), (11, 1)]
    assert np.flatnonzero(last.places(segments.shape)).tolist() == [3, 4, 11]
    assert np.flatnonzero(last.starts(segments.shape)).tolist() == [3, 11]


def test_each_block_of_a_long_piece_has_a_fragment_and_so_has_what_is_left_over():
    segments = segments_of([[2 + 64 + 64 + 10]], 150)
    whole = choose_fragments(segments, row_keys(1), FragmentRule(0.5, 1.0, 0.0, None))
    blocks = choose_fragments(segments, row_keys(1), FragmentRule(0.5, 1.0, 0.0, 64))
    assert spans(whole, 0) == [(1, 69)]
    assert spans(blocks, 0) == [(1, 32), (65, 32), (129, 5)]


@given(some_rows, rules, st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_every_block_has_one_fragment_of_the_right_length_within_it(rows, rule, seed):
    segments = segments_of(rows)
    before = segments.copy()
    fragments = choose_fragments(segments, row_keys(len(rows), str(seed)), rule)
    assert np.array_equal(segments, before)
    for row, pieces in enumerate(rows):
        blocks = [(first, size, round(rule.share * size)) for first, size in blocks_of(pieces, rule.block_size)]
        expected = [(first, size, k) for first, size, k in blocks if k > 0]
        found = spans(fragments, row)
        assert [k for _, _, k in expected] == [length for _, length in found]
        for (first, size, k), (start, _) in zip(expected, found, strict=True):
            assert first <= start <= first + size - k
        places = [place for start, length in found for place in range(start, start + length)]
        assert np.flatnonzero(fragments.places(segments.shape)[row]).tolist() == places
        assert np.flatnonzero(fragments.starts(segments.shape)[row]).tolist() == [start for start, _ in found]


@given(some_rows, rules, st.integers(0, 2**32), st.integers(0, 4))
@settings(max_examples=100, deadline=None)
def test_a_rows_fragments_depend_on_its_own_key_alone(rows, rule, seed, cut):
    segments, keys = segments_of(rows), row_keys(len(rows), str(seed))
    whole = choose_fragments(segments, keys, rule).places(segments.shape)
    parts = [
        choose_fragments(segments[part], keys[part], rule).places(segments[part].shape)
        for part in (slice(0, cut), slice(cut, None))
    ]
    assert np.array_equal(np.concatenate(parts), whole)


def test_a_piece_is_treated_alike_whatever_follows_it_in_the_row():
    keys, rule = row_keys(50), FragmentRule()
    alone = choose_fragments(segments_of([[12]] * 50), keys, rule)
    followed = choose_fragments(segments_of([[12, 9, 5]] * 50), keys, rule)
    assert all(spans(alone, row)[0] == spans(followed, row)[0] for row in range(50))


def test_another_key_gives_other_fragments():
    segments = segments_of([[40]] * 100)
    one, other = (choose_fragments(segments, row_keys(100, name), FragmentRule()).start for name in ("a", "b"))
    assert 20 < (one != other).sum() < 100


@pytest.mark.parametrize(("first", "last"), [(0.2, 0.2), (0.0, 0.0), (0.5, 0.1)])
def test_starts_have_their_distribution(first, last):
    """A text of 10 tokens has 6 starts for a fragment of 5: the rest of the share is spread evenly over all of them."""
    count = 20_000
    fragments = choose_fragments(segments_of([[12]] * count, 12), row_keys(count), FragmentRule(0.5, first, last))
    observed = np.bincount(fragments.start, minlength=7)[1:]
    expected = np.full(6, (1 - first - last) / 6)
    expected[0] += first
    expected[-1] += last
    assert scipy.stats.chisquare(observed, expected * count).pvalue > 0.001


def test_the_blocks_of_a_piece_and_the_pieces_of_a_row_are_independent():
    count = 20_000
    for pieces, rule in (([22], FragmentRule(0.5, 0.2, 0.2, 10)), ([12, 12], FragmentRule(0.5, 0.2, 0.2))):
        fragments = choose_fragments(segments_of([pieces] * count, 24), row_keys(count), rule)
        starts = fragments.start.reshape(count, 2)
        starts = starts - starts.min(axis=0)
        table = np.zeros((6, 6), dtype=np.int64)
        np.add.at(table, (starts[:, 0], starts[:, 1]), 1)
        assert scipy.stats.chi2_contingency(table).pvalue > 0.001


def packings(places):
    """Every multiset of pieces of three places or more that fit into so many."""

    def extended(pieces, room, largest):
        yield pieces
        for size in range(3, min(room, largest) + 1):
            yield from extended([*pieces, size], room - size, size)

    return extended([], places, places)


@pytest.mark.parametrize("block_size", [None, 4])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.7, 1.0])
def test_no_packing_of_a_row_has_more_targets_than_the_most_and_one_has_as_many(share, block_size):
    rule = FragmentRule(share, block_size=block_size)
    for length in (3, 11, 20):
        found = [sum(round(share * size) for _, size in blocks_of(pieces, block_size)) for pieces in packings(length)]
        assert max(found) == most_targets(length, rule)


def test_half_of_a_row_is_the_most_of_usual_rows():
    assert most_targets(128, FragmentRule()) == 63
    assert most_targets(512, FragmentRule()) == 255
    assert most_targets(2, FragmentRule()) == 0
