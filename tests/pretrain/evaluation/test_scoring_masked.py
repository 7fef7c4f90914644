"""The pooled queries of pseudo-log-likelihoods, and parts of texts against an independent loop."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForMaskedLM

from pipeline.tokenizer import special_ids
from pretrain.evaluation import scoring_masked
from pretrain.evaluation.scoring_masked import build_queries, hidden_positions, masked_sums
from pretrain.evaluation.scoring_texts import Passage, TokenizedText, tokenize_passages

MASK = 4


@st.composite
def many_texts(draw):
    """Short texts over three tokens, [MASK] among them, so that many queries are equal."""
    texts = []
    for _ in range(draw(st.integers(1, 8))):
        size = draw(st.integers(1, 4))
        ids = draw(st.lists(st.sampled_from([MASK, 5, 6]), min_size=size, max_size=size))
        joined = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        words = np.cumsum([0, *(not same for same in joined[1:])]).tolist()
        start = draw(st.integers(1, size))
        scored = (start, draw(st.integers(start + 1, size + 1)))
        texts.append(TokenizedText("t", (2, *ids, 3), (None, *words, None), scored, scored))
    return texts


def expected_queries(texts, variant):
    """(row, position) -> the sorted (text, token) that ask for it, by a plain loop."""
    found = {}
    for number, text in enumerate(texts):
        for position in range(*text.scored):
            row = list(text.ids)
            for hidden in hidden_positions(text.words, position, variant):
                row[hidden] = MASK
            found.setdefault((tuple(row), position), []).append((number, text.ids[position]))
    return {query: sorted(asked) for query, asked in found.items()}


def built_queries(texts, variant):
    found = {}
    for queries in build_queries(texts, MASK, variant):
        rows = queries.rows(0, len(queries), MASK).tolist()
        assert (np.diff(queries.query) >= 0).all()
        for query, token, asker in zip(queries.query, queries.tokens, queries.asker, strict=True):
            key = (tuple(rows[query]), int(queries.first[query]))
            found.setdefault(key, {}).setdefault(int(query), []).append((int(asker), int(token)))
    return found


@settings(deadline=None, max_examples=50)
@given(texts=many_texts(), variant=st.sampled_from(["original", "within_word"]))
def test_every_distinct_masked_text_is_one_query(texts, variant):
    found = built_queries(texts, variant)
    assert all(len(numbers) == 1 for numbers in found.values())
    merged = {key: sorted(next(iter(numbers.values()))) for key, numbers in found.items()}
    assert merged == expected_queries(texts, variant)


@pytest.mark.parametrize("variant", ["original", "within_word"])
def test_queries_whose_keys_collide_are_told_apart(variant, monkeypatch, tokenizer, texts):
    tokenized = tokenize_passages(tokenizer, [Passage.whole(text) for text in texts[::60]])
    expected = expected_queries(tokenized, variant)
    monkeypatch.setattr(scoring_masked, "_random_numbers", lambda shape, seed: np.zeros(shape, dtype=np.uint64))
    found = built_queries(tokenized, variant)
    merged = {key: sorted(itertools.chain(*numbers.values())) for key, numbers in found.items()}
    assert merged == expected


def test_the_scores_of_a_texts_parts_add_up_to_the_whole(modern_model, tokenizer, texts):
    mask_id = special_ids(tokenizer)["mask"]
    for variant in ("original", "within_word"):
        chosen = texts[:12]
        parts = [((0, 8), (8, len(text))) for text in chosen]
        passages = [Passage(text, span, span) for text, spans in zip(chosen, parts, strict=True) for span in spans]
        sums = masked_sums(modern_model, tokenize_passages(tokenizer, passages), mask_id, variant)
        whole = masked_sums(
            modern_model, tokenize_passages(tokenizer, list(map(Passage.whole, chosen))), mask_id, variant
        )
        np.testing.assert_allclose(sums.reshape(-1, 2).sum(axis=1), whole, rtol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("variant", ["original", "within_word"])
def test_a_part_equals_a_loop_over_its_positions_in_transformers(variant, checkpoint, bert_model, tokenizer, texts):
    oracle = AutoModelForMaskedLM.from_pretrained(checkpoint).eval()
    passages = [Passage(text, (4, len(text) - 6), (0, len(text))) for text in texts[::24]]
    tokenized = tokenize_passages(tokenizer, passages)
    found = masked_sums(bert_model, tokenized, special_ids(tokenizer)["mask"], variant, tokens_per_batch=100)
    for passage, value in zip(passages, found, strict=True):
        encoding = tokenizer.encode(passage.text, add_special_tokens=True)
        expected = 0.0
        for position in range(1, len(encoding.ids) - 1):
            if not 4 <= encoding.offsets[position][0] < len(passage.text) - 6:
                continue
            ids = torch.tensor([encoding.ids])
            word = encoding.word_ids[position]
            for at in range(position, len(encoding.ids) - 1):
                if at == position or (variant == "within_word" and encoding.word_ids[at] == word):
                    ids[0, at] = special_ids(tokenizer)["mask"]
            row = torch.log_softmax(oracle(input_ids=ids).logits[0, position].double(), dim=-1)
            expected += float(row[encoding.ids[position]])
        assert value == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_logits_in_pieces_give_the_same(monkeypatch, bert_model, tokenizer, texts):
    from pretrain.evaluation import scoring_logits

    tokenized = tokenize_passages(tokenizer, [Passage.whole(text) for text in texts[::40]])
    whole = masked_sums(bert_model, tokenized, special_ids(tokenizer)["mask"], "original")
    monkeypatch.setattr(scoring_logits, "LOGITS_AT_ONCE", 5 * bert_model.vocab_size)
    pieces = masked_sums(bert_model, tokenized, special_ids(tokenizer)["mask"], "original")
    np.testing.assert_allclose(pieces, whole, rtol=1e-6)
