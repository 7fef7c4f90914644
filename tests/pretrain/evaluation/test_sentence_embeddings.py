"""Sentences as vectors: the mean over tokens, whatever the batch."""

import numpy as np
import pytest
import torch

from conf.errors import InputError
from pipeline.tokenizer import special_ids
from pretrain.data.batching import pad_sequences
from pretrain.evaluation.sentence_embeddings import cosines, mean_embeddings
from pretrain.evaluation.subject import read_subject
from pretrain.evaluation.tasks.definition import TextItem
from tests.pretrain.models.test_huggingface import MINILM, MINILM_COSINES, MINILM_TEXTS


def items_of(texts):
    return [TextItem(str(number), text, None, None, str(number)) for number, text in enumerate(texts)]


def test_cosines_of_minilm_are_those_of_an_independent_forward_pass():
    encoder, tokenizer = read_subject(str(MINILM), [1], []).pretrained().load_encoder()
    vectors, cut = mean_embeddings(encoder, tokenizer, items_of(MINILM_TEXTS), 128, "refuse")
    assert cut == 0 and vectors.shape == (3, 384)
    np.testing.assert_allclose(cosines(vectors[[0, 0, 1]], vectors[[1, 2, 2]]), MINILM_COSINES, atol=1e-5)


@pytest.fixture
def model(bert_model, tokenizer):
    return bert_model.encoder, tokenizer


def test_a_vector_depends_neither_on_the_others_nor_on_its_place(model, texts):
    together, _ = mean_embeddings(*model, items_of(texts[:9]), 64, "refuse")
    backwards, _ = mean_embeddings(*model, items_of(texts[:9][::-1]), 64, "refuse")
    np.testing.assert_allclose(together, backwards[::-1], atol=1e-5)
    for number, text in enumerate(texts[:9]):
        alone, _ = mean_embeddings(*model, items_of([text]), 64, "refuse")
        np.testing.assert_allclose(alone[0], together[number], atol=1e-5)


def test_the_mean_is_over_all_tokens_and_the_mode_is_put_back(model, texts):
    encoder, tokenizer = model
    encoder.train()
    vectors, _ = mean_embeddings(encoder, tokenizer, items_of(texts[:1]), 64, "refuse")
    assert encoder.training
    encoder.eval()
    special = special_ids(tokenizer)
    ids = [special["cls"], *tokenizer.encode(texts[0], add_special_tokens=False).ids, special["sep"]]
    input_ids, position_ids, layout, starts = pad_sequences([ids], special["pad"])
    with torch.no_grad():
        states = encoder(input_ids, position_ids, layout)[int(starts[0]) :][: len(ids)]
    np.testing.assert_allclose(vectors[0], states.mean(0).numpy(), atol=1e-5)


def test_equal_texts_have_equal_vectors_and_long_ones_are_refused_or_cut(model, texts):
    again = [texts[0], texts[1], texts[0]]
    vectors, _ = mean_embeddings(*model, items_of(again), 64, "refuse")
    assert (vectors[0] == vectors[2]).all() and (vectors[0] != vectors[1]).any()
    with pytest.raises(InputError, match=r"item 0 has \d+ tokens, but max_length is 5"):
        mean_embeddings(*model, items_of(again), 5, "refuse")
    shorter, cut = mean_embeddings(*model, items_of(again), 5, "cut")
    assert cut == 2 and (shorter != vectors).any()


def test_the_cosine_by_hand():
    found = cosines(
        np.array([[3, 4], [1, 0], [0, 0], [2, 0]], np.float32), np.array([[4, 3], [0, 2], [1, 1], [-1, 0]], np.float32)
    )
    np.testing.assert_allclose(found, [0.96, 0.0, 0.0, -1.0], atol=1e-12)
