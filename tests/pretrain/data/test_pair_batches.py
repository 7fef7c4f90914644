import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.shards import read_manifest
from pretrain.data import pair_batches
from pretrain.data.mixture import open_mixture
from pretrain.data.pair_batches import LENGTH_MULTIPLE, PairBatches, PairReading, cut_into_batches, joined, padded
from tests.helpers.pair_directory import write_toy_pairs

LENGTHS = st.lists(st.tuples(st.integers(1, 70), st.integers(1, 70)), max_size=200)


def cut(lengths, max_tokens, words=None):
    source, target = np.array(lengths, dtype=np.int64).reshape(-1, 2).T
    words = np.arange(len(source), dtype=np.uint64) if words is None else words
    return source, target, *cut_into_batches(source, target, max_tokens, words)


def batches(order, bounds):
    return [order[start:end] for start, end in itertools.pairwise(bounds)]


@given(LENGTHS, st.integers(8, 400))
def test_every_pair_is_in_one_batch_and_no_batch_is_over_the_budget_but_of_a_single_long_pair(lengths, budget):
    source, target, order, bounds = cut(lengths, budget)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    for batch in batches(order, bounds):
        widest = max(padded(source[batch]).max(), padded(target[batch]).max())
        assert len(batch) >= 1
        assert len(batch) * widest <= budget or len(batch) == 1


@given(LENGTHS, st.integers(8, 400))
def test_no_batch_could_have_taken_the_first_pair_of_the_next(lengths, budget):
    source, target, order, bounds = cut(lengths, budget)
    found = batches(order, bounds)
    for batch, after in itertools.pairwise(found):
        more = np.append(batch, after[0])
        assert len(more) * max(padded(source[more]).max(), padded(target[more]).max()) > budget


@given(LENGTHS)
def test_pairs_are_sorted_by_padded_target_then_source_then_word(lengths):
    words = np.arange(len(lengths), dtype=np.uint64)[::-1].copy()
    source, target, order, _ = cut(lengths, 64, words)
    keys = [(int(padded(target[i])), int(padded(source[i])), int(words[i])) for i in order]
    assert keys == sorted(keys)


def test_batches_by_hand():
    # shapes (8, 8) x 3, (16, 8) x 1 with a budget of 32: four of the first would fit, two once the longer one is in
    _, _, order, bounds = cut([(8, 3), (2, 8), (12, 8), (5, 5)], 32)
    assert order.tolist() == [0, 1, 3, 2] and bounds.tolist() == [0, 3, 4]
    _, _, order, bounds = cut([(8, 3), (12, 8)], 32)
    assert bounds.tolist() == [0, 2]


@pytest.mark.parametrize(("length", "expected"), [(1, 8), (8, 8), (9, 16)])
def test_lengths_are_padded_to_the_multiple(length, expected):
    assert LENGTH_MULTIPLE == 8 and padded(np.array([length])).tolist() == [expected]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_toy_pairs(tmp_path_factory.mktemp("pairs") / "toy", 500)


def reader(directory, tokens=128, split="train"):
    return PairBatches(directory, read_manifest(directory), split, tokens)


def test_rows_are_fixed_sets_of_pairs_that_cover_the_split(directory):
    rows = reader(directory)
    numbers = np.concatenate([rows.pairs_of(row) for row in range(len(rows))])
    assert sorted(numbers.tolist()) == list(range(rows.num_pairs)) and rows.num_pairs == 450
    assert [rows.pairs_of(3).tolist()] == [reader(directory).pairs_of(3).tolist()]


