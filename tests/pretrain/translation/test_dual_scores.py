"""How likely a pair is in both directions: against transformers, token by token, and whatever the batches."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BartForConditionalGeneration

from pipeline.tokenizer import load_tokenizer
from pretrain.decoding.vocabulary import Vocabulary
from pretrain.models.load import load_model
from pretrain.translation.dual_scores import DualScorer, Side, dual_score, log_probabilities
from tests.helpers.lively import VOCABULARY, lively_model, random_sources
from tests.helpers.translation import write_model
from tests.pretrain.models.conftest import CONV_FORMS, make_conv

SOURCES = [ids[1:-1] for ids in random_sources(12, vocab_size=40)]
TARGETS = [ids[1:-1] for ids in random_sources(12, longest=25, vocab_size=40, seed=2)]


def side(model, languages=(None, None)):
    return Side(model, model.config.max_positions, languages)


def scores(model, languages=(None, None), batch_tokens=200, **options):
    return log_probabilities(side(model, languages), SOURCES, TARGETS, VOCABULARY, batch_tokens, **options)


def test_they_are_the_losses_of_transformers_on_the_exported_model(tmp_path):
    folder = write_model(tmp_path)
    model, theirs = load_model(folder).model, BartForConditionalGeneration.from_pretrained(folder).eval()
    expected = []
    for source, target in zip(SOURCES, TARGETS, strict=True):
        with torch.no_grad():
            loss = theirs(
                input_ids=torch.tensor([[2, *source, 3]]),
                decoder_input_ids=torch.tensor([[2, *target]]),
                labels=torch.tensor([[*target, 3]]),
            ).loss
        expected.append(-float(loss))
    assert scores(model) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["transformer", "convolutional"])
def test_they_are_what_the_decoder_says_token_by_token_from_language_to_language(name):
    if name == "transformer":
        model = lively_model(languages=("de", "en"))
    else:
        model = make_conv(CONV_FORMS["languages"]).eval()
    model.double()
    found = {languages: scores(model, languages) for languages in ((0, 1), (1, 0))}
    for (source_language, target_language), means in found.items():
        for source, target, mean in zip(SOURCES, TARGETS, means, strict=True):
            ids = [2, *source, 3]
            with torch.no_grad():
                decoder = model.incremental_decoder(
                    torch.tensor([ids]),
                    torch.tensor([len(ids)]),
                    source_language=source_language,
                    target_language=target_language,
                )
                total = 0.0
                for read, written in zip([2, *target], [*target, 3], strict=True):
                    total += float(decoder.step(torch.tensor([[read]]))[0, 0].log_softmax(0)[written])
            assert mean == pytest.approx(total / (len(target) + 1), rel=1e-7)  # the decoder's logits are fp32
    assert not np.allclose(found[0, 1], found[1, 0], atol=1e-3)


def test_batches_have_no_part_in_them_and_begin_with_the_longest():
    model, told = lively_model(), []
    alone = scores(model, batch_tokens=1, after_batch=lambda: told.append(1))
    assert len(told) == len(SOURCES)
    for batch_tokens in (60, 10**6):
        assert scores(model, batch_tokens=batch_tokens) == pytest.approx(alone, abs=1e-5)
    assert log_probabilities(side(model), [], [], VOCABULARY, 100).shape == (0,)


def test_logits_in_pieces_change_nothing(monkeypatch):
    model = lively_model()
    whole = scores(model)
    monkeypatch.setattr("pretrain.translation.dual_scores._LOGITS", 3 * model.vocab_size)
    assert scores(model) == pytest.approx(whole, rel=1e-6)


# --- the score of both ---

LIKELIHOOD = st.floats(-20, 0)


def test_the_dual_score_is_that_of_the_paper():
    # H_A = 1, H_B = 2: |1 - 2| + (1 + 2) / 2 = 2.5
    assert dual_score(-1.0, -2.0) == pytest.approx(0.0820849986)
    assert dual_score(-1.5, -1.5) == pytest.approx(0.2231301601)
    assert dual_score(0.0, 0.0) == 1.0


@given(LIKELIHOOD, LIKELIHOOD, st.floats(0.01, 5))
def test_the_dual_score_falls_with_either_cross_entropy_and_with_their_distance(one, other, more):
    found = dual_score(one, other)
    assert 0 < found <= 1 and found == dual_score(other, one)
    low, high = sorted((one, other))
    assert dual_score(low - more, high) < found and dual_score(one - more, other - more) < found
    assert found <= math.exp((one + other) / 2)


# --- what is written of translations ---


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    tokenizer = load_tokenizer(write_model(tmp_path_factory.mktemp("model")))
    size = tokenizer.get_vocab_size()
    sides = side(lively_model(size)), Side(lively_model(size, seed=3), 12)
    return DualScorer(*sides, tokenizer, Vocabulary.of(tokenizer), 100)


def test_each_translation_has_both_scores_or_none_and_is_counted(scorer):
    def ids(text):
        return scorer.tokenizer.encode(text, add_special_tokens=False).ids

    texts = {"bala dorio": ["gana", "hulek fim"], "gana": ["", "bala"], "": ["gana"], "dorio " * 20: ["bala"]}
    lines = [{"translations": [{"text": text, "score": -1.0} for text in found]} for found in texts.values()]
    counts, told = Counter(), []
    scorer.add_scores(lines, [ids(text) for text in texts], counts, lambda: told.append(1))
    assert counts == {"unscored": 3} and len(told) >= 2
    for (source, outputs), line in zip(texts.items(), lines, strict=True):
        for text, output in zip(outputs, line["translations"], strict=True):
            assert list(output) == ["text", "score", "reverse_score", "forward_score", "dual_score"]
            if not source or not text or len(ids(source)) > 10:
                assert [*output.values()][2:] == [None] * 3
                continue
            for name, of, read, written in (
                ("reverse_score", scorer.reverse, source, text),
                ("forward_score", scorer.forward, text, source),
            ):
                (expected,) = log_probabilities(of, [ids(read)], [ids(written)], scorer.vocabulary, 100)
                assert output[name] == pytest.approx(expected, rel=1e-6)  # written with six digits after the point
            expected = dual_score(output["reverse_score"], output["forward_score"])
            assert output["dual_score"] == pytest.approx(expected, rel=1e-5)


def test_a_pair_that_just_fits_into_the_positions_of_both_models_is_scored(scorer):
    word = next(token for token, number in scorer.tokenizer.get_vocab().items() if number > 4 and token.isalpha())
    number = scorer.tokenizer.token_to_id(word)
    for size, unscored in ((10, 0), (11, 1)):
        line = {"translations": [{"text": " ".join([word] * size), "score": 0.0}]}
        assert len(scorer.tokenizer.encode(line["translations"][0]["text"], add_special_tokens=False).ids) == size
        counts = Counter()
        scorer.add_scores([line], [[number]], counts, lambda: None)
        assert counts["unscored"] == unscored


def test_a_word_that_noise_blanked_out_is_scored_as_the_mask_token(scorer):
    def ids(text):
        return scorer.tokenizer.encode(text, add_special_tokens=False).ids

    output = {"text": "bala [MASK] dorio", "score": -1.0, "blanks": [[5, 11]]}
    spelled = {"text": "bala [MASK] dorio", "score": -1.0}
    scorer.add_scores([{"translations": [output, spelled]}], [ids("gana")], Counter(), lambda: None)
    blanked = [*ids("bala "), scorer.vocabulary.blank_id, *ids(" dorio")]
    (expected,) = log_probabilities(scorer.reverse, [ids("gana")], [blanked], scorer.vocabulary, 100)
    assert output["reverse_score"] == pytest.approx(expected, abs=2e-6)
    assert spelled["reverse_score"] != pytest.approx(expected, abs=1e-3)
