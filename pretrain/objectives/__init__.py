"""What a run learns: an objective turns rows into batches (pure functions) and a batch into a loss.

Each objective is a class that a yaml names with `_target_`; `Objective` is all that the trainer knows of it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pipeline.shards import Rows
from pretrain.data.batching import Batch


@dataclass(frozen=True)
class DataFacts:
    """What an objective must know of the shards: ids, sizes, and the hash that its random choices are keyed by."""

    vocab_size: int
    special_ids: dict[str, int]
    row_length: int
    content_hash: str
    seed: int


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch of one rank, with its exact counts (known on the host, before any device work).

    `targets` is the sum of the target weights, `tokens` the number of tokens that are not padding.
    """

    batch: Batch
    targets: float
    tokens: int


class Objective(Protocol):
    """Built by Hydra as a partial of its options; called once with the `DataFacts` of the run."""

    def build_model(self, architecture: object, vocab_size: int) -> nn.Module:
        """Return the model to train, initialised from torch's global generator."""

    def training_batch(self, rows: Rows, row_numbers: NDArray[np.int64], visits: NDArray[np.int64]) -> MicroBatch:
        """Make a batch of R rows; a pure function of its arguments."""

    def validation_batch(self, rows: Rows, row_numbers: NDArray[np.int64], used: int) -> MicroBatch:
        """Make a batch that is the same at every evaluation; only the first `used` rows carry weight."""

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the weighted SUM of the losses of a batch, a scalar in fp32."""
