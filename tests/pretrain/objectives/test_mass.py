"""The MASS objective: what the encoder gets, what the decoder predicts; what they see: test_mass_visibility.py."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.data.mixture import Picked, open_mixture
from pretrain.models.config import EncoderConfig
from pretrain.objectives import DataFacts
from pretrain.objectives.causal_lm import CausalLM
from pretrain.objectives.fragments import most_targets
from pretrain.objectives.masked_lm import MaskedLM
from pretrain.objectives.mass import MASS
from pretrain.objectives.pairs import pair_states
from tests.helpers.rows import part_of
from tests.helpers.shard_directory import sentences, write_shards
from tests.pretrain.objectives.mass_rows import (
    ALL_MASKED,
    CLS,
    FACTS,
    LENGTH,
    MASK,
    MODEL,
    PAD,
    SEP,
    SPECIAL,
    VOCAB,
    batch_of,
    model_of,
    row_keys,
    rows_of,
    tensors_of,
)


def test_a_row_worked_out_by_hand():
    """Texts of 6 and 2 tokens lose their first 3 and their first 1; four places of the row are padding."""
    rows = rows_of([[6, 2]], 16)
    facts = dataclasses.replace(FACTS, row_length=16)
    made = batch_of(MASS(facts, first_share=1.0, last_share=0.0, **ALL_MASKED), rows)
    assert rows.input_ids[0].tolist() == [2, 5, 6, 7, 8, 9, 10, 3, 2, 11, 12, 3, 0, 0, 0, 0]
    assert tensors_of(made.batch) == {
        "source.input_ids": [2, 4, 4, 4, 8, 9, 10, 3, 2, 4, 12, 3, 0, 0, 0, 0],
        "source.position_ids": [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 0, 1, 2, 3],
        "source.layout": [0, 8, 12, 16],
        "target.input_ids": [2, 5, 6, 2, 0, 0, 0, 0],
        "target.position_ids": [0, 1, 2, 0, 0, 0, 0, 0],
        "target.layout": [0, 3, 8, 8],
        "target_positions": [0, 1, 2, 3, 4, 5, 6, 7],
        "labels": [5, 6, 7, 11, 0, 0, 0, 0],
        "weights": [1, 1, 1, 1, 0, 0, 0, 0],
        "source.language_ids": None,
        "target.language_ids": None,
        "hidden_keys": None,
    }
    assert made.batch.target.layout.row_length == made.batch.target.layout.max_seqlen == 8
    assert made.counts == {"mass": 4.0} and made.tokens == 12


def test_the_other_forms_of_that_row():
    rows, facts = rows_of([[6, 2]], 16), dataclasses.replace(FACTS, row_length=16)
    options = {"last_share": 1.0, "first_share": 0.0, **ALL_MASKED}
    batch = batch_of(MASS(facts, **options, decoder_input="mask", cross_attention_to_masks=False), rows).batch
    assert batch.source.input_ids.tolist() == [2, 5, 6, 7, 4, 4, 4, 3, 2, 11, 4, 3, 0, 0, 0, 0]
    assert batch.target.input_ids.tolist() == [4, 8, 9, 4, 0, 0, 0, 0]
    assert batch.target.position_ids.tolist() == [3, 4, 5, 1, 0, 0, 0, 0]
    assert batch.labels.tolist() == [8, 9, 10, 12, 0, 0, 0, 0]
    assert np.flatnonzero(batch.hidden_keys).tolist() == [4, 5, 6, 10]
    previous = batch_of(MASS(facts, **options), rows).batch
    assert previous.target.input_ids.tolist() == [7, 8, 9, 11, 0, 0, 0, 0]


def test_a_row_without_a_target_is_padding_of_its_first_sequence():
    facts = dataclasses.replace(FACTS, row_length=8)
    batch = batch_of(MASS(facts), rows_of([[1, 1], [], [4]], 8)).batch  # round(0.5 * 1) = 0
    assert batch.layout.cu_seqlens.tolist() == [0, 3, 6, 8, 16, 22, 24]
    assert batch.target.layout.cu_seqlens.tolist() == [0, 8, 8, 8, 16, 24, 24]
    assert batch.weights.tolist() == [0] * 16 + [1, 1] + [0] * 6


some_pieces = st.lists(
    st.lists(st.integers(1, 30), max_size=8).filter(lambda sizes: sum(sizes) + 2 * len(sizes) <= LENGTH),
    min_size=1,
    max_size=4,
)
some_options = st.fixed_dictionaries(
    {
        "fragment_share": st.floats(0.01, 1.0),
        "first_share": st.floats(0, 0.5),
        "last_share": st.floats(0, 0.5),
        "block_size": st.none() | st.integers(1, 20),
        "mask_share": st.floats(0, 0.8),
        "random_share": st.floats(0, 0.2),
        "decoder_input": st.sampled_from(["previous", "mask"]),
        "cross_attention_to_masks": st.booleans(),
    }
)


@given(some_pieces, some_options, st.integers(0, 2**32), st.data())
@settings(max_examples=150, deadline=None)
def test_the_decoder_predicts_exactly_the_fragments_at_their_places(pieces, options, seed, data):
    rows, objective = rows_of(pieces), MASS(FACTS, **options)
    count = len(pieces)
    keys = row_keys(count, str(seed))
    used = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    before = rows.input_ids.copy(), rows.segments.copy()
    made, corrupted = batch_of(objective, rows, keys, used), objective.corrupt(rows, keys)
    assert np.array_equal(rows.input_ids, before[0]) and np.array_equal(rows.segments, before[1])
    batch, original = made.batch, before[0].astype(np.int64)

    # The encoder: nothing is changed outside of fragments, and no special token is in one.
    assert not np.isin(original[corrupted.hidden], list(SPECIAL.values())).any()
    inputs = batch.source.input_ids.numpy().reshape(original.shape)
    assert np.array_equal(inputs[~corrupted.hidden], original[~corrupted.hidden])
    assert np.array_equal(corrupted.kept, corrupted.hidden & (inputs == original))
    hidden_keys = None if options["cross_attention_to_masks"] else (inputs == MASK).reshape(-1).tolist()
    assert tensors_of(batch)["hidden_keys"] == hidden_keys

    # The decoder: row by row, sequence by sequence, target by target.
    length = objective.decoder_row_length
    decoder = {name: part.numpy().reshape(count, length) for name, part in _decoder_parts(batch).items()}
    bounds, decoder_bounds = batch.layout.cu_seqlens.tolist(), batch.target.layout.cu_seqlens.tolist()
    assert len(bounds) == len(decoder_bounds) and batch.target.layout.row_length == length
    for row in range(count):
        places = np.flatnonzero(corrupted.hidden[row])
        targets, starts = len(places), corrupted.begins[row, places]
        assert decoder["labels"][row, :targets].tolist() == original[row, places].tolist()
        assert decoder["weights"][row].tolist() == [float(used[row])] * targets + [0.0] * (length - targets)
        expected = np.where(starts & (options["decoder_input"] == "mask"), MASK, original[row, places - 1])
        assert decoder["inputs"][row, :targets].tolist() == expected.tolist()
        positions = batch.source.position_ids.numpy().reshape(original.shape)[row, places] - 1
        assert decoder["positions"][row, :targets].tolist() == positions.tolist() and (positions >= 0).all()
        assert (decoder["inputs"][row, targets:] == PAD).all() and not decoder["positions"][row, targets:].any()
        mine = [number for number, (begin, _) in enumerate(pairwise(bounds)) if begin // LENGTH == row]
        sizes = [int(corrupted.hidden.reshape(-1)[bounds[number] : bounds[number + 1]].sum()) for number in mine]
        last = max([place for place, size in enumerate(sizes) if size], default=0)
        sizes[last] += length - targets
        assert [decoder_bounds[number + 1] - decoder_bounds[number] for number in mine] == sizes
    assert batch.target_positions.tolist() == list(range(count * length))
    assert made.counts == {"mass": float(corrupted.hidden[np.array(used)].sum())}
    assert made.tokens == int((rows.segments > 0)[np.array(used)].sum())


def _decoder_parts(batch):
    return {
        "labels": batch.labels,
        "weights": batch.weights,
        "inputs": batch.target.input_ids,
        "positions": batch.target.position_ids,
    }


@given(some_pieces, some_options)
@settings(max_examples=50, deadline=None)
def test_a_row_is_treated_alike_in_any_batch(pieces, options):
    rows, objective, keys = rows_of(pieces), MASS(FACTS, **options), row_keys(len(pieces))

    def found(part):
        batch = batch_of(objective, part_of(rows, part), keys[part]).batch
        parts = [batch.source.input_ids, batch.source.position_ids, *_decoder_parts(batch).values()]
        return [tensor.view(len(keys[part]), -1) for tensor in parts]

    alone = [found(slice(row, row + 1)) for row in range(len(pieces))]
    for number, tensor in enumerate(found(slice(None))):
        assert torch.equal(tensor, torch.cat([parts[number] for parts in alone]))


def test_another_key_gives_other_fragments_and_validation_those_of_training():
    rows, objective = rows_of([[30], [20, 8]]), MASS(FACTS)
    first = tensors_of(batch_of(objective, rows).batch)
    assert tensors_of(batch_of(objective, rows, training=False).batch) == first
    other = tensors_of(batch_of(objective, rows, row_keys(2, "other")).batch)
    assert other["source.input_ids"] != first["source.input_ids"]


def test_fragments_are_a_function_of_row_seed_and_epoch(tmp_path):
    mixture = open_mixture(str(write_shards(tmp_path / "shards", sentences(100))))
    manifest, count = mixture.manifest, len(mixture)
    objective = MASS(DataFacts(manifest.vocab_size, manifest.special_ids, manifest.row_length))

    def hidden(seed, first_sample, order=slice(None)):
        """Which places of each row are hidden, by the row's number, in the epoch that begins at a sample."""
        picked = mixture.pick(seed, first_sample, count)
        picked = Picked(picked.source[order], picked.rows[order], picked.visits[order])
        rows, keys = mixture.read(picked), mixture.row_keys(picked, "rows", seed, visits=True)
        return objective.corrupt(rows, keys).hidden[np.argsort(picked.rows)]

    first = hidden(0, 0)
    assert np.array_equal(first, hidden(0, 0, slice(None, None, -1)))
    for other in (hidden(0, count), hidden(1, 0)):
        assert (first != other).any(axis=1).mean() > 0.8


