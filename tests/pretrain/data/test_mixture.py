import json
import pickle
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from conf.errors import InputError
from pipeline.shards import ShardReader, ShardRows, content_hash, read_manifest, write_manifest
from pretrain.data.mixture import Mixture, Picked, Source, open_mixture
from pretrain.data.order import BLOCK, rows_of_samples
from tests.helpers.shard_directory import sentences, write_shards


def picked(source, rows):
    return Picked(np.array(source), np.array(rows), np.zeros(len(rows), dtype=np.int64))


class Huge(ShardRows):
    """A reader of as many rows as one likes: row i holds what row i modulo the real number of rows does."""

    def __init__(self, directory, size, name):
        super().__init__(directory, ShardReader(directory, verify=False).manifest, "train")
        self.size, self.name = size, name

    content_hash = property(lambda self: self.name)

    def __len__(self):
        return self.size

    def rows(self, indices, columns=()):
        return super().rows(np.asarray(indices) % super().__len__(), columns)


def huge_mixture(directories, size=10**9):
    return Mixture(
        [
            Source(directory, weight, Huge(directory, size, f"hash {weight}"))
            for directory, weight in zip(directories, (0.9, 0.1), strict=True)
        ]
    )


def test_one_directory_has_the_order_it_always_had_whatever_its_weight(directories):
    a = str(directories[0])
    for data in (a, {a: 0.3}, OmegaConf.create({a: 2})):
        mixture = open_mixture(data)
        found = mixture.pick(4, 1000, 300)
        rows, visits = rows_of_samples(np.arange(1000, 1300), len(mixture), "row order", 4)
        assert np.array_equal(found.rows, rows) and np.array_equal(found.visits, visits)
        assert not found.source.any()
        assert mixture.key == mixture.sources[0].reader.content_hash


def test_the_weights_hold_exactly_in_every_block_and_nearly_everywhere(mixture):
    weights = {source.directory.name: source.weight for source in mixture.sources}
    assert weights == {"a": 0.7, "b": 0.3}
    share_of_a = mixture.shares[[s.directory.name for s in mixture.sources].index("a")]
    assert share_of_a == round(0.7 * BLOCK)
    source = mixture.pick(0, 3 * BLOCK, 2 * BLOCK).source
    for block in source.reshape(2, BLOCK):
        assert np.bincount(block).tolist() == list(mixture.shares)
    means = (source == np.argmax(mixture.shares)).reshape(-1, 1024).mean(axis=1)
    assert abs(means - 0.7).max() < 5 * (0.7 * 0.3 / 1024) ** 0.5


