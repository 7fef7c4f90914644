"""How every objective on pairs asks an encoder-decoder for the states that predict its targets.

Knows no objective; must not import deepspeed.
"""

from typing import cast

from torch import Tensor, nn

from pretrain.data.batching import PairBatch
from pretrain.models.seq2seq import Seq2SeqModel


def pair_states(model: nn.Module, batch: PairBatch) -> Tensor:
    """Return the decoder's states [C, hidden] at the target slots of a batch."""
    return cast(Seq2SeqModel, model).target_states(
        batch.input_ids,
        batch.position_ids,
        batch.layout,
        batch.decoder_input_ids,
        batch.decoder_position_ids,
        batch.decoder_layout,
        batch.target_positions,
        language_ids=batch.language_ids,
        decoder_language_ids=batch.decoder_language_ids,
        hidden_keys=batch.hidden_keys,
    )
