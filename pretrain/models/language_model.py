"""All kinds of language models, where code serves every kind: one name for them, and how one is made."""

from __future__ import annotations

from pretrain.models.config import ModelConfig, Seq2SeqConfig
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.seq2seq import Seq2SeqModel

LanguageModel = MaskedLanguageModel | Seq2SeqModel


def make_model(config: ModelConfig, vocab_size: int, sentence_head: bool = False) -> LanguageModel:
    """The model that `config` describes, initialised from torch's global generator.

    `sentence_head` is that of `MaskedLanguageModel`. Raises InputError as the models do.
    """
    if isinstance(config, Seq2SeqConfig):
        return Seq2SeqModel(config, vocab_size)
    return MaskedLanguageModel(config, vocab_size, sentence_head)
