"""An encoder-decoder with random weights whose outputs differ from source to source and end at many lengths."""

import random
from dataclasses import replace

import torch

from pretrain.decoding.vocabulary import Vocabulary
from pretrain.models.config import Seq2SeqConfig
from pretrain.models.seq2seq import Seq2SeqModel

VOCABULARY = Vocabulary({"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4})
CONFIG = Seq2SeqConfig(
    hidden_size=32, num_encoder_layers=2, num_decoder_layers=2, num_heads=4, intermediate_size=40, max_positions=48
)


def lively_model(vocab_size: int = 75, seed: int = 0, end: float = 2.5, **changes: object) -> Seq2SeqModel:
    """Cross-attention and positions say more than the tokens do, which the tied output matrix would else repeat.

    `end` is added to the logit of [SEP]; `changes` are fields of the configuration.
    """
    torch.manual_seed(seed)
    config = replace(CONFIG, **changes)
    model = Seq2SeqModel(config, vocab_size).eval()
    size = config.hidden_size
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0).add_(torch.randn_like(parameter) * 0.05)
        model.encoder.embeddings.token.weight[:vocab_size] = torch.randn(vocab_size, size) * 0.5
        for layer in model.decoder.layers:
            layer.cross.query.weight.copy_(torch.randn(size, size))
            layer.cross.key_value.weight.copy_(torch.randn(2 * size, size) * 0.7)
            layer.cross.output.weight.copy_(torch.randn(size, size) * 0.5)
        for side in (model.encoder, model.decoder):
            if config.positions == "learned":
                side.embeddings.position.weight.copy_(torch.randn(config.max_positions, size))
        model.encoder.embeddings.token.weight[vocab_size:] = 0.0
        model.head.bias[3] += end
    return model


def random_sources(count: int, longest: int = 20, vocab_size: int = 75, seed: int = 1) -> list[list[int]]:
    """[CLS], 1 to `longest` ordinary tokens, [SEP]."""
    generator = random.Random(seed)
    return [
        [2, *(generator.randrange(5, vocab_size) for _ in range(generator.randint(1, longest))), 3]
        for _ in range(count)
    ]
