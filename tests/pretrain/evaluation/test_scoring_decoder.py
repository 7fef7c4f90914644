"""Likelihoods under encoder-decoders: against transformers' BART, whatever the batches."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from conf.errors import InputError
from pipeline.tokenizer import special_ids
from pretrain.evaluation import scoring_decoder
from pretrain.evaluation.scoring_decoder import DecoderScoring, decoder_sums, decoder_view
from pretrain.evaluation.scoring_texts import Passage, TokenizedText, tokenize_passages
from pretrain.models.config import Seq2SeqConfig
from pretrain.models.conv_config import ConvSeq2SeqConfig
from pretrain.models.conv_seq2seq import ConvSeq2SeqModel
from pretrain.models.seq2seq import Seq2SeqModel

TEXT = TokenizedText("t", (2, 10, 11, 12, 13, 3), (None, 0, 1, 2, 3, None), (2, 4), (2, 4))
WHOLE = TokenizedText("t", (2, 10, 11, 3), (None, 0, 1, None), (1, 3), (1, 3))


@pytest.fixture(scope="module")
def oracle(pairs_checkpoint):
    return AutoModelForSeq2SeqLM.from_pretrained(pairs_checkpoint).eval()


@pytest.fixture(scope="module")
def mask_id(tokenizer):
    return special_ids(tokenizer)["mask"]


def spans(tokenizer, texts):
    """Texts with a part in the middle, at the beginning, at the end, and the whole."""
    passages = []
    for number, text in enumerate(texts):
        scored = [(4, len(text) - 5), (0, 6), (5, len(text)), (0, len(text))][number % 4]
        passages.append(Passage(text, scored, scored))
    return tokenize_passages(tokenizer, passages)


@torch.inference_mode()
def bart_score(oracle, text, mask_id, cross_attention_to_masks=True, removed=False, decoder_input="previous"):
    """One text at a time by BART's own loss. The decoder's tokens before the part are there, for the positions, but
    its attention mask hides them."""
    first, last = text.scored
    hole = [] if removed else [mask_id] * (last - first)
    source = torch.tensor([[*text.ids[:first], *hole, *text.ids[last:]]])
    given = torch.tensor([text.ids[: last - 1]])
    if decoder_input == "mask":
        given[0, first - 1] = mask_id
    labels = torch.tensor([[-100] * (first - 1) + list(text.ids[first:last])])
    seen = (torch.arange(last - 1) >= first - 1).long()[None]
    encoded = oracle.get_encoder()(input_ids=source)
    visible = torch.ones_like(source) if cross_attention_to_masks else (source != mask_id).long()
    loss = oracle(
        encoder_outputs=encoded,
        attention_mask=visible,
        decoder_input_ids=given,
        decoder_attention_mask=seen,
        labels=labels,
    ).loss
    return -float(loss) * (last - first)


@pytest.mark.parametrize(
    "options",
    [{}, {"decoder_input": "mask"}, {"cross_attention_to_masks": False}, {"source": "removed"}],
    ids=lambda options: "-".join(map(str, options)) or "mass",
)
def test_equals_the_loss_of_transformers_bart(options, oracle, pairs_model, tokenizer, texts, mask_id):
    tokenized = spans(tokenizer, texts[::16])
    assert len(tokenized) >= 40
    found = decoder_sums(pairs_model, tokenized, mask_id, DecoderScoring(**options), tokens_per_batch=300)
    theirs = {"removed" if key == "source" else key: value == "removed" or value for key, value in options.items()}
    expected = [bart_score(oracle, text, mask_id, **theirs) for text in tokenized]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_what_the_two_sides_read_by_hand():
    assert decoder_view(TEXT, 4, DecoderScoring()) == ((2, 10, 4, 4, 13, 3), (10, 11), 1)
    assert decoder_view(TEXT, 4, DecoderScoring(decoder_input="mask")) == ((2, 10, 4, 4, 13, 3), (4, 11), 1)
    assert decoder_view(TEXT, 4, DecoderScoring(source="removed")) == ((2, 10, 13, 3), (10, 11), 1)
    assert decoder_view(WHOLE, 4, DecoderScoring()) == ((2, 4, 4, 3), (2, 10), 0)
    assert decoder_view(WHOLE, 4, DecoderScoring(source="removed")) == ((2, 3), (2, 10), 0)


def test_does_not_depend_on_batch_size_order_or_the_other_texts(monkeypatch, pairs_model, tokenizer, texts, mask_id):
    tokenized = spans(tokenizer, texts[::8])
    together = decoder_sums(pairs_model, tokenized, mask_id, DecoderScoring())
    small = decoder_sums(pairs_model, tokenized, mask_id, DecoderScoring(), tokens_per_batch=1)
    np.testing.assert_allclose(together, small, rtol=1e-5, atol=1e-5)
    backwards = decoder_sums(pairs_model, tokenized[::-1], mask_id, DecoderScoring(), tokens_per_batch=77)
    np.testing.assert_allclose(together, backwards[::-1], rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(scoring_decoder, "SOURCE_TOKENS", 50)
    pieces = decoder_sums(pairs_model, tokenized, mask_id, DecoderScoring())
    np.testing.assert_allclose(together, pieces, rtol=1e-5, atol=1e-5)


def test_identical_sources_are_encoded_once_and_identical_inputs_decoded_once(monkeypatch, pairs_model, mask_id):
    ends = [TokenizedText("t", (2, 10, 11, 12, end, 3), (), (3, 5), (3, 5)) for end in (13, 14, 15)]
    others = [TokenizedText("t", (2, 10, 11, first, 13, 3), (), (3, 5), (3, 5)) for first in (20, 21)]
    encoded, decoded = [], []
    encode, decode = pairs_model.encode, pairs_model.decode

    def counted_encode(source):
        encoded.append(len(source.input_ids))
        return encode(source)

    def counted_decode(target, *rest, **more):
        decoded.append(len(target.input_ids))
        return decode(target, *rest, **more)

    monkeypatch.setattr(pairs_model, "encode", counted_encode)
    monkeypatch.setattr(pairs_model, "decode", counted_decode)
    sums = decoder_sums(pairs_model, [*ends, *others], mask_id, DecoderScoring())
    assert sum(encoded) == 6  # one source for all five
    assert sum(decoded) == 3 * 2  # the three ends share an input
    assert len(set(sums.tolist())) == 5


def test_a_convolutional_model_gives_what_it_gives_one_text_at_a_time(tokenizer, texts, mask_id):
    torch.manual_seed(0)
    config = ConvSeq2SeqConfig(
        embedding_size=16, encoder_layers=[[1, 16, 3]], decoder_layers=[[1, 16, 3]], output_size=16, max_positions=64
    )
    model = ConvSeq2SeqModel(config, tokenizer.get_vocab_size()).eval()
    tokenized = spans(tokenizer, texts[::40])
    together = decoder_sums(model, tokenized, mask_id, DecoderScoring())
    alone = [decoder_sums(model, [text], mask_id, DecoderScoring(), tokens_per_batch=1)[0] for text in tokenized]
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


def test_languages_are_read_and_must_be_known(tokenizer, mask_id):
    torch.manual_seed(0)
    config = Seq2SeqConfig(16, 1, 1, 2, 16, max_positions=64, languages=("en", "de"), initializer_range=0.3)
    model = Seq2SeqModel(config, tokenizer.get_vocab_size()).train()
    english, german = (decoder_sums(model, [TEXT], mask_id, DecoderScoring(language=name)) for name in ("en", "de"))
    assert english != german and model.training
    with pytest.raises(InputError, match=r"language must be one of the model's languages \(en, de\), but is not given"):
        decoder_sums(model, [TEXT], mask_id, DecoderScoring())