def test_fragments_of_one_token_give_the_encoder_the_input_of_masked_lm_for_that_position():
    """The first special case of Song et al. (2019), table 1; MaskedLM chooses its position by a draw of its own."""
    rows = rows_of([[10]] * 100, 12)
    facts = dataclasses.replace(FACTS, row_length=12)
    ours = batch_of(MASS(facts, fragment_share=0.1, **ALL_MASKED), rows).batch
    theirs = batch_of(MaskedLM(facts, mask_probability=0.1, **ALL_MASKED), rows).batch
    assert torch.equal(ours.source.position_ids, theirs.position_ids)
    assert torch.equal(ours.layout.cu_seqlens, theirs.layout.cu_seqlens)
    inputs = ours.source.input_ids, theirs.input_ids
    places = [(ids == MASK).nonzero()[:, 0] for ids in inputs]
    same = [row for row in range(100) if places[0][row] == places[1][row]]
    assert len(places[0]) == len(places[1]) == 100 and len(same) > 3
    mine, other = (ids.view(100, 12) for ids in inputs)
    assert torch.equal(mine[same], other[same])
    labels = ours.labels.view(100, -1)[:, 0]
    assert labels[same].tolist() == theirs.labels[same].tolist()


@pytest.mark.parametrize("block_size", [None, 7])
def test_a_fragment_of_the_whole_text_makes_the_decoder_a_language_model(block_size):
    """The second special case of Song et al. (2019), table 1: the same inputs, positions and labels."""
    rows = rows_of([[30], [11, 15]])
    ours = batch_of(MASS(FACTS, fragment_share=1.0, block_size=block_size, **ALL_MASKED), rows).batch
    assert set(ours.source.input_ids.tolist()) == {CLS, MASK, SEP, PAD}
    theirs = batch_of(CausalLM(FACTS), rows).batch
    told = (theirs.weights > 0) & (theirs.labels != SEP)
    predicted = ours.weights > 0
    assert torch.equal(ours.target.input_ids[predicted], theirs.input_ids[told])
    assert torch.equal(ours.target.position_ids[predicted], theirs.position_ids[told])
    assert torch.equal(ours.labels[predicted], theirs.labels[told])


