"""How every objective on pairs asks an encoder-decoder for the states that predict its targets.

Knows no objective; must not import deepspeed.
"""

from typing import Any, cast

from torch import Tensor, nn

from conf.errors import InputError
from pretrain.data.batching import PairBatch
from pretrain.models.config import EncoderDecoderConfig
from pretrain.models.encoder_decoder import EncoderDecoder
from pretrain.models.language_model import make_encoder_decoder


def pair_states(model: nn.Module, batch: PairBatch) -> Tensor:
    """Return the decoder's states [C, hidden] at the target slots of a batch."""
    return cast(EncoderDecoder, model).target_states(
        batch.source, batch.target, batch.target_positions, hidden_keys=batch.hidden_keys
    )


def require_decoder(architecture: Any, vocab_size: int, objective: str) -> nn.Module:
    """Return the model of `architecture`. Raises InputError for one without a decoder, which `objective` needs."""
    if not isinstance(architecture, EncoderDecoderConfig):
        raise InputError(
            f"objective={objective} needs a model with a decoder, but the model is an encoder: choose a model such as "
            "model=mass_base, or objective=masked_lm."
        )
    return make_encoder_decoder(architecture, vocab_size)
