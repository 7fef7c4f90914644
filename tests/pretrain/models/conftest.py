"""Shared by the model tests: small configurations of both forms, with weights that are not at their quiet start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from pretrain.models.config import EncoderConfig, Seq2SeqConfig
from pretrain.models.conv_config import ConvSeq2SeqConfig
from pretrain.models.conv_seq2seq import ConvSeq2SeqModel, vocabulary_shapes
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.seq2seq import Seq2SeqModel

torch.set_num_threads(1)

MODERN = EncoderConfig(
    hidden_size=32, num_layers=3, num_heads=4, intermediate_size=40, max_positions=48, rope_base=1234.0
)
BERT = replace(
    MODERN, norm="post", positions="learned", activation="gelu", biases=True, token_types=2, layer_norm_eps=1e-12
)
FORMS = {
    "bert": BERT,
    "bert_without_token_types": replace(BERT, token_types=0),
    "modern": MODERN,
    "modern_with_biases": replace(MODERN, biases=True),
    "modern_local": replace(MODERN, local_window=2, global_every=3, local_rope_base=77.0),
    "modern_local_one_base": replace(MODERN, local_window=1, global_every=2),
}
BART = Seq2SeqConfig(
    hidden_size=32, num_encoder_layers=3, num_decoder_layers=2, num_heads=4, intermediate_size=40, max_positions=48
)
SEQ2SEQ_FORMS = {
    "bart": BART,
    "mbart": replace(BART, norm="pre", num_decoder_layers=3),
    "bart_sinusoidal": replace(BART, positions="sinusoidal", scale_embeddings=True),
    "mbart_languages": replace(BART, norm="pre", languages=("en", "fr", "de")),
}
CONV = ConvSeq2SeqConfig(
    embedding_size=16,
    output_size=12,
    encoder_layers=[[2, 16, 3], [1, 24, 2]],
    decoder_layers=[[1, 16, 3], [1, 8, 1], [1, 8, 4]],
    max_positions=48,
)
CONV_FORMS = {
    "separate": CONV,
    "shared": replace(CONV, share_embeddings=True, output_size=16, encoder_layers=[[1, 8, 5]]),
    "languages": replace(CONV, languages=("en", "fr", "de")),
}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{n}" for n in range(70))]
VOCAB_SIZE = len(WORDS)
AnyModel = TypeVar("AnyModel", MaskedLanguageModel, Seq2SeqModel)


def _changed(model: AnyModel) -> AnyModel:
    """The model with every weight, norms and biases too, of its own: then each matters to the logits."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0).add_(torch.randn_like(parameter) * 0.05)
        model.encoder.embeddings.token.weight[model.vocab_size :] = 0.0
        model.head.bias[model.vocab_size :] = 0.0
    return model


def make_model(
    config: EncoderConfig, vocab_size: int = VOCAB_SIZE, seed: int = 0, sentence_head: bool = False
) -> MaskedLanguageModel:
    """A model whose every weight, norms and biases too, matters to its logits."""
    torch.manual_seed(seed)
    model = MaskedLanguageModel(config, vocab_size, sentence_head).eval()
    return _changed(model)


def make_seq2seq(config: Seq2SeqConfig, vocab_size: int = VOCAB_SIZE, seed: int = 0) -> Seq2SeqModel:
    """An encoder-decoder whose every weight matters to its logits."""
    torch.manual_seed(seed)
    model = Seq2SeqModel(config, vocab_size).eval()
    return _changed(model)


def make_conv(config: ConvSeq2SeqConfig, vocab_size: int = VOCAB_SIZE, seed: int = 0) -> ConvSeq2SeqModel:
    """A convolutional encoder-decoder whose every weight matters to its logits."""
    torch.manual_seed(seed)
    model = ConvSeq2SeqModel(config, vocab_size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        for name in vocabulary_shapes(config, 1):
            model.get_parameter(name)[vocab_size:] = 0.0
    return model


@pytest.fixture
def forms() -> dict[str, EncoderConfig]:
    """Small configurations of every form that can be exported, by name."""
    return FORMS


@pytest.fixture
def build() -> Callable[..., MaskedLanguageModel]:
    """`make_model`."""
    return make_model


@pytest.fixture(params=FORMS)
def model(request: pytest.FixtureRequest) -> MaskedLanguageModel:
    """One model of each form."""
    return make_model(FORMS[request.param])


@pytest.fixture
def tokenizer_folder(tmp_path: Path) -> Path:
    """A folder with a word-level tokenizer.json that adds no special tokens by itself."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(WORDS[:5])
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