def test_every_source_goes_through_its_rows_epoch_after_epoch_each_in_another_order(mixture):
    found = mixture.pick(0, 0, 5000)
    for number, source in enumerate(mixture.sources):
        mine = found.source == number
        rows, visits = found.rows[mine], found.visits[mine]
        assert np.array_equal(visits, np.arange(len(visits)) // len(source.reader))
        epochs = [rows[visits == visit] for visit in range(visits[-1])]
        assert len(epochs) >= 2
        assert all(np.array_equal(np.sort(epoch), np.arange(len(source.reader))) for epoch in epochs)
        assert (epochs[0] == epochs[1]).mean() < 0.1


@given(first=st.integers(0, 10**12), count=st.integers(0, 300), cut=st.integers(0, 300), seed=st.integers(0, 3))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_picked_does_not_depend_on_where_one_starts(mixture, first, count, cut, seed):
    cut = min(cut, count)
    whole = mixture.pick(seed, first, count)
    parts = [mixture.pick(seed, first, cut), mixture.pick(seed, first + cut, count - cut)]
    for name in ("source", "rows", "visits"):
        assert np.array_equal(getattr(whole, name), np.concatenate([getattr(part, name) for part in parts]))


def test_key_and_order_depend_on_content_and_weights_and_not_on_how_they_are_written(directories, tmp_path):
    a, b = map(str, directories)
    first = open_mixture({a: 0.7, b: 0.3})
    same = open_mixture({b + "/": 3, a: 7.0})
    assert first.key == same.key
    assert np.array_equal(first.pick(1, 500, 200).rows, same.pick(1, 500, 200).rows)
    other = open_mixture({a: 0.6, b: 0.4})
    assert other.key != first.key
    assert not np.array_equal(first.pick(1, 500, 200).rows, other.pick(1, 500, 200).rows)


def test_rows_of_a_mixture_are_read_in_the_order_they_are_asked_for(mixture):
    wanted = mixture.pick(0, 0, 50)
    told = []
    rows = mixture.read(wanted, watch=told.append)
    assert sorted(told) == [0, 1]
    for place in range(50):
        alone = mixture.sources[wanted.source[place]].reader.rows(wanted.rows[place])
        assert np.array_equal(rows.input_ids[place], alone.input_ids[0])
        assert np.array_equal(rows.segments[place], alone.segments[0])
    assert rows.word_start is None


def test_row_keys_differ_by_seed_directory_row_visit_and_purpose(mixture):
    base = picked([0, 1, 0], [5, 5, 6])
    keys = mixture.row_keys(base, "rows", 0, visits=True)
    later = Picked(base.source, base.rows, base.visits + 1)
    every = [keys, mixture.row_keys(base, "rows", 1, visits=True), mixture.row_keys(later, "rows", 0, visits=True)]
    every.append(mixture.row_keys(base, "validation", visits=False))
    assert len(set(np.concatenate(every).tolist())) == 12
    assert np.array_equal(mixture.row_keys(later, "validation", visits=False), every[-1])


@given(start=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_partner_is_another_row_of_the_same_source_that_is_not_skipped(directories, start):
    plain = open_mixture({str(d): 1 for d in directories})
    skipping = Mixture(
        [Source(s.directory, 1, s.reader, frozenset(range(0, len(s.reader), 2)) - {4}, s.split) for s in plain.sources]
    )
    for mixture in (plain, skipping):
        chosen = mixture.pick(0, start, 64)
        keys = mixture.row_keys(chosen, "rows", 0, visits=True)
        partners = mixture.partners(chosen, keys)
        assert np.array_equal(partners.source, chosen.source)
        assert (partners.rows != chosen.rows).all()
        assert mixture.used(partners).all()
        assert np.array_equal(mixture.partners(chosen, keys).rows, partners.rows)


def test_partners_lie_all_over_the_source(mixture):
    size = len(mixture.sources[0].reader)
    chosen = picked([0] * 20 * size, list(range(size)) * 20)
    chosen = Picked(chosen.source, chosen.rows, np.repeat(np.arange(20), size))
    partners = mixture.partners(chosen, mixture.row_keys(chosen, "rows", 0, visits=True))
    counts = np.bincount(partners.rows, minlength=size)
    assert counts.min() > 0 and counts.max() < 60
    assert abs(np.corrcoef(partners.rows, chosen.rows)[0, 1]) < 0.1


def test_a_source_without_a_second_row_has_no_partners(mixture):
    source = mixture.sources[0]
    lonely = Mixture([Source(source.directory, 1, source.reader, frozenset(range(1, len(source.reader))))])
    with pytest.raises(InputError, match="at least two rows"):
        lonely.partners(picked([0], [0]), np.zeros(1, dtype=np.uint64))
    with pytest.raises(InputError, match="at least two rows"):
        lonely.require((), partners=True)
    lonely.require((), partners=False)


def test_a_column_that_a_directory_lacks_is_told_before_the_first_batch(mixture):
    with pytest.raises(InputError, match="word_start"):
        mixture.require(("word_start",), partners=False)


def test_a_mixture_is_the_same_in_another_process(mixture):
    again = pickle.loads(pickle.dumps(mixture))
    assert again.key == mixture.key
    wanted = mixture.pick(0, 123, 20)
    assert np.array_equal(again.pick(0, 123, 20).rows, wanted.rows)
    assert np.array_equal(again.read(wanted).input_ids, mixture.read(wanted).input_ids)


def test_a_billion_samples_into_a_mixture_of_billions_of_rows_the_first_rows_come_in_under_a_second(directories):
    mixture = huge_mixture(directories)
    start = time.perf_counter()
    found = mixture.pick(seed=1, first_sample=10**9 - 7, count=4096)
    rows = mixture.read(found[:256])
    seconds = time.perf_counter() - start
    assert seconds < 1.0
    assert rows.input_ids.shape[0] == 256
    pairs = Counter(zip(found.source.tolist(), found.rows.tolist(), strict=True))
    assert max(pairs.values()) == 1 and found.rows.max() > 9 * 10**8


def test_held_out_rows_are_drawn_in_proportion_each_once_and_all_over_their_source(directories):
    a, b = map(str, directories)
    mixture = open_mixture({a: 0.25, b: 0.75}, "validation")
    sizes = [len(source.reader) for source in mixture.sources]
    drawn = mixture.held_out(20)
    by_name = {mixture.sources[n].directory.name: int((drawn.source == n).sum()) for n in range(2)}
    assert by_name == {"a": 5, "b": 15}
    everything = mixture.held_out(len(mixture))
    for number, size in enumerate(sizes):
        assert np.array_equal(np.sort(everything.rows[everything.source == number]), np.arange(size))
    with pytest.raises(ValueError, match="rows of a split that has"):
        mixture.held_out(len(mixture) + 1)


@given(rows=st.integers(0, 60))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_source_that_is_too_small_for_its_share_gives_all_it_has(directories, rows):
    a, b = map(str, directories)
    mixture = open_mixture({a: 0.95, b: 0.05}, "validation")
    rows = min(rows, len(mixture))
    drawn = mixture.held_out(rows)
    assert len(drawn.rows) == rows
    assert len(set(zip(drawn.source.tolist(), drawn.rows.tolist(), strict=True))) == rows


def test_a_directory_without_held_out_rows_is_left_out_of_the_validation(directories, tmp_path):
    bare = write_shards(tmp_path / "bare", sentences(500), held_out=0.2)
    whole = read_manifest(bare)
    shards = whole.split("train")
    identity = (whole.kind, whole.row_length, whole.dtype, whole.tokenizer_hash, whole.vocab_size, shards)
    write_manifest(bare, replace(whole, shards=shards, content_hash=content_hash(*identity)))
    assert len(open_mixture({str(directories[0]): 1, str(bare): 1}, "validation").sources) == 1
    assert len(open_mixture(str(bare), "validation")) == 0


def test_shards_that_do_not_belong_together_are_refused_naming_both(directories, tmp_path):
    a = str(directories[0])
    longer = write_shards(tmp_path / "longer", sentences(500), row_length=48)
    other = write_shards(tmp_path / "other", sentences(500, seed=9), vocab_size=90)
    twin = write_shards(tmp_path / "twin", sentences(500), held_out=0.1)
    for path, sentence in (
        (longer, "the same row length, but '{a}' has 32 and '{path}' has 48"),
        (other, "the same tokenizer, but '{a}' has sha256:"),
        (twin, "'{a}' and '{path}' in data hold the same rows"),
        (tmp_path / "none", "'{path}' is not a finished shard directory"),
    ):
        with pytest.raises(InputError) as refused:
            open_mixture({a: 0.5, str(path): 0.5})
        assert sentence.format(a=a, path=path) in str(refused.value)


def test_a_weight_too_small_to_ever_be_picked_is_refused(directories):
    a, b = map(str, directories)
    with pytest.raises(InputError, match="at least one row in 65536, but is 1e-07"):
        open_mixture({a: 1e-7, b: 1.0})


def shares_by_name(mixture):
    return {source.directory.name: share for source, share in zip(mixture.sources, mixture.shares, strict=True)}


def test_without_weights_directories_are_read_by_their_size_and_the_exponent(directories):
    a, b = map(str, directories)
    rows = {name: len(ShardReader(name, verify=False)) for name in (a, b)}
    assert rows[a] > rows[b]  # b holds more of the same texts out
    for exponent in (0.0, 0.5, 1.0, None):
        powers = {Path(name).name: rows[name] ** (1.0 if exponent is None else exponent) for name in rows}
        for split in ("train", "validation"):
            found = open_mixture([a, b], split, sampling_exponent=exponent)
            for name, share in shares_by_name(found).items():
                assert share == pytest.approx(BLOCK * powers[name] / sum(powers.values()), abs=1), (exponent, split)
    assert open_mixture([a, b]).key == open_mixture({a: rows[a], b: rows[b]}).key
    assert open_mixture([a, b], sampling_exponent=0.5).key != open_mixture([a, b]).key


def test_rows_know_the_language_of_their_directory_in_any_process(directories):
    a, b = map(str, directories)
    mixture = open_mixture([a, b], languages={a: 5, b: 2})
    wanted = mixture.pick(0, 0, 50)
    of_a = np.array([source.directory == directories[0] for source in mixture.sources])[wanted.source]
    for each in (mixture, pickle.loads(pickle.dumps(mixture))):
        assert np.array_equal(each.read(wanted).language, np.where(of_a, 5, 2))
    assert open_mixture(a, languages={a: 5}).read(picked([0, 0], [1, 2])).language.tolist() == [5, 5]
    assert open_mixture([a, b]).read(wanted).language is None


def test_other_numbers_of_languages_are_other_data_but_not_another_order_of_rows(directories):
    a, b = map(str, directories)
    plain, first, second = (open_mixture([a, b], languages=n) for n in (None, {a: 0, b: 1}, {a: 1, b: 0}))
    alone = open_mixture(a, languages={a: 0})
    assert len({plain.key, first.key, second.key, alone.key, open_mixture(a).key}) == 5
    assert first.key == open_mixture([b, a], languages={b: 1, a: 0}).key
    for mixture in (first, second):
        assert np.array_equal(mixture.pick(0, 0, 100).rows, plain.pick(0, 0, 100).rows)


def test_skipped_rows_are_found_by_directory_or_hash_and_move_nothing(directories, tmp_path, monkeypatch):
    a, b = directories
    hashes = {path: ShardReader(path, verify=False).content_hash for path in directories}
    lines = [{"data": str(a), "row": 3}, {"data": hashes[b], "row": 0, "text": "more is no matter"}]
    path = tmp_path / "skip.jsonl"
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    monkeypatch.chdir(a.parent)
    data = {"a": 0.7, str(b): 0.3}  # the same directory under another name
    mixture, plain = open_mixture(data, skip=path), open_mixture(data)
    assert mixture.key == plain.key
    found = mixture.pick(0, 0, 2000)
    assert np.array_equal(found.rows, plain.pick(0, 0, 2000).rows)
    of_a = np.array([source.directory.name == "a" for source in mixture.sources])[found.source]
    assert np.array_equal(~mixture.used(found), np.where(of_a, found.rows == 3, found.rows == 0))
    assert plain.used(found).all()
    assert not any(source.skipped_rows for source in open_mixture(data, "validation", skip=path).sources)
    path.write_text(json.dumps({"data": str(a), "row": 10**6}))
    with pytest.raises(InputError, match=r"skip.jsonl', line 1: \"row\" must be below the \d+ training rows of .*/a'"):
        open_mixture(str(a), skip=path)
