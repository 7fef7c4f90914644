"""Heads against transformers' classes on the same weights: logits, losses and gradients; the span head by hand."""

import numpy as np
import pytest
import torch
from transformers import BertForMultipleChoice, BertForSequenceClassification

from conf.errors import InputError
from pretrain.evaluation.finetuning.batches import collate
from pretrain.evaluation.finetuning.encoding import encode
from pretrain.evaluation.finetuning.heads import item_logits, loss_of, make_model, outputs_of, sequence_means
from pretrain.evaluation.tasks.definition import ChoiceItem
from pretrain.models.attention import AttentionLayout

from .items import choices, spans, texts


def their_inputs(data):
    """Padded, as transformers wants them."""
    length = int(data.lengths.max())
    ids, types, mask = (torch.zeros(len(data.lengths), length, dtype=torch.long) for _ in range(3))
    for row, (start, end) in enumerate(zip(data.starts, data.starts[1:], strict=False)):
        ids[row, : end - start] = torch.from_numpy(data.ids[start:end].astype(np.int64))
        types[row, : end - start] = torch.from_numpy(data.types[start:end].astype(np.int64))
        mask[row, : end - start] = 1
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}


def share_head(theirs, ours):
    with torch.no_grad():
        theirs.bert.pooler.dense.weight.copy_(ours.dense.weight)
        theirs.bert.pooler.dense.bias.copy_(ours.dense.bias)
        theirs.classifier.weight.copy_(ours.classifier.weight)
        theirs.classifier.bias.copy_(ours.classifier.bias)


