"""Scores of texts and of items: against an independent loop in transformers, and whatever the batches."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from conf.errors import InputError
from pretrain.evaluation.scoring import (
    DecoderScoring,
    Scoring,
    fit_items,
    hidden_positions,
    pseudo_log_likelihoods,
    score_items,
    tokenize,
)
from pretrain.evaluation.tasks.definition import ChoiceItem, PairItem

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


ITEM = ChoiceItem("1", "The dog likes ", ("the table", "a new key and a file"), " here.", 0, "1")
PAIR = PairItem("2", "The dogs are here.", "The dogs is here.", "agreement", "2")


@pytest.fixture(params=["encoder", "encoder-decoder"])
def any_model(request, modern_model, pairs_model):
    return modern_model if request.param == "encoder" else pairs_model


def scores(model, tokenizer, items, **options):
    return score_items(model, tokenizer, items, Scoring(**options))


def test_both_kinds_of_models_score_the_same_items(any_model, tokenizer):
    found = scores(any_model, tokenizer, [ITEM, PAIR])
    assert [len(numbers) for numbers in found] == [2, 2]
    assert all(number < 0 for numbers in found for number in numbers)
    good, bad = pseudo_log_likelihoods(any_model, tokenizer, [PAIR.good, PAIR.bad])
    np.testing.assert_allclose(found[1], [good, bad], rtol=1e-5)
    (whole,) = scores(any_model, tokenizer, [ITEM], part="whole")
    texts = [ITEM.prefix + option + ITEM.suffix for option in ITEM.options]
    np.testing.assert_allclose(whole, pseudo_log_likelihoods(any_model, tokenizer, texts), rtol=1e-5)


def test_parts_of_an_option_are_option_and_suffix(modern_model, tokenizer):
    """Of an encoder, prefix, option and suffix add up to the whole."""
    whole, option, suffix = (
        np.array(scores(modern_model, tokenizer, [ITEM], part=part)[0]) for part in ("whole", "option", "suffix")
    )
    swapped = replace(ITEM, prefix="", options=(ITEM.prefix,), suffix=ITEM.options[0] + ITEM.suffix)
    (prefix,) = scores(modern_model, tokenizer, [swapped], part="option")
    assert whole[0] == pytest.approx(prefix[0] + option[0] + suffix[0], rel=1e-5)


def test_normalisations_of_options(any_model, tokenizer):
    (plain,) = scores(any_model, tokenizer, [ITEM])
    (per_token,) = scores(any_model, tokenizer, [ITEM], normalisation="per_token")
    (per_character,) = scores(any_model, tokenizer, [ITEM], normalisation="per_character")
    tokens = [len(tokenizer.encode(option, add_special_tokens=False).ids) for option in ITEM.options]
    np.testing.assert_allclose(per_token, np.array(plain) / tokens)
    np.testing.assert_allclose(per_character, np.array(plain) / [9, 20])
    (suffix,) = scores(any_model, tokenizer, [ITEM], part="suffix")
    (per_character,) = scores(any_model, tokenizer, [ITEM], part="suffix", normalisation="per_character")
    np.testing.assert_allclose(per_character, np.array(suffix) / len("here."))  # without the space before it


@pytest.mark.parametrize("premise", ["", "The key: "])
def test_mutual_information_is_less_the_option_behind_the_domain_premise(any_model, tokenizer, premise):
    (plain,) = scores(any_model, tokenizer, [ITEM])
    (found,) = scores(any_model, tokenizer, [ITEM], normalisation="mutual_information", domain_premise=premise)
    (alone,) = scores(any_model, tokenizer, [replace(ITEM, prefix=premise, suffix="")])
    np.testing.assert_allclose(found, np.array(plain) - alone, rtol=1e-4)


def test_does_not_depend_on_the_batch_or_on_the_other_items(any_model, tokenizer, texts):
    items = [
        ChoiceItem(str(number), text[:8], (text[8:], "the file"), " here.", 0, "g")
        for number, text in enumerate(texts[::40])
    ]
    for part in ("option", "suffix", "whole"):
        together = np.array(score_items(any_model, tokenizer, items, Scoring(part)))
        small = score_items(any_model, tokenizer, items, Scoring(part), tokens_per_batch=1)
        np.testing.assert_allclose(together, small, rtol=1e-5, atol=1e-5)
        alone = [score_items(any_model, tokenizer, [item], Scoring(part))[0] for item in items[:5]]
        np.testing.assert_allclose(together[:5], alone, rtol=1e-5, atol=1e-5)


def test_an_item_too_long_is_refused_cut_or_counted(any_model, tokenizer):
    long = replace(ITEM, id="long", prefix="the " * 70)
    hopeless = replace(ITEM, id="hopeless", options=("the key", "key " * 80))
    with pytest.raises(InputError, match=r"item 'long' has 82 tokens .* the model has 64 positions: use a model"):
        scores(any_model, tokenizer, [ITEM, long])
    with pytest.raises(InputError, match=r"item 'hopeless' .* what is scored is never cut, so use a model"):
        scores(any_model, tokenizer, [long, hopeless], too_long="cut")
    with pytest.raises(InputError, match=r"item 'long' .* what is scored is never cut"):
        scores(any_model, tokenizer, [long], too_long="cut", part="whole")
    both = replace(ITEM, id="both", options=("key " * 80, "dog " * 80))
    with pytest.raises(InputError, match=r"item 'both' .* what is scored is never cut"):
        # An option is no context that could be cut of what follows it.
        scores(any_model, tokenizer, [both], too_long="cut", part="suffix")
    first, cut, uncounted = scores(any_model, tokenizer, [ITEM, long, hopeless], too_long="count")
    assert uncounted is None and len(first) == 2
    longest = len(tokenizer.encode(long.prefix + long.options[1] + long.suffix, add_special_tokens=False).ids) + 2
    kept = replace(long, prefix="the " * (70 - (longest - 64)))
    np.testing.assert_allclose(cut, scores(any_model, tokenizer, [kept])[0], rtol=1e-5)
    fitted = fit_items(tokenizer, [ITEM, long, hopeless], Scoring(too_long="count"), 64)
    assert [item.cut for item in fitted] == [0, longest - 64, 0]


def test_options_that_make_no_sense_are_refused_in_one_sentence(any_model, tokenizer):
    for options, sentence in (
        ({"part": "answer"}, "'part' must be one of null, whole, option, suffix, but is 'answer'"),
        ({"too_long": "drop"}, "'too_long' must be one of refuse, cut, count, but is 'drop'"),
        ({"decoder": DecoderScoring(source="none")}, "'decoder.source' must be one of masked, removed"),
        ({"decoder": DecoderScoring(decoder_input="cls")}, "'decoder.decoder_input' must be one of previous, mask"),
        ({"domain_premise": "so "}, "'domain_premise' is used by normalisation=mutual_information only"),
        ({"part": "whole", "normalisation": "mutual_information"}, "needs part=option, but part is whole"),
    ):
        with pytest.raises(InputError, match=sentence):
            Scoring(**options)
    for options in ({"part": "option"}, {"normalisation": "mutual_information"}):
        with pytest.raises(InputError, match="a minimal pair is scored whole"):
            scores(any_model, tokenizer, [PAIR], **options)


def test_a_score_that_is_no_number_is_refused_for_either_kind(pairs_model, tokenizer):
    model = copy.deepcopy(pairs_model)
    with torch.no_grad():
        model.encoder.embeddings.token.weight[5] = float("inf")
    with pytest.raises(InputError, match=r"is nan: the checkpoint's weights give no finite probabilities"):
        scores(model, tokenizer, [PAIR])


def test_the_name_of_a_score_says_all_that_it_depends_on(modern_model, pairs_model):
    assert Scoring().name_for(modern_model, "whole") == "pll.within_word.whole.none"
    scoring = Scoring(variant="original", normalisation="mutual_information", domain_premise="so ")
    assert scoring.name_for(modern_model, "option") == "pll.original.option.mutual_information('so ')"
    decoder = DecoderScoring("removed", "mask", cross_attention_to_masks=False, language="en")
    scoring = Scoring(normalisation="per_token", decoder=decoder)
    expected = "likelihood.removed.mask.masks_hidden.en.suffix.per_token"
    assert scoring.name_for(pairs_model, "suffix") == expected
