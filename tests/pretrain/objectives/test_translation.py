"""The translation objective: how pairs are laid out, what is predicted, and that neighbours change nothing."""

import dataclasses
import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

import conf
from conf.errors import InputError
from pretrain.data.pair_batches import PairsOfRows
from pretrain.models.attention import AttentionLayout
from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from pretrain.models.seq2seq import Seq2SeqModel
from pretrain.models.tokens import Tokens
from pretrain.objectives import DataFacts
from pretrain.objectives.translation import Translation
from tests.helpers.pair_directory import pairs_of

CLS, SEP, VOCAB = 2, 3, 50
FACTS = DataFacts(VOCAB, {"pad": 0, "unk": 1, "cls": CLS, "sep": SEP, "mask": 4}, 20)
CONFIG = Seq2SeqConfig(
    hidden_size=16, num_encoder_layers=2, num_decoder_layers=2, num_heads=2, intermediate_size=24, max_positions=20
)


def made(rows, of=None, used=None, **options):
    """A batch of pairs given as (source text ids, target text ids), `of` the rows of the batch that they belong to."""
    pairs = pairs_of([([CLS, *a, SEP], [CLS, *b, SEP], 0, 0.0) for a, b in rows])
    of = np.zeros(len(rows), dtype=np.int64) if of is None else np.array(of)
    used = np.ones(of.max(initial=0) + 1, dtype=bool) if used is None else np.array(used)
    objective = Translation(options.pop("facts", FACTS), **options)
    return objective, objective.make_batch(PairsOfRows(pairs, of), np.zeros(len(used), np.uint64), used, training=True)


def model_of(config=CONFIG, seed=0):
    torch.manual_seed(seed)
    model = Seq2SeqModel(config, VOCAB)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3)
        model.encoder.embeddings.token.weight[VOCAB:] = 0.0
    return model.eval()


def loss_of_pairs_alone(model, rows, smoothing=0.0, languages=(None, None)):
    """Each pair by itself, without a place of padding, through torch's own cross-entropy."""
    total = 0.0
    for a, b in rows:
        source, target = torch.tensor([CLS, *a, SEP]), torch.tensor([CLS, *b, SEP])

        def flat(ids, language):
            count = len(ids)
            layout = AttentionLayout(torch.tensor([0, count], dtype=torch.int32), count, count)
            return Tokens(
                ids, torch.arange(count), layout, None if language is None else torch.full_like(ids, language)
            )

        logits = model(flat(source, languages[0]), flat(target[:-1], languages[1]), torch.arange(len(target) - 1))
        total += F.cross_entropy(logits.double(), target[1:], reduction="sum", label_smoothing=smoothing).item()
    return total


ROWS = [([5, 6, 7], [8, 9]), ([10], [11, 12, 13, 14, 15, 16, 17, 18, 19]), ([], [20]), ([21, 22], [])]


def test_a_batch_worked_out_by_hand():
    objective, micro_batch = made([([5, 6], [8]), ([7], [9, 10])], of=[0, 1], used=[True, False])
    batch = micro_batch.batch
    assert batch.source.input_ids.view(2, 8).tolist() == [[2, 5, 6, 3, 0, 0, 0, 0], [2, 7, 3, 0, 0, 0, 0, 0]]
    assert batch.source.position_ids.view(2, 8).tolist() == [[0, 1, 2, 3, 0, 0, 0, 0], [0, 1, 2, 0, 0, 0, 0, 0]]
    assert batch.layout.cu_seqlens.tolist() == [0, 4, 8, 11, 16]
    assert batch.target.input_ids.view(2, 8).tolist() == [[2, 8, 0, 0, 0, 0, 0, 0], [2, 9, 10, 0, 0, 0, 0, 0]]
    assert batch.target.layout.cu_seqlens.tolist() == [0, 8, 8, 16, 16]
    assert batch.target_positions.tolist() == [0, 1, 8, 9, 10]
    assert batch.labels.tolist() == [8, 3, 9, 10, 3]
    assert batch.weights.tolist() == [1, 1, 0, 0, 0]
    assert micro_batch.counts == {"translation": 2.0} and micro_batch.tokens == 4
    assert batch.source.language_ids is None and objective.loss_names == ("translation",)