def test_what_is_put_into_fragments_follows_the_mix():
    objective = MASS(FACTS, mask_share=0.6, random_share=0.3)
    corrupted = objective.corrupt(rows_of([[30]] * 130), row_keys(130))
    masked = (corrupted.inputs == MASK).sum()
    kept, total = corrupted.kept.sum(), corrupted.hidden.sum()
    assert total == 130 * 15 and not np.isin(corrupted.inputs[corrupted.hidden], [PAD, 1, CLS, SEP]).any()
    observed = [masked, total - masked - kept, kept]
    assert scipy.stats.chisquare(observed, np.array([0.6, 0.3, 0.1]) * total).pvalue > 0.001


@pytest.mark.parametrize(
    "option",
    [
        {"fragment_share": 0.3},
        {"first_share": 0.8},
        {"last_share": 0.8},
        {"block_size": None},
        {"block_size": 5},
        {"mask_share": 0.3},
        {"random_share": 0.2},
        {"decoder_input": "mask"},
        {"cross_attention_to_masks": False},
    ],
    ids=str,
)
def test_every_option_changes_the_batch(option):
    rows = rows_of([[126]] * 10, 128)
    facts = dataclasses.replace(FACTS, row_length=128)
    plain, other = (tensors_of(batch_of(MASS(facts, **given), rows).batch) for given in ({}, option))
    assert plain != other
    assert plain["source.layout"] == other["source.layout"]