def test_blocks_of_pairs_are_sorted_one_by_one(directory, monkeypatch):
    monkeypatch.setattr(pair_batches, "PAIRS_PER_BLOCK", 100)
    rows = reader(directory)
    seen = [rows.pairs_of(row) for row in range(len(rows))]
    assert all(len(set(numbers // 100)) == 1 for numbers in seen)
    assert sorted(np.concatenate(seen).tolist()) == list(range(450))


def test_a_row_holds_its_pairs_and_says_whose_they_are(directory):
    rows = reader(directory)
    read = rows.rows([5, 2])
    expected = rows.pairs(np.concatenate([rows.pairs_of(5), rows.pairs_of(2)]))
    assert np.array_equal(read.pairs.source_ids, expected.source_ids)
    assert np.array_equal(read.row, np.repeat([0, 1], [len(rows.pairs_of(5)), len(rows.pairs_of(2))]))
    with pytest.raises(IndexError, match="row 99999"):
        rows.pairs_of(99_999)


def test_another_budget_is_another_order(directory):
    assert reader(directory, 128).content_hash != reader(directory, 136).content_hash
    assert len(reader(directory, 256)) < len(reader(directory, 128))


def test_a_reader_goes_to_another_process_without_its_files(directory):
    rows = pickle.loads(pickle.dumps(reader(directory)))
    assert np.array_equal(rows.rows([1]).pairs.target_ids, reader(directory).rows([1]).pairs.target_ids)


def test_a_budget_below_the_longest_sentence_is_refused(directory):
    with pytest.raises(InputError, match=r"objective\.batch_tokens must hold the longest sentence .* but is 31"):
        reader(directory, 31)


def test_columns_of_rows_are_refused(directory):
    with pytest.raises(InputError, match=r"needs the column 'word_start', but .* holds pairs"):
        reader(directory).rows([0], ["word_start"])


def test_joined_pairs_keep_their_rows(directory):
    rows = reader(directory)
    together = joined([rows.rows([4]), rows.rows([7, 1])], [np.array([1]), np.array([2, 0])])
    alone = rows.rows([1, 4, 7])
    for place in range(3):
        ours, theirs = (sorted(one.pairs.target_lengths[one.row == place].tolist()) for one in (together, alone))
        assert ours == theirs


@pytest.fixture(scope="module")
def two(tmp_path_factory, directory):
    return directory, write_toy_pairs(tmp_path_factory.mktemp("pairs") / "other", 500, seed=1)


def test_mixed_directories_share_steps_by_weight(two):
    a, b = two
    mixture = open_mixture({str(a): 3.0, str(b): 1.0}, pairs=PairReading(128))
    picked = mixture.pick(0, 0, 1 << 16)
    which = [source.directory for source in mixture.sources].index(a)
    assert (picked.source == which).mean() == pytest.approx(0.75, abs=2e-5)
    read = mixture.read(mixture.pick(0, 0, 8))
    assert sorted(set(read.row.tolist())) == list(range(8))


def test_rows_of_pairs_need_a_budget_and_packed_rows_none(two, directories):
    with pytest.raises(InputError, match=r"must hold packed rows of one text .* but holds pairs"):
        open_mixture(str(two[0]))
    with pytest.raises(InputError, match=r"must hold pairs of sentences .* but holds packed rows"):
        open_mixture(str(directories[0]), pairs=PairReading(128))


@settings(max_examples=20)
@given(st.integers(0, 10**9), st.integers(1, 4), st.integers(1, 3))
def test_a_global_batch_is_the_same_however_it_is_split(directory, first, world, size):
    mixture = open_mixture(str(directory), pairs=PairReading(128))
    whole = mixture.pick(3, first, world * size * 2)
    again = mixture.pick(3, first + size, size)
    assert np.array_equal(whole.rows[size : 2 * size], again.rows)


def test_shards_of_the_other_direction_are_read_with_their_sides_swapped(two, tmp_path):
    there, back = two[0], write_toy_pairs(tmp_path / "back", 500, seed=1, languages=("en", "de"))
    with pytest.raises(InputError, match=r"must have one direction, but those in .* go from de to en .* from en to de"):
        open_mixture([str(there), str(back)], pairs=PairReading(128))
    mixture = open_mixture([str(there), str(back)], pairs=PairReading(128, "de"))
    assert mixture.direction == ("en", "de")
    readers = {source.directory: source.reader for source in mixture.sources}
    plain = reader(there)
    swapped, same = readers[there].pairs([7]), plain.pairs([7])
    assert np.array_equal(swapped.source_ids, same.target_ids) and np.array_equal(swapped.target_ids, same.source_ids)
    assert readers[there].content_hash != plain.content_hash and not readers[back].swapped
    again = pickle.loads(pickle.dumps(mixture.sources))
    assert [source.reader.direction for source in again] == [("en", "de"), ("en", "de")]
    with pytest.raises(InputError, match=r"must have a side in objective\.target_language=fr, but are of de and en"):
        open_mixture(str(there), pairs=PairReading(128, "fr"))