def assert_same_gradients(ours, theirs):
    layer, other = ours.encoder.layers[0], theirs.bert.encoder.layer[0]
    q, k, v = layer.attention.qkv.weight.grad.chunk(3)
    attention = other.attention.self
    vocabulary = theirs.config.vocab_size
    pairs = [
        (q, attention.query.weight.grad),
        (k, attention.key.weight.grad),
        (v, attention.value.weight.grad),
        (layer.mlp.input.weight.grad, other.intermediate.dense.weight.grad),
        (ours.encoder.embeddings.token.weight.grad[:vocabulary], theirs.bert.embeddings.word_embeddings.weight.grad),
        (ours.dense.weight.grad, theirs.bert.pooler.dense.weight.grad),
        (ours.classifier.weight.grad, theirs.classifier.weight.grad),
    ]
    for mine, other_gradient in pairs:
        torch.testing.assert_close(mine, other_gradient, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_logits_loss_and_gradients_are_those_of_berts_classifier(kind, checkpoint, bert_model, tokenizer):
    torch.manual_seed(3)
    labels = 3 if kind == "classification" else 1
    ours = make_model(kind, bert_model.encoder, labels, 0.1, "first").eval()
    theirs = BertForSequenceClassification.from_pretrained(checkpoint, num_labels=labels).eval()
    share_head(theirs, ours)
    data, _ = encode(texts(7, pair=True, regression=kind == "regression"), tokenizer, 64, "refuse")
    batch = collate(data, range(7), pad_id=0)
    logits = ours.logits(batch)
    loss = loss_of(kind, logits, batch)
    targets = torch.from_numpy(data.labels).float() if kind == "regression" else torch.from_numpy(data.labels).long()
    expected = theirs(**their_inputs(data), labels=targets)
    torch.testing.assert_close(logits, expected.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(loss, expected.loss, atol=1e-5, rtol=1e-5)
    loss.backward()
    expected.loss.backward()
    assert_same_gradients(ours, theirs)


def test_logits_loss_and_gradients_are_those_of_berts_multiple_choice(checkpoint, bert_model, tokenizer):
    torch.manual_seed(3)
    ours = make_model("choice", bert_model.encoder, 0, 0.1, "first").eval()
    theirs = BertForMultipleChoice.from_pretrained(checkpoint).eval()
    share_head(theirs, ours)
    items = [item for item in choices(10) if len(item.options) == 2]
    data, _ = encode(items, tokenizer, 64, "refuse")
    batch = collate(data, range(5), pad_id=0)
    logits = ours.logits(batch)
    loss = loss_of("choice", logits, batch)
    inputs = {name: value.view(5, 2, -1) for name, value in their_inputs(data).items()}
    expected = theirs(**inputs, labels=torch.from_numpy(data.labels).long())
    torch.testing.assert_close(item_logits("choice", logits, batch), expected.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(loss, expected.loss, atol=1e-5, rtol=1e-5)
    loss.backward()
    expected.loss.backward()
    assert_same_gradients(ours, theirs)


def test_options_compete_within_their_item_only(bert_model, tokenizer):
    data, _ = encode(choices(6), tokenizer, 64, "refuse")
    model = make_model("choice", bert_model.encoder, 0, 0.1, "first").eval()
    batch = collate(data, range(6), pad_id=0)
    logits = model.logits(batch)
    shares = outputs_of("choice", logits, batch).detach()
    assert shares.shape == (6, 3)
    for number, count in enumerate(batch.counts.tolist()):
        at = int(batch.counts[:number].sum())
        alone = torch.softmax(logits[at : at + count, 0].double(), dim=0)
        torch.testing.assert_close(shares[number, :count], alone.detach())
        assert not shares[number, count:].any()


@pytest.mark.parametrize("form", ["bert_model", "modern_model"])
def test_the_span_head_reads_the_first_token_and_the_means_of_both_spans(form, request, tokenizer):
    encoder = request.getfixturevalue(form).encoder
    torch.manual_seed(1)
    model = make_model("span", encoder, 2, 0.1, "first").eval()
    data, _ = encode(spans(3), tokenizer, 64, "refuse")
    batch = collate(data, [0, 2, 1], pad_id=0)
    types = batch.token_type_ids if encoder.config.token_types else None
    hidden = model.encoder(batch.input_ids, batch.position_ids, batch.layout, types)
    expected = []
    for start, (a, b, c, d) in zip(batch.starts.tolist(), batch.spans.tolist(), strict=True):
        state = torch.cat([hidden[start], hidden[a:b].mean(dim=0), hidden[c:d].mean(dim=0)])
        expected.append(model.classifier(state))
    torch.testing.assert_close(model.logits(batch), torch.stack(expected), atol=1e-5, rtol=1e-5)
    loss_of("span", model.logits(batch), batch).backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if "pooler" not in name)


def test_a_pretrained_pooler_is_where_the_classifier_starts(bert_model):
    with torch.random.fork_rng():
        pooled = make_model("classification", bert_model.encoder, 2, 0.1, "first")
    encoder = pooled.encoder
    encoder.pooler = torch.nn.Linear(32, 32)
    again = make_model("classification", encoder, 2, 0.1, "first")
    torch.testing.assert_close(again.dense.weight, encoder.pooler.weight)
    assert again.encoder.pooler is None and encoder.pooler is not None


def test_sequence_means_by_hand():
    hidden = torch.tensor([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0], [7.0, 1.0]])
    layout = AttentionLayout(torch.tensor([0, 2, 3, 4, 4], dtype=torch.int32), max_seqlen=2, row_length=4)
    expected = torch.tensor([[2.0, 1.0], [5.0, 5.0], [7.0, 1.0], [0.0, 0.0]])
    assert torch.equal(sequence_means(hidden, layout), expected)


def test_kinds_without_a_head_are_refused(bert_model):
    with pytest.raises(InputError, match="minimal pairs are scored without training"):
        make_model("minimal_pair", bert_model.encoder, 2, 0.1, "first")
    with pytest.raises(InputError, match="a task must have at least 2 labels, but has 1"):
        make_model("classification", bert_model.encoder, 1, 0.1, "first")


def test_a_choice_item_of_one_option_is_certain(bert_model, tokenizer):
    data, _ = encode([ChoiceItem("a", "the ", ("dog",), "", 0, "g")], tokenizer, 16, "refuse")
    model = make_model("choice", bert_model.encoder, 0, 0.0, "first").eval()
    batch = collate(data, [0], pad_id=0)
    assert outputs_of("choice", model.logits(batch), batch).tolist() == [[1.0]]
