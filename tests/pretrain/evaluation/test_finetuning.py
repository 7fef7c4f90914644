"""Fine-tuning: layouts by hand, learning, determinism."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.evaluation.finetuning import (
    EncodedExample,
    Example,
    Recipe,
    bucketed_batches,
    cut_lengths,
    encode,
    finetune,
    predict,
)
from pretrain.evaluation.mean_classifier import MeanClassifier, sequence_means
from pretrain.models.attention import AttentionLayout
from pretrain.models.heads import SequenceClassifier

from .conftest import BERT, make_model

RECIPE = Recipe(epochs=4, batch_size=8, learning_rate=3e-3, max_length=32)


def examples(count, pair=False):
    rows = []
    for number in range(count):
        label = number % 2
        text = f"the {'table is new' if number % 3 else 'new file is there now'} {'dog' if label else 'key'}"
        rows.append(Example(text, "the table" if pair else None, label, str(number)))
    return rows


def test_single_and_pair_layout_with_token_types(tokenizer):
    ids = {name: tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]", "the", "table")}
    single, _ = encode([Example("the table", None, 1, "g")], tokenizer, 16, "refuse")
    assert single == [EncodedExample([ids["[CLS]"], ids["the"], ids["table"], ids["[SEP]"]], [0, 0, 0, 0], 1)]
    pair, _ = encode([Example("the table", "the", 0, "g")], tokenizer, 16, "refuse")
    assert pair[0].ids == [ids["[CLS]"], ids["the"], ids["table"], ids["[SEP]"], ids["the"], ids["[SEP]"]]
    assert pair[0].types == [0, 0, 0, 0, 1, 1]


def test_layout_equals_the_tokenizers_own_template(tokenizer):
    rows = examples(6, pair=True)
    encoded, _ = encode(rows, tokenizer, 64, "refuse")
    for row, mine in zip(rows, encoded, strict=True):
        theirs = tokenizer.encode(row.text_a, row.text_b)
        assert (mine.ids, mine.types) == (theirs.ids, theirs.type_ids)


def test_a_long_example_is_refused_or_cut_and_counted(tokenizer):
    rows = [Example("the table the table", "the table the", 0, "g"), Example("the", "the", 0, "g")]
    with pytest.raises(InputError, match="example 0 has 10 tokens, but max_length is 8"):
        encode(rows, tokenizer, 8, "refuse")
    encoded, cut = encode(rows, tokenizer, 8, "cut")
    assert cut == 1
    assert [len(example.ids) for example in encoded] == [8, 5]
    assert encoded[0].types == [0, 0, 0, 0, 0, 1, 1, 1] or encoded[0].types == [0, 0, 0, 0, 1, 1, 1, 1]


@given(st.integers(1, 200), st.integers(1, 200), st.integers(2, 200))
def test_cutting_fills_the_room_and_takes_from_the_longer(length_a, length_b, room):
    kept_a, kept_b = cut_lengths(length_a, length_b, room)
    assert kept_a + kept_b == min(room, length_a + length_b)
    assert 0 < kept_a <= length_a and 0 < kept_b <= length_b
    if kept_a < length_a and kept_b < length_b:
        assert abs(kept_a - kept_b) <= 1


def test_a_text_without_tokens_is_refused(tokenizer):
    with pytest.raises(InputError, match="example 0 has a text without any token"):
        encode([Example(" ", None, 0, "g")], tokenizer, 8, "cut")


@given(st.lists(st.integers(1, 50), min_size=1, max_size=300), st.integers(1, 16), st.integers(0, 99))
def test_an_epoch_holds_every_example_once_in_batches_of_like_length(lengths, batch_size, seed):
    batches = bucketed_batches(lengths, batch_size, np.random.default_rng(seed))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(len(batch) <= batch_size for batch in batches)
    assert batches == bucketed_batches(lengths, batch_size, np.random.default_rng(seed))


def test_buckets_leave_little_padding():
    lengths = np.random.default_rng(0).integers(5, 100, 2000).tolist()
    batches = bucketed_batches(lengths, 16, np.random.default_rng(1))
    padded = sum(len(batch) * max(lengths[index] for index in batch) for batch in batches)
    assert sum(lengths) / padded > 0.9


@pytest.mark.parametrize("form", [BERT, {}], ids=["bert", "modern"])
@pytest.mark.parametrize(("pair", "pooling"), [(False, "first"), (True, "first"), (False, "mean")])
def test_learns_an_easy_task_and_repeats_itself_exactly(form, pair, pooling, tokenizer):
    recipe = replace(RECIPE, pooling=pooling)
    model = make_model(tokenizer, **form)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    train, _ = encode(examples(96, pair), tokenizer, RECIPE.max_length, "refuse")
    dev, _ = encode(examples(24, pair), tokenizer, RECIPE.max_length, "refuse")
    first = finetune(model.encoder, train, dev, 2, 0, recipe, seed=1)
    again = finetune(model.encoder, train, dev, 2, 0, recipe, seed=1)
    other = finetune(model.encoder, train, dev, 2, 0, recipe, seed=2)
    labels = [example.label for example in dev]
    assert (first.probabilities.argmax(axis=1) == labels).mean() >= 0.9
    assert first.losses[-1] < first.losses[0]
    assert first.steps == 4 * 12
    np.testing.assert_array_equal(first.probabilities, again.probabilities)
    assert not np.array_equal(first.probabilities, other.probabilities)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_token_types_reach_the_model(tokenizer):
    torch.manual_seed(0)
    classifier = SequenceClassifier(make_model(tokenizer, **BERT).encoder, 2)
    plain = EncodedExample([2, 10, 3, 11, 3], [0, 0, 0, 0, 0], 0)
    typed = EncodedExample(plain.ids, [0, 0, 0, 1, 1], 0)
    assert not np.allclose(predict(classifier, [plain], 0), predict(classifier, [typed], 0))


@pytest.mark.parametrize("kind", [SequenceClassifier, MeanClassifier])
def test_predictions_do_not_depend_on_padding(kind, tokenizer):
    torch.manual_seed(0)
    classifier = kind(make_model(tokenizer, **BERT).encoder, 3)
    encoded, _ = encode(examples(40), tokenizer, 32, "refuse")
    together = predict(classifier, encoded, 0)
    alone = np.concatenate([predict(classifier, [example], 0) for example in encoded])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(together.sum(axis=1), 1.0)


def test_sequence_means_by_hand():
    hidden = torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0], [7.0, 1.0]])
    layout = AttentionLayout(torch.tensor([0, 2, 3, 4, 4], dtype=torch.int32), max_seqlen=2, row_length=4)
    expected = torch.tensor([[2.0, 1.0], [5.0, 5.0], [7.0, 1.0], [0.0, 0.0]])
    assert torch.equal(sequence_means(hidden, layout), expected)


def test_a_loss_that_is_no_number_ends_the_run(tokenizer):
    model = make_model(tokenizer)
    with torch.no_grad():
        model.encoder.embeddings.token.weight.fill_(float("nan"))
    train, _ = encode(examples(8), tokenizer, 32, "refuse")
    with pytest.raises(InputError, match="the fine-tuning loss is nan at step 0"):
        finetune(model.encoder, train, train, 2, 0, RECIPE, seed=1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("epochs", 0),
        ("learning_rate", 0.0),
        ("warmup", 1.0),
        ("dropout", -0.1),
        ("max_length", 3),
        ("too_long", "x"),
        ("pooling", "max"),
    ],
)
def test_an_option_out_of_range_is_named(option, value):
    with pytest.raises(InputError, match=f"recipe.{option} must be"):
        Recipe(**{option: value})
