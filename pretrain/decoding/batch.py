"""The batch of sentences that a search works on, as it shrinks, and how it begins. No search is known here."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pretrain.decoding.constraints import Bounds
from pretrain.decoding.incremental import IncrementalDecoder
from pretrain.decoding.vocabulary import Vocabulary

# A batch that loses a sentence is copied: that is put off until so many of the others pay for it.
WORTH_LEAVING = 8


@dataclass
class SearchBatch:
    """N sentences with their decoder, their bounds, and ids by which randomness is keyed, [N] each."""

    decoder: IncrementalDecoder
    bounds: Bounds
    ids: Sequence[Hashable]
    vocabulary: Vocabulary

    def __len__(self) -> int:
        return len(self.ids)

    def begin(self) -> Tensor:
        """Give the decoder [CLS] and the prefix -> fp32 logits [N, 1, vocab_size] of the first token."""
        logits = None
        for token in (self.bounds.cls_id, *self.bounds.prefix):
            logits = self.decoder.step(torch.full((len(self), 1), token, device=self.bounds.maximum.device))
        assert logits is not None
        return logits


def leaving(over: Tensor) -> Tensor | None:
    """bool [N], which sentences are finished -> int64 [N'], the others, if it is time to go on without the finished.

    Empty when all are finished; None as long as too few are for the copy to pay.
    """
    finished = int(over.sum())
    if finished == 0 or (finished < len(over) and finished * WORTH_LEAVING < len(over)):
        return None
    return (~over).nonzero().flatten()
