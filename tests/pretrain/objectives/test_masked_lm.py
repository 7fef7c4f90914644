import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pipeline.shards import Rows
from pretrain.data.counter import derive_key, hash_coordinates
from pretrain.objectives import DataFacts
from pretrain.objectives.masked_lm import (
    MaskedLM,
    choose_targets,
    mask_rows,
    number_of_targets,
)

SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
VOCAB, LENGTH = 60, 32


def row_keys(count, name="test"):
    return hash_coordinates(derive_key(name), np.arange(count)[:, None])


def facts(**changes):
    return DataFacts(
        **{
            "vocab_size": VOCAB,
            "special_ids": SPECIAL,
            "row_length": LENGTH,
            "content_hash": "sha256:1",
            "seed": 0,
            **changes,
        }
    )


def some_rows(count, seed=0):
    """Rows of two pieces, [CLS] tokens [SEP] each, and some padding."""
    generator = np.random.default_rng(seed)
    ids = np.zeros((count, LENGTH), dtype=np.uint16)
    segments = np.zeros((count, LENGTH), dtype=np.int32)
    for row in range(count):
        first, second = generator.integers(3, 14, size=2)
        for piece, (start, end) in enumerate([(0, first), (first, first + second)], start=1):
            ids[row, start:end] = generator.integers(5, VOCAB, size=end - start)
            ids[row, start], ids[row, end - 1] = SPECIAL["cls"], SPECIAL["sep"]
            segments[row, start:end] = piece
    return Rows(ids, segments)


def test_the_number_of_targets_is_rounded_half_to_even():
    counts = number_of_targets(np.array([0, 3, 10, 126, 30]), 0.15)
    assert counts.tolist() == [0, 0, 2, 19, round(0.15 * 30)]


@given(
    st.integers(0, 2**32),
    st.floats(0, 1),
    st.lists(st.lists(st.booleans(), min_size=12, max_size=12), min_size=1, max_size=6),
)
@settings(max_examples=100, deadline=None)
def test_exactly_the_wanted_number_of_maskable_places_is_chosen(seed, probability, maskable):
    maskable = np.array(maskable)
    chosen = choose_targets(maskable, row_keys(len(maskable), str(seed)), probability)
    assert not (chosen & ~maskable).any()
    assert np.array_equal(chosen.sum(axis=1), number_of_targets(maskable.sum(axis=1), probability))


def test_every_place_is_as_likely_to_be_chosen():
    chosen = choose_targets(np.ones((20_000, 20), dtype=bool), row_keys(20_000), 0.15)
    assert scipy.stats.chisquare(chosen.sum(axis=0)).pvalue > 0.001
    pairs = chosen.astype(int).T @ chosen.astype(int)
    off_diagonal = pairs[np.triu_indices(20, k=1)]
    assert scipy.stats.chisquare(off_diagonal).pvalue > 0.001


def test_the_mix_of_replacements_and_the_random_ids_follow_their_distributions():
    count, ordinary = 4000, np.arange(5, VOCAB)
    ids = np.full((count, 40), 7)
    masked = mask_rows(
        ids,
        np.ones_like(ids, dtype=bool),
        row_keys(count),
        probability=0.5,
        mask_share=0.8,
        random_share=0.1,
        mask_id=SPECIAL["mask"],
        ordinary_ids=ordinary,
    )
    changed = masked.inputs[masked.chosen]
    total = len(changed)
    became_mask, kept = (changed == SPECIAL["mask"]).sum(), (changed == 7).sum()
    # A random id may be the token itself, one time in 55.
    shares = np.array([0.8, 0.1 + 0.1 / 55, 0.1 * 54 / 55])
    observed = np.array([became_mask, kept, total - became_mask - kept])
    assert scipy.stats.chisquare(observed, shares * total).pvalue > 0.001
    random_ids = changed[(changed != SPECIAL["mask"]) & (changed != 7)]
    assert random_ids.min() >= 5
    assert scipy.stats.chisquare(np.bincount(random_ids, minlength=VOCAB)[np.setdiff1d(ordinary, [7])]).pvalue > 0.001
    assert (masked.inputs[~masked.chosen] == 7).all()


def test_a_batch_predicts_the_original_tokens_and_leaves_the_rows_as_they_were():
    rows = some_rows(8)
    before = rows.input_ids.copy()
    made = MaskedLM(facts()).training_batch(rows, np.arange(8), np.zeros(8, dtype=int))
    batch, used = made.batch, made.batch.weights > 0
    assert np.array_equal(rows.input_ids, before)
    original = torch.from_numpy(before.astype(np.int64)).reshape(-1)
    assert torch.equal(batch.labels[used], original[batch.target_positions[used]])
    assert not np.isin(batch.labels[used].numpy(), list(SPECIAL.values())).any()
    untouched = torch.ones_like(original, dtype=torch.bool)
    untouched[batch.target_positions[used]] = False
    assert torch.equal(batch.input_ids[untouched], original[untouched])
    assert len(batch.labels) == 8 * round(0.15 * LENGTH)
    assert made.targets == used.sum() and made.tokens == (rows.segments > 0).sum()


def test_a_row_is_masked_alike_in_any_batch_and_anew_at_each_visit():
    rows, objective = some_rows(8), MaskedLM(facts())
    numbers = np.arange(100, 108)

    def inputs(part, visits):
        picked = Rows(rows.input_ids[part], rows.segments[part])
        made = objective.training_batch(picked, numbers[part], np.full(len(numbers[part]), visits))
        return made.batch.input_ids.reshape(-1, LENGTH)

    whole = inputs(slice(None), 0)
    assert torch.equal(torch.cat([inputs(slice(0, 3), 0), inputs(slice(3, None), 0)]), whole)
    assert not torch.equal(inputs(slice(None), 1), whole)


@pytest.mark.parametrize("change", [{"seed": 1}, {"content_hash": "sha256:2"}])
def test_another_seed_or_another_data_set_masks_otherwise(change):
    rows, numbers, visits = some_rows(8), np.arange(8), np.zeros(8, dtype=int)
    first = MaskedLM(facts()).training_batch(rows, numbers, visits)
    second = MaskedLM(facts(**change)).training_batch(rows, numbers, visits)
    assert not torch.equal(first.batch.input_ids, second.batch.input_ids)


def test_evaluation_masks_never_change_and_rows_beyond_the_end_have_no_weight():
    rows, objective = some_rows(8), MaskedLM(facts(), mask_probability=0.3)
    first = objective.validation_batch(rows, np.arange(8), used=8)
    again = objective.validation_batch(rows, np.arange(8), used=5)
    assert torch.equal(first.batch.input_ids, again.batch.input_ids)
    weighted = again.batch.target_positions[again.batch.weights > 0]
    assert weighted.max() < 5 * LENGTH
    assert again.targets == len(weighted) < first.targets


def test_rows_without_targets_count_none():
    made = MaskedLM(facts(), mask_probability=0.0).training_batch(some_rows(2), np.arange(2), np.zeros(2, dtype=int))
    assert made.targets == 0.0 and not made.batch.weights.any()


@pytest.mark.parametrize(
    "wrong", [{"mask_probability": 1.5}, {"mask_share": -0.1}, {"mask_share": 0.9, "random_share": 0.2}]
)
def test_shares_out_of_range_are_named(wrong):
    with pytest.raises(InputError, match=f"objective.{next(iter(wrong))}"):
        MaskedLM(facts(), **wrong)
