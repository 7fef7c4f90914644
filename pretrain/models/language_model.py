"""All kinds of language models, where code serves every kind: one name for them, and how one is made."""

from __future__ import annotations

from pretrain.models.config import ConvSeq2SeqConfig, EncoderDecoderConfig, ModelConfig
from pretrain.models.conv_seq2seq import ConvSeq2SeqModel
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.seq2seq import Seq2SeqModel

EncoderDecoderModel = Seq2SeqModel | ConvSeq2SeqModel
LanguageModel = MaskedLanguageModel | Seq2SeqModel | ConvSeq2SeqModel


def make_model(config: ModelConfig, vocab_size: int, sentence_head: bool = False) -> LanguageModel:
    """The model that `config` describes, initialised from torch's global generator.

    `sentence_head` is that of `MaskedLanguageModel`. Raises InputError as the models do.
    """
    if isinstance(config, EncoderDecoderConfig):
        return make_encoder_decoder(config, vocab_size)
    return MaskedLanguageModel(config, vocab_size, sentence_head)


def make_encoder_decoder(config: EncoderDecoderConfig, vocab_size: int) -> EncoderDecoderModel:
    """`make_model` for a configuration of an encoder with a decoder."""
    if isinstance(config, ConvSeq2SeqConfig):
        return ConvSeq2SeqModel(config, vocab_size)
    return Seq2SeqModel(config, vocab_size)
