"""Initial weights as published; a pure function of torch's global generator.

BERT (its released code): every matrix from a normal of deviation 0.02 cut at two deviations, biases 0, norms 1.
ModernBERT (Warner et al. 2024, "full megatron" as their Hugging Face class keeps it): the same, but the projections
that write into the residual stream, and the head's, have their deviation divided by sqrt(2 x layers), which is the
number of these projections. Encoder-decoders follow the same two rules (BART's deviation is 0.02 as well), each side
with its own number: a decoder's layer has three such projections.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pretrain.models.config import TransformerConfig
from pretrain.models.layers import CrossAttention, Mlp, SelfAttention


def truncated_normal_(weight: Tensor, deviation: float, generator: torch.Generator | None = None) -> None:
    """Fill in place from N(0, deviation^2) cut at +-2 deviations, from torch's global generator if none is given."""
    nn.init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation, generator=generator)


@torch.no_grad()
def initialize(module: nn.Module, config: TransformerConfig) -> None:
    """Initialise all weights below `module` (one stack of layers) in place, in the order of its modules."""
    deviation = config.initializer_range
    residual_writers = {
        id(part.output) for part in module.modules() if isinstance(part, SelfAttention | CrossAttention | Mlp)
    }
    scaled = residual_deviation(config, len(residual_writers))
    for child in module.modules():
        if isinstance(child, nn.Linear):
            truncated_normal_(child.weight, scaled if id(child) in residual_writers else deviation)
            if child.bias is not None:
                child.bias.zero_()
        elif isinstance(child, nn.Embedding):
            truncated_normal_(child.weight, deviation)
        elif isinstance(child, nn.LayerNorm):
            child.weight.fill_(1.0)
            if child.bias is not None:
                child.bias.zero_()


def residual_deviation(config: TransformerConfig, writers: int) -> float:
    """The deviation of weights that write into the residual stream of this form, one of `writers` that do."""
    if config.norm == "post":
        return config.initializer_range
    return config.initializer_range / math.sqrt(writers)
