"""MASS on a real model: no target is visible to what predicts it, by gradient and by other tokens there."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pipeline.shards import Rows
from pretrain.models.conv_config import ConvSeq2SeqConfig
from pretrain.objectives.mass import MASS
from pretrain.objectives.pairs import pair_states
from tests.pretrain.objectives.mass_rows import (
    ALL_MASKED,
    FACTS,
    LENGTH,
    MASK,
    MODEL,
    SPECIAL,
    VOCAB,
    batch_of,
    model_of,
    row_keys,
    rows_of,
)

# The decoder's convolutions see the whole row.
CONV = ConvSeq2SeqConfig(16, 16, [[2, 16, 3]], [[2, 16, 16]], share_embeddings=True, max_positions=LENGTH)
FORMS = {"post": MODEL, "pre": dataclasses.replace(MODEL, norm="pre"), "convolutions": CONV}


def visible(model, batch):
    """For each target slot the ids whose embedding its loss depends on, as an input, by the gradient."""
    table = model.encoder.embeddings.token.weight
    logits = F.linear(pair_states(model, batch), table.detach(), model.head.bias)[:, :VOCAB]
    losses = F.cross_entropy(logits, batch.labels, reduction="none")
    found = []
    for slot, loss in enumerate(losses):
        gradient = torch.autograd.grad(loss, table, retain_graph=True)[0] if batch.weights[slot] else None
        found.append(set() if gradient is None else set(gradient.abs().amax(dim=1).nonzero()[:, 0].tolist()))
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("attends", [True, False])
@pytest.mark.parametrize("decoder_input", ["previous", "mask"])
@pytest.mark.parametrize(("mix", "expects_kept"), [((1.0, 0.0), False), ((0.8, 0.1), True)])
def test_each_target_sees_what_it_may_and_no_other_token_of_the_batch(decoder_input, attends, form, mix, expects_kept):
    """Every token is in the batch once, so the gradient by an id says who sees the place where it was."""
    options = {"mask_share": mix[0], "random_share": mix[1], "block_size": 8}
    objective = MASS(FACTS, **options, decoder_input=decoder_input, cross_attention_to_masks=attends)
    rows = rows_of([[17, 9], [6, 4, 10], [29]])
    keys = row_keys(3, "visible")
    batch, corrupted = batch_of(objective, rows, keys).batch, objective.corrupt(rows, keys)
    hidden, kept, begins = (part.reshape(-1) for part in (corrupted.hidden, corrupted.kept, corrupted.begins))
    ids, inputs = rows.input_ids.reshape(-1).astype(int), corrupted.inputs.reshape(-1)
    drawn = set(inputs[hidden & ~kept].tolist()) - {MASK}
    assert not drawn & set(ids.tolist()) and kept.any() == bool(drawn) == expects_kept
    found = visible(model_of(objective, config=FORMS[form]), batch)

    sequence = batch.layout.sequence_ids(len(ids)).numpy()
    targets = np.flatnonzero(hidden)
    slots = torch.nonzero(batch.weights)[:, 0].tolist()
    ordinary = set(ids.tolist()) - set(SPECIAL.values())
    for slot, target in zip(slots, targets, strict=True):
        own = np.flatnonzero(sequence == sequence[target])
        open_to_encoder = set(ids[[place for place in own if not hidden[place] or kept[place]]])
        inputs_so_far = [place for place in targets if place in own and place <= target]
        if decoder_input == "mask":
            inputs_so_far = [place for place in inputs_so_far if not begins[place]]
        given = set(ids[[place - 1 for place in inputs_so_far]])
        assert found[slot] & ordinary == (open_to_encoder | given) & ordinary
        # In the words of the definition: of what is to be predicted from here on, what was kept and nothing else.
        to_come = [place for place in targets if place in own and place >= target]
        assert found[slot] & set(ids[to_come]) == {ids[place] for place in to_come if kept[place]}


@pytest.mark.parametrize("attends", [True, False])
@pytest.mark.parametrize("form", ["post", "convolutions"])
def test_a_hidden_token_changes_no_state_that_predicts_it_or_one_before(form, attends):
    """Without a look at what the objective reports: another token there, the same key, the model's very numbers."""
    objective = MASS(FACTS, cross_attention_to_masks=attends, **ALL_MASKED)
    rows, keys = rows_of([[20, 8], [30]]), row_keys(2)
    batch = batch_of(objective, rows, keys).batch
    model = model_of(objective, config=FORMS[form])
    with torch.no_grad():
        before = pair_states(model, batch)
        for slot in torch.nonzero(batch.weights)[:, 0].tolist():
            ids = rows.input_ids.copy()
            ids[ids == int(batch.labels[slot])] = VOCAB - 1
            changed = batch_of(objective, Rows(ids, rows.segments), keys).batch
            row = slot // objective.decoder_row_length
            assert changed.labels[slot] == VOCAB - 1 and torch.equal(changed.source.input_ids, batch.source.input_ids)
            after = pair_states(model, changed)
            same = torch.arange(len(after)) <= slot
            same |= torch.arange(len(after)) // objective.decoder_row_length != row
            assert torch.equal(after[same], before[same])


@pytest.mark.parametrize("attends", [True, False])
def test_the_decoder_reads_the_encoders_states_of_masks_only_where_it_may(attends):
    objective = MASS(FACTS, cross_attention_to_masks=attends)
    batch = batch_of(objective, rows_of([[30], [14, 14]])).batch
    model = model_of(objective)
    memory = model.encode(batch.source).detach().requires_grad_()
    states = model.decode(batch.target, memory, batch.layout, hidden_keys=batch.hidden_keys)
    direction = torch.randn(states.shape, generator=torch.Generator().manual_seed(1))
    read = torch.autograd.grad((states * direction).sum(), memory)[0].abs().amax(dim=1) > 0
    masks = batch.source.input_ids == MASK
    assert masks.sum() > 20 and read[~masks].all() and read[masks].any() == read[masks].all() == attends