def test_shapes_are_fixed_by_row_length_share_and_blocks_whatever_is_packed():
    objective = MASS(FACTS, fragment_share=0.4, block_size=10)
    assert objective.decoder_row_length == 16 >= most_targets(LENGTH, objective.rule) > 8
    for pieces in ([[1]], [[30]], [[1, 1, 1, 1]], [[3, 3, 3, 3, 3]]):
        batch = batch_of(objective, rows_of(pieces * 3)).batch
        assert len(batch.labels) == len(batch.weights) == len(batch.target.input_ids) == 3 * 16


def test_rows_that_are_no_packed_pieces_and_hold_too_many_targets_are_refused():
    facts = dataclasses.replace(FACTS, row_length=8)  # room for 8 targets: rows of 32 places have more
    with pytest.raises(ValueError, match="a row has 15 targets, more than packed pieces"):
        batch_of(MASS(facts), rows_of([[30]]))


@pytest.mark.parametrize("attends", [True, False])
def test_the_loss_is_the_sum_over_fragments_by_torchs_own_loss(attends):
    objective = MASS(FACTS, cross_attention_to_masks=attends)
    model = model_of(objective)
    batch = batch_of(objective, rows_of([[20, 6], [30], [4]]), used=[True, False, True]).batch
    losses = objective.loss(model, batch)
    logits = model.logits(pair_states(model, batch))
    expected = (F.cross_entropy(logits, batch.labels, reduction="none") * batch.weights).sum()
    assert list(losses) == list(objective.loss_names) == ["mass"]
    assert losses["mass"].item() == pytest.approx(expected.item(), rel=1e-6)
    gradients = torch.autograd.grad(losses["mass"], model.parameters())
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, model.parameters()), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_places_without_weight_change_nothing():
    objective = MASS(FACTS)
    model, batch = model_of(objective), batch_of(objective, rows_of([[20], [10, 3]])).batch
    before = objective.loss(model, batch)["mass"]
    unused = batch.weights == 0
    assert unused.sum() > 5
    batch.labels[unused], batch.target.input_ids[unused], batch.target.position_ids[unused] = 77, 78, 20
    assert torch.equal(objective.loss(model, batch)["mass"], before)


def test_every_token_has_the_language_of_its_row_and_a_model_with_languages_uses_it():
    facts = dataclasses.replace(FACTS, languages=True)
    objective, plain = MASS(facts), rows_of([[30], [20, 8]])
    rows = dataclasses.replace(plain, language=np.array([1, 0]))
    batch = batch_of(objective, rows).batch
    assert batch.source.language_ids.tolist() == [1] * LENGTH + [0] * LENGTH
    length = objective.decoder_row_length
    assert batch.target.language_ids.tolist() == [1] * length + [0] * length
    model = model_of(objective, config=dataclasses.replace(MODEL, languages=("de", "en")))
    swapped = batch_of(objective, dataclasses.replace(plain, language=np.array([0, 1]))).batch
    assert objective.loss(model, batch)["mass"] != objective.loss(model, swapped)["mass"]
    with pytest.raises(InputError, match="embeddings for the languages de, en, but no shard directory is in one"):
        MASS(FACTS).build_model(dataclasses.replace(MODEL, languages=("de", "en")), VOCAB)


def test_a_model_without_a_decoder_is_refused():
    encoder = EncoderConfig(hidden_size=16, num_layers=1, num_heads=2, intermediate_size=16)
    with pytest.raises(InputError, match="objective=mass needs a model with a decoder, but the model is an encoder"):
        MASS(FACTS).build_model(encoder, VOCAB)


@pytest.mark.parametrize(
    "wrong",
    [
        {"fragment_share": 0.0},
        {"fragment_share": 1.1},
        {"first_share": -0.1},
        {"last_share": 1.1},
        {"first_share": 0.6, "last_share": 0.6},
        {"mask_share": 0.9, "random_share": 0.2},
        {"mask_share": -0.1},
        {"random_share": 1.5},
        {"block_size": 0},
        {"decoder_input": "next"},
    ],
    ids=str,
)
def test_options_out_of_range_are_named(wrong):
    with pytest.raises(InputError, match=f"objective.{next(iter(wrong))}"):
        MASS(FACTS, **wrong)
