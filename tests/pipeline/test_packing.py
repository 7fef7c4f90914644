import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.packing import assemble, fit, pack, split_documents

CLS, SEP = 2, 3
lengths_lists = st.lists(st.integers(0, 60), max_size=80)


def naive_best_fit(sizes: list[int], capacity: int) -> list[list[int]]:
    """The textbook loop: longest first, into the fullest bin that has room; the sizes in each bin."""
    bins: list[list[int]] = []
    for size in sorted(sizes, reverse=True):
        fitting = [b for b in bins if sum(b) + size <= capacity]
        if fitting:
            max(fitting, key=sum).append(size)
        else:
            bins.append([size])
    return bins


def documents_of(lengths: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Every token its own number from 10 on, so that each can be found again."""
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return np.arange(10, 10 + offsets[-1], dtype=np.uint32), offsets


def rows_of(lengths: list[int], row_length: int, rows_per_block: int = 7):
    tokens, offsets = documents_of(lengths)
    keys = np.arange(len(lengths), dtype=np.uint64) + 1000
    packing = pack(np.array(lengths, dtype=np.int64), row_length)
    for block in assemble(packing, tokens, offsets, keys, CLS, SEP, rows_per_block):
        for r in range(len(block)):
            row = block.input_ids[block.row_offsets[r] : block.row_offsets[r + 1]]
            at = slice(block.piece_offsets[r], block.piece_offsets[r + 1])
            yield row, block.lengths[at], block.document[at]


@settings(max_examples=300)
@given(st.lists(st.integers(1, 20), max_size=60))
def test_every_item_has_a_bin_none_overflows_and_the_room_left_is_true(sizes):
    bins, room = fit(np.array(sizes, dtype=np.int64), 20)
    filled = np.bincount(bins, weights=sizes, minlength=len(room)) if sizes else np.zeros(0)
    assert (filled > 0).all() and (filled <= 20).all()
    assert (20 - filled).tolist() == room.tolist()


def least_room(sizes: list[int], capacity: int) -> int:
    """By trying all subsets: the least room that the longest item and others leave."""
    others = sorted(sizes)[:-1]
    sums = {0}
    for size in others:
        sums |= {total + size for total in sums}
    return min(capacity - max(sizes) - total for total in sums if total <= capacity - max(sizes))


@settings(max_examples=200)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=10))
def test_the_longest_item_shares_a_bin_that_no_choice_of_others_fills_better(sizes):
    bins, room = fit(np.array(sizes, dtype=np.int64), 20)
    holding_the_longest = {int(bins[i]) for i, size in enumerate(sizes) if size == max(sizes)}
    assert least_room(sizes, 20) in {int(room[b]) for b in holding_the_longest}


@pytest.mark.parametrize("longest", [20, 60, 126])
@pytest.mark.parametrize("seed", range(4))
def test_it_takes_no_more_bins_than_best_fit_decreasing(longest, seed):
    sizes = np.random.default_rng(seed).integers(3, longest, 400)
    assert len(fit(sizes, 128)[1]) <= len(naive_best_fit(sizes.tolist(), 128))


@pytest.mark.parametrize("sizes", [[0], [21]])
def test_sizes_that_cannot_fit_are_refused(sizes):
    with pytest.raises(ValueError, match="between 1 and 20"):
        fit(np.array(sizes), 20)


@given(lengths_lists, st.integers(1, 30))
def test_pieces_cover_each_document_in_order_and_only_the_last_is_short(lengths, capacity):
    pieces = split_documents(np.array(lengths, dtype=np.int64), capacity)
    for number, length in enumerate(lengths):
        mine = pieces.document == number
        ends = np.concatenate(([0], np.cumsum(pieces.length[mine])))
        assert ends[-1] == length
        assert pieces.start[mine].tolist() == ends[:-1].tolist()
        assert (pieces.length[mine][:-1] == capacity).all()


@settings(max_examples=200)
@given(lengths_lists, st.integers(3, 24))
def test_every_token_appears_exactly_once_between_its_special_tokens(lengths, row_length):
    seen = []
    for row, pieces, documents in rows_of(lengths, row_length):
        assert len(row) <= row_length
        assert pieces.sum() == len(row)
        assert len(pieces) == len(documents)
        ends = np.cumsum(pieces)
        assert (row[ends - 1] == SEP).all()
        assert (row[ends - pieces] == CLS).all()
        for begin, end, document in zip(ends - pieces, ends, documents, strict=True):
            inside = row[begin + 1 : end - 1]
            assert len(inside) and (np.diff(inside.astype(int)) == 1).all()
            first = 10 + sum(lengths[: int(document) - 1000])
            assert first <= inside[0] and inside[-1] < first + lengths[int(document) - 1000]
            seen.extend(inside.tolist())
    assert sorted(seen) == list(range(10, 10 + sum(lengths)))


@given(lengths_lists, st.integers(3, 24))
def test_pieces_of_a_row_follow_document_order_and_rows_their_first_document(lengths, row_length):
    packing = pack(np.array(lengths, dtype=np.int64), row_length)
    assert (np.diff(packing.row) >= 0).all()
    first = []
    for row in range(packing.rows):
        mine = packing.row == row
        places = list(zip(packing.pieces.document[mine], packing.pieces.start[mine], strict=True))
        assert places and places == sorted(places)
        first.append(places[0][0])
    assert first == sorted(first)


@given(lengths_lists, st.integers(3, 24), st.integers(1, 9))
def test_blocks_of_any_size_give_the_same_rows(lengths, row_length, rows_per_block):
    def flat(per_block):
        return [(r.tolist(), p.tolist(), d.tolist()) for r, p, d in rows_of(lengths, row_length, per_block)]

    assert flat(rows_per_block) == flat(10_000)


def test_no_documents_give_no_rows():
    packing = pack(np.array([], dtype=np.int64), 128)
    assert (packing.rows, packing.tokens, packing.fill) == (0, 0, 1.0)
    assert list(rows_of([], 128)) == []


@pytest.mark.parametrize(
    ("mean", "spread"),
    [(2.6, 0.3), (2.5, 0.6), (4.3, 0.8), (6.5, 1.0)],
    ids=["captions", "lines", "paragraphs", "pages"],
)
def test_rows_are_more_than_99_percent_full_on_log_normal_lengths(mean, spread):
    lengths = np.random.default_rng(0).lognormal(mean, spread, 20_000).astype(np.int64) + 1
    assert pack(lengths, 128).fill > 0.99


def test_rows_need_room_for_a_token_between_the_special_ones():
    with pytest.raises(ValueError, match="at least one token"):
        pack(np.array([5]), 2)
