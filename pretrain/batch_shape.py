"""What of a run's batches decides how many FLOPs a token costs: for the MFU, and for the dry run's figures.

Must not import deepspeed or the trainer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError
from pretrain.data.batching import PairBatch
from pretrain.estimates import (
    conv_seq2seq_forward_flops_per_token,
    forward_flops_per_token,
    seq2seq_forward_flops_per_token,
    training_flops,
)
from pretrain.models.attention import AttentionLayout
from pretrain.models.config import EncoderDecoderConfig, ModelConfig, Seq2SeqConfig
from pretrain.objectives import MicroBatch


@dataclass(frozen=True)
class BatchShape:
    """What of a batch decides its FLOPs: the lengths of its sequences, and per token the targets of the main loss and
    of the others (of sentence pairs). `decoder_lengths` are those of an encoder-decoder's targets, of the same pairs;
    tokens are then those of the encoder's side."""

    sequence_lengths: list[int]
    target_share: float
    sentence_share: float
    decoder_lengths: list[int] | None = None

    def forward_flops_per_token(self, config: ModelConfig, vocab_size: int) -> dict[str, float]:
        """Return the FLOPs of the forward pass for each real token, by part of the model.

        Raises InputError if the batches are not of the model's kind.
        """
        paired = self.decoder_lengths is not None
        if isinstance(config, EncoderDecoderConfig) != paired:
            kind = "an encoder" if paired else "an encoder-decoder"
            raise InputError(
                f"the objective makes batches {'with' if paired else 'without'} a decoder's side, but the model is "
                f"{kind}; choose a model and an objective that go together"
            )
        if isinstance(config, EncoderDecoderConfig):
            sides = {"sequence_lengths": self.sequence_lengths, "decoder_lengths": self.decoder_lengths or []}
            if isinstance(config, Seq2SeqConfig):
                return seq2seq_forward_flops_per_token(config, vocab_size, **sides, target_share=self.target_share)
            return conv_seq2seq_forward_flops_per_token(config, vocab_size, **sides, target_share=self.target_share)
        return forward_flops_per_token(
            config,
            vocab_size,
            sequence_lengths=self.sequence_lengths,
            target_share=self.target_share,
            sentence_share=self.sentence_share,
        )

    def flops_per_token(self, config: ModelConfig, vocab_size: int) -> float:
        """Return the FLOPs of forward and backward pass for each real token: what an MFU is counted with."""
        return training_flops(self.forward_flops_per_token(config, vocab_size))


def batch_shape(micro_batches: Sequence[MicroBatch[Any]], loss_names: Sequence[str]) -> BatchShape:
    """Return the shape of a sample of batches (one step of one rank is enough)."""
    batches = [micro_batch.batch for micro_batch in micro_batches]
    lengths = _lengths([batch.layout for batch in batches])
    decoders = [batch.target.layout for batch in batches if isinstance(batch, PairBatch)]
    inside = lengths > 0
    tokens = max(1, sum(micro_batch.tokens for micro_batch in micro_batches))
    counts = {name: sum(micro_batch.counts[name] for micro_batch in micro_batches) for name in loss_names}
    main, *others = loss_names
    return BatchShape(
        lengths[inside].tolist(),
        min(1.0, counts[main] / tokens),
        min(1.0, sum(counts[name] for name in others) / tokens),
        _lengths(decoders)[inside].tolist() if decoders else None,
    )


def _lengths(layouts: Sequence[AttentionLayout]) -> NDArray[np.int32]:
    return np.concatenate([np.diff(layout.cu_seqlens.numpy()) for layout in layouts])