def test_the_loss_is_that_of_each_pair_alone():
    model = model_of()
    objective, micro_batch = made(ROWS)
    expected = loss_of_pairs_alone(model, ROWS)
    assert objective.loss(model, micro_batch.batch)["translation"].item() == pytest.approx(expected, rel=1e-5)


@settings(max_examples=15)
@given(st.lists(st.tuples(*[st.lists(st.integers(5, VOCAB - 1), max_size=17)] * 2), min_size=1, max_size=4))
def test_no_padding_and_no_other_pair_changes_a_loss(rows):
    model = model_of()
    objective, micro_batch = made(rows)
    found = objective.loss(model, micro_batch.batch)["translation"].item()
    assert found == pytest.approx(loss_of_pairs_alone(model, rows), rel=2e-5)
    assert micro_batch.counts["translation"] == sum(len(b) + 1 for _, b in rows)
    assert micro_batch.tokens == sum(len(a) + 2 for a, _ in rows)


def test_smoothing_acts_in_training_only():
    model = model_of()
    objective, micro_batch = made(ROWS, label_smoothing=0.2)
    plain = objective.loss(model, micro_batch.batch)["translation"].item()
    model.train()
    smoothed = objective.loss(model, micro_batch.batch)["translation"].item()
    assert plain == pytest.approx(loss_of_pairs_alone(model, ROWS), rel=1e-5)
    assert smoothed == pytest.approx(loss_of_pairs_alone(model, ROWS, 0.2), rel=1e-5)


def test_a_model_with_languages_is_told_those_of_the_pairs():
    config = dataclasses.replace(CONFIG, languages=("a", "b", "c"))
    model = model_of(config)
    objective, micro_batch = made(ROWS, facts=dataclasses.replace(FACTS, direction=(2, 0)))
    found = objective.loss(model, micro_batch.batch)["translation"].item()
    expected = loss_of_pairs_alone(model, ROWS, languages=(2, 0))
    assert found == pytest.approx(expected, rel=1e-5)
    assert found != pytest.approx(loss_of_pairs_alone(model, ROWS, languages=(0, 2)), rel=1e-4)


def test_rows_are_never_wider_than_the_longest_side_that_the_shards_allow():
    facts = dataclasses.replace(FACTS, row_length=11)
    _, micro_batch = made([([5] * 9, [6] * 9)], facts=facts)
    assert micro_batch.batch.layout.row_length == 11 and micro_batch.batch.target.layout.row_length == 11


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("label_smoothing", 1.0),
        ("label_smoothing", -0.1),
        ("batch_tokens", 0),
        ("scored_sentences", -1),
        ("scored_beams", 0),
    ],
)
def test_values_out_of_range_are_refused(option, value):
    with pytest.raises(InputError, match=rf"objective\.{option} must be .* but is {value}"):
        Translation(FACTS, **{option: value})


def test_models_that_do_not_fit_are_refused():
    encoder = EncoderConfig(hidden_size=16, num_layers=1, num_heads=2, intermediate_size=16)
    with pytest.raises(InputError, match="objective=translation needs a model with a decoder"):
        Translation(FACTS).build_model(encoder, VOCAB)
    with pytest.raises(InputError, match="languages a, b, but the shards do not say theirs"):
        Translation(FACTS).build_model(dataclasses.replace(CONFIG, languages=("a", "b")), VOCAB)


def test_the_group_has_the_defaults_of_the_class():
    node = OmegaConf.load(Path(conf.__file__).parent / "objective" / "translation.yaml")
    defaults = {n: p.default for n, p in inspect.signature(Translation).parameters.items() if n != "facts"}
    assert {key: value for key, value in node.items() if not key.startswith("_")} == defaults
