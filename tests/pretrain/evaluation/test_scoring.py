"""Pseudo-log-likelihoods: against an independent loop in transformers, and whatever the batches."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from conf.errors import InputError
from pretrain.evaluation.scoring import hidden_positions, pseudo_log_likelihoods, tokenize

from .conftest import make_model


@torch.inference_mode()
def slow_score(model, tokenizer, text: str, variant: str) -> float:
    """One forward of transformers' own model per token, one sentence at a time, nothing shared."""
    encoding = tokenizer.encode(text, add_special_tokens=True)
    mask = tokenizer.token_to_id("[MASK]")
    total = 0.0
    for position in range(1, len(encoding.ids) - 1):
        ids = torch.tensor([encoding.ids])
        ids[0, position] = mask
        if variant == "within_word":
            after = position + 1
            while after < len(encoding.ids) - 1 and encoding.word_ids[after] == encoding.word_ids[position]:
                ids[0, after] = mask
                after += 1
        logits = model(input_ids=ids).logits[0, position].double()
        total += float(torch.log_softmax(logits, dim=-1)[encoding.ids[position]])
    return total


@pytest.mark.parametrize("variant", ["original", "within_word"])
def test_equals_an_independent_loop_over_positions(variant, checkpoint, bert_model, tokenizer, texts):
    oracle = AutoModelForMaskedLM.from_pretrained(checkpoint).eval()
    chosen = texts[::16]
    found = pseudo_log_likelihoods(bert_model, tokenizer, chosen, variant)
    expected = [slow_score(oracle, tokenizer, text, variant) for text in chosen]
    assert len(chosen) >= 40
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_two_variants_differ_only_where_a_word_has_pieces(bert_model, tokenizer, texts):
    original = pseudo_log_likelihoods(bert_model, tokenizer, texts, "original")
    within = pseudo_log_likelihoods(bert_model, tokenizer, texts, "within_word")
    has_pieces = [len(set(text.words[1:-1])) < text.num_tokens for text in tokenize(tokenizer, texts, max_positions=64)]
    assert any(has_pieces) and not all(has_pieces)
    np.testing.assert_array_equal(np.abs(original - within) > 1e-5, has_pieces)


def test_does_not_depend_on_batch_size_or_on_the_other_texts(modern_model, tokenizer, texts):
    texts = texts[::8]
    together = pseudo_log_likelihoods(modern_model, tokenizer, texts, tokens_per_batch=4096)
    small = pseudo_log_likelihoods(modern_model, tokenizer, texts, tokens_per_batch=1)
    np.testing.assert_allclose(together, small, rtol=1e-5, atol=1e-5)
    alone = [pseudo_log_likelihoods(modern_model, tokenizer, [text])[0] for text in texts[:20]]
    np.testing.assert_allclose(together[:20], alone, rtol=1e-5, atol=1e-5)
    backwards = pseudo_log_likelihoods(modern_model, tokenizer, texts[::-1])
    np.testing.assert_allclose(together, backwards[::-1], rtol=1e-5, atol=1e-5)


def test_equal_texts_have_equal_scores_in_the_order_asked(modern_model, tokenizer):
    first, second, third = pseudo_log_likelihoods(modern_model, tokenizer, ["The dog.", "A cat is here.", "The dog."])
    assert first == third != second


def test_normalisations_divide_by_tokens_and_by_characters(modern_model, tokenizer, texts):
    chosen = texts[:10]
    total = pseudo_log_likelihoods(modern_model, tokenizer, chosen, normalisation="none")
    per_token = pseudo_log_likelihoods(modern_model, tokenizer, chosen, normalisation="per_token")
    per_character = pseudo_log_likelihoods(modern_model, tokenizer, chosen, normalisation="per_character")
    tokens = [len(tokenizer.encode(text, add_special_tokens=False).ids) for text in chosen]
    np.testing.assert_allclose(per_token, total / tokens)
    np.testing.assert_allclose(per_character, total / [len(text) for text in chosen])


def test_hidden_positions_by_hand():
    words = [None, 0, 0, 0, 1, None]  # [CLS] un ##happi ##ness . [SEP]
    assert hidden_positions(words, 1, "original") == [1]
    assert hidden_positions(words, 1, "within_word") == [1, 2, 3]
    assert hidden_positions(words, 2, "within_word") == [2, 3]
    assert hidden_positions(words, 4, "within_word") == [4]


def test_leaves_the_model_in_its_mode(tokenizer):
    model = make_model(tokenizer, dropout=0.5).train()
    first = pseudo_log_likelihoods(model, tokenizer, ["The dog."])
    assert model.training
    assert first == pseudo_log_likelihoods(model, tokenizer, ["The dog."])  # dropout was off


def test_a_text_that_cannot_be_scored_is_refused_in_one_sentence(modern_model, tokenizer):
    with pytest.raises(InputError, match=r"at most 64 tokens .* has 102: shorten it"):
        pseudo_log_likelihoods(modern_model, tokenizer, ["the " * 100])
    with pytest.raises(InputError, match="has no token"):
        pseudo_log_likelihoods(modern_model, tokenizer, ["The dog.", " "])
    with pytest.raises(InputError, match="'variant' must be one of original, within_word, but is 'l2r'"):
        pseudo_log_likelihoods(modern_model, tokenizer, ["The dog."], variant="l2r")
    with pytest.raises(InputError, match="'normalisation' must be one of none"):
        pseudo_log_likelihoods(modern_model, tokenizer, ["The dog."], normalisation="words")


def test_a_model_that_gives_no_numbers_is_refused(tokenizer):
    model = make_model(tokenizer)
    with torch.no_grad():
        model.encoder.embeddings.token.weight[5] = float("nan")
    with pytest.raises(InputError, match=r"is nan: the checkpoint's weights"):
        pseudo_log_likelihoods(model, tokenizer, ["The dog."])
