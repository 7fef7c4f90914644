"""The loop: every kind learns, repeats itself, stops early, unfreezes from the top, and follows its schedule."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conf.errors import InputError
from pretrain.evaluation.finetuning import training, updates
from pretrain.evaluation.finetuning.batches import bucketed_batches, collate
from pretrain.evaluation.finetuning.encoding import encode
from pretrain.evaluation.finetuning.heads import make_model
from pretrain.evaluation.finetuning.recipe import Recipe
from pretrain.evaluation.finetuning.training import finetune, rate_factor
from pretrain.evaluation.finetuning.updates import predict
from pretrain.evaluation.metrics import accuracy, pearson
from pretrain.optim.schedules import linear

from ..conftest import BERT
from ..conftest import make_model as tiny
from .items import choices, spans, texts

RECIPE = Recipe(epochs=4, batch_size=8, learning_rate=3e-3, max_length=32)
ITEMS = {
    "classification": texts,
    "pair": lambda count: texts(count, pair=True),
    "regression": lambda count: texts(count, regression=True),
    "choice": choices,
    "span": spans,
}


def run(kind, tokenizer, model, recipe=RECIPE, seed=1, train=64, dev=24, judge=None):
    make, kind = ITEMS[kind], "classification" if kind == "pair" else kind
    learned, _ = encode(make(train), tokenizer, recipe.max_length, "refuse")
    shown, _ = encode(make(dev), tokenizer, recipe.max_length, "refuse")

    def score(outputs):
        if kind == "regression":
            return pearson(shown.labels, outputs[:, 0])
        return accuracy(shown.labels, outputs.argmax(axis=1))

    return finetune(model.encoder, kind, 2, learned, {"dev": shown}, judge or score, recipe, seed, pad_id=0)


@pytest.mark.parametrize("kind", list(ITEMS))
def test_every_kind_learns_what_can_be_learned(kind, tokenizer):
    model = tiny(tokenizer, **BERT)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = run(kind, tokenizer, model)
    assert result.epochs[-1].metric >= 0.9
    assert result.epochs[-1].loss < result.epochs[0].loss
    assert result.steps == 4 * 8 and result.best == 3
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(pooling, tokenizer):
    recipe = replace(RECIPE, epochs=1, pooling=pooling)
    model = tiny(tokenizer)
    first, again, other = (run("classification", tokenizer, model, recipe, seed, 24) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.outputs["dev"], again.outputs["dev"])
    assert not np.array_equal(first.outputs["dev"], other.outputs["dev"])


@pytest.mark.parametrize("pooling", ["first", "mean"])
@pytest.mark.parametrize("kind", ["pair", "choice", "span"])
def test_predictions_do_not_depend_on_what_else_is_in_the_batch(kind, pooling, tokenizer):
    data, _ = encode(ITEMS[kind](30), tokenizer, 32, "refuse")
    kind = "classification" if kind == "pair" else kind
    torch.manual_seed(0)
    model = make_model(kind, tiny(tokenizer, **BERT).encoder, 2, 0.1, pooling)
    together = predict(model, kind, data, 0)
    alone = [predict(model, kind, data.take([index]), 0)[0] for index in range(len(data))]
    for row, one in zip(together, alone, strict=True):
        np.testing.assert_allclose(row[: len(one)], one, atol=1e-6)
    assert model.training  # the mode is put back


def test_early_stopping_keeps_the_best_epoch_and_its_weights(tokenizer):
    metrics = iter([0.5, 0.8, 0.8, 0.7, 0.9])
    result = run(
        "classification",
        tokenizer,
        tiny(tokenizer),
        replace(RECIPE, patience=2, epochs=5),
        judge=lambda _: next(metrics),
    )
    # Epoch 2 equals epoch 1 and epoch 3 is worse: two epochs without a rise end the run.
    assert [epoch.metric for epoch in result.epochs] == [0.5, 0.8, 0.8, 0.7]
    assert result.best == 1
    dev, _ = encode(texts(24), tokenizer, 32, "refuse")
    np.testing.assert_array_equal(predict(result.model, "classification", dev, 0), result.outputs["dev"])


def test_further_sets_are_predicted_by_the_epoch_that_counts(tokenizer):
    train, _ = encode(texts(24), tokenizer, 32, "refuse")
    metrics = iter([0.9, 0.1])
    recipe = replace(RECIPE, epochs=2, patience=1)
    result = finetune(
        tiny(tokenizer).encoder,
        "classification",
        2,
        train,
        {"a": train, "b": train},
        lambda _: next(metrics),
        recipe,
        1,
        0,
    )
    assert result.best == 0
    np.testing.assert_array_equal(result.outputs["a"], result.outputs["b"])


def test_layers_unfreeze_from_the_top_one_an_epoch(tokenizer, monkeypatch):
    seen = []
    original = updates.loss_of

    def watch(kind, logits, batch):
        seen.append({name for name, p in model_of(logits) if p.requires_grad})
        return original(kind, logits, batch)

    built = []
    make = training.make_model
    monkeypatch.setattr(training, "make_model", lambda *args: built.append(make(*args)) or built[-1])
    monkeypatch.setattr(updates, "loss_of", watch)

    def model_of(_):
        return list(built[-1].named_parameters())

    model = tiny(tokenizer, **BERT)
    result = run("classification", tokenizer, model, replace(RECIPE, gradual_unfreezing=True), train=8)
    head = {"dense.weight", "dense.bias", "classifier.weight", "classifier.bias"}
    assert seen[0] == head
    assert {name.split(".")[2] for name in seen[1] - head} == {"1"}
    assert {name.split(".")[2] for name in seen[2] - head} == {"0", "1"}
    assert any(name.startswith("encoder.embeddings") for name in seen[3])
    changed = result.model.encoder.state_dict()["embeddings.token.weight"]
    assert not torch.equal(changed, model.encoder.state_dict()["embeddings.token.weight"])


def test_what_is_frozen_does_not_move(tokenizer):
    model = tiny(tokenizer, **BERT)
    result = run("classification", tokenizer, model, replace(RECIPE, gradual_unfreezing=True, epochs=1), train=16)
    tuned = result.model.encoder.state_dict()
    for name, value in model.encoder.state_dict().items():
        assert torch.equal(value, tuned[name]), name
    assert all(parameter.requires_grad for parameter in result.model.parameters())


def test_each_layer_learns_slower_than_the_one_above(tokenizer, monkeypatch):
    rates = {}
    original = training.adamw

    def watch(model, **options):
        optimizer = original(model, **options)
        rates.update({name: group["lr"] for group in optimizer.param_groups for name in group["names"]})
        return optimizer

    monkeypatch.setattr(training, "adamw", watch)
    run("classification", tokenizer, tiny(tokenizer, **BERT), replace(RECIPE, epochs=1, layer_factor=2.6), train=8)
    top = rates["classifier.weight"]
    assert top == pytest.approx(3e-3)
    assert rates["encoder.layers.1.mlp.input.weight"] == pytest.approx(top / 2.6)
    assert rates["encoder.layers.0.mlp.input.weight"] == pytest.approx(top / 2.6**2)
    assert rates["encoder.embeddings.token.weight"] == pytest.approx(top / 2.6**3)


def test_the_rate_follows_the_schedule():
    assert [rate_factor(RECIPE, step, 20) for step in range(20)] == [linear(s, 1, 20, warmup=2) for s in range(20)]
    triangle = replace(RECIPE, schedule="slanted_triangular", warmup=0.0)
    # ULMFiT's formula at T = 20: cut = 2; the peak is at step 2, the first rate 1/32 of it.
    assert rate_factor(triangle, 0, 20) == pytest.approx(1 / 32)
    assert rate_factor(triangle, 2, 20) == pytest.approx(1.0)
    assert rate_factor(triangle, 11, 20) == pytest.approx((1 + (1 - 9 / 18) * 31) / 32)
    assert rate_factor(replace(RECIPE, schedule="constant", warmup=0.0), 19, 20) == 1.0


def test_updates_are_those_of_a_plain_loop(tokenizer):
    """AdamW with decay on matrices only, clipped gradients, the linear rate: written out in torch."""
    recipe = Recipe(epochs=1, batch_size=8, learning_rate=3e-3, weight_decay=0.3, dropout=0.0, max_gradient_norm=0.05)
    model = tiny(tokenizer, **BERT)
    data, _ = encode(texts(32), tokenizer, 64, "refuse")
    result = finetune(model.encoder, "classification", 2, data, {"dev": data}, lambda _: 0.0, recipe, 7, 0)
    torch.manual_seed(7)
    plain = make_model("classification", model.encoder, 2, 0.0, "first").train()
    groups = [
        {"params": [p for p in plain.parameters() if p.ndim > 1], "weight_decay": 0.3},
        {"params": [p for p in plain.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.999), eps=1e-6)
    batches = bucketed_batches(data.item_lengths.tolist(), 8, np.random.default_rng(7))
    # 4 steps with a warm-up of round(0.4) = 0: the rate falls in a line.
    for step, members in enumerate(batches):
        batch = collate(data, members, pad_id=0)
        loss = torch.nn.functional.cross_entropy(plain.logits(batch), batch.labels.long())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in plain.parameters() if p.grad is not None))
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 - step / 4)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(min(1.0, 0.05 / float(norm)))
        optimizer.step()
    found = dict(result.model.named_parameters())
    for name, expected in plain.named_parameters():
        if "qkv.bias" not in name:  # a key's bias has no true gradient: Adam blows up what rounding leaves of it
            torch.testing.assert_close(found[name], expected, atol=2e-5, rtol=0, msg=name)


def test_bf16_learns_too(tokenizer):
    assert (
        run("classification", tokenizer, tiny(tokenizer, **BERT), replace(RECIPE, precision="bf16")).epochs[-1].metric
        > 0.9
    )


def test_what_is_no_number_ends_the_run(tokenizer):
    model = tiny(tokenizer)
    with torch.no_grad():
        model.encoder.embeddings.token.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="the fine-tuning loss is nan at step 0"):
        run("classification", tokenizer, model)
    with pytest.raises(InputError, match="the dev metric is nan after epoch 1"):
        run("classification", tokenizer, tiny(tokenizer), judge=lambda _: float("nan"))


def test_items_without_a_label_or_no_items_are_refused(tokenizer):
    data, _ = encode([replace(item, label=None) if item.id == "1" else item for item in texts(4)], tokenizer, 32, "cut")
    encoder = tiny(tokenizer).encoder
    with pytest.raises(InputError, match="1 of 4 training items have no label"):
        finetune(encoder, "classification", 2, data, {"dev": data}, lambda _: 0.0, RECIPE, 1, 0)
    with pytest.raises(InputError, match="a set is empty"):
        finetune(encoder, "classification", 2, data.take([]), {"dev": data}, lambda _: 0.0, RECIPE, 1, 0)


def test_predictions_that_are_no_numbers_are_not_taken_for_the_best_label(tokenizer):
    result = run("classification", tokenizer, tiny(tokenizer))
    data, _ = encode(texts(4), tokenizer, 32, "cut")
    with torch.no_grad():
        result.model.encoder.embeddings.token.weight.fill_(float("nan"))
    with pytest.raises(InputError, match="gives 4 of 4 items scores that are no numbers: lower recipe"):
        predict(result.model, "classification", data, 0)
