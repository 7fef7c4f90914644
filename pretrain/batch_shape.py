"""What of a run's batches decides how many FLOPs a token costs: for the MFU, and for the dry run's figures.

Must not import deepspeed or the trainer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pretrain.estimates import training_flops_per_token
from pretrain.models.config import EncoderConfig
from pretrain.objectives import MicroBatch


@dataclass(frozen=True)
class BatchShape:
    """What of a batch decides its FLOPs: the lengths of its sequences, and per token the targets of the main loss and
    of the others (of sentence pairs)."""

    sequence_lengths: list[int]
    target_share: float
    sentence_share: float

    def flops_per_token(self, config: EncoderConfig, vocab_size: int) -> float:
        """Return the FLOPs of forward and backward pass for each real token: what an MFU is counted with."""
        return training_flops_per_token(config, vocab_size, **self.arguments())

    def arguments(self) -> dict[str, Any]:
        """Return it as the arguments of `estimates.forward_flops_per_token`."""
        return {
            "sequence_lengths": self.sequence_lengths,
            "target_share": self.target_share,
            "sentence_share": self.sentence_share,
        }


def batch_shape(micro_batches: Sequence[MicroBatch], loss_names: Sequence[str]) -> BatchShape:
    """Return the shape of a sample of batches (one step of one rank is enough)."""
    lengths = np.concatenate([np.diff(micro_batch.batch.layout.cu_seqlens.numpy()) for micro_batch in micro_batches])
    tokens = max(1, sum(micro_batch.tokens for micro_batch in micro_batches))
    counts = {name: sum(micro_batch.counts[name] for micro_batch in micro_batches) for name in loss_names}
    main, *others = loss_names
    return BatchShape(
        lengths[lengths > 0].tolist(),
        min(1.0, counts[main] / tokens),
        min(1.0, sum(counts[name] for name in others) / tokens),
    )
