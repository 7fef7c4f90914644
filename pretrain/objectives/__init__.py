"""What a run learns: an objective turns rows into batches (pure functions) and a batch into losses.

Each objective is a class that a yaml names with `_target_`; `Objective` is all that the trainer knows of it.
"""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from pretrain.data.batching import ModelBatch
from pretrain.data.counter import UInt64Array
from pretrain.data.pair_batches import PairReading


@dataclass(frozen=True)
class DataFacts:
    """What an objective must know of the shards: the size of the vocabulary, its special ids, places in a row (of
    pairs: the longest side), and whether rows know their language.

    `direction` are the numbers of the source's and the target's language in the model, where pairs say theirs.
    """

    vocab_size: int
    special_ids: dict[str, int]
    row_length: int
    languages: bool = False
    direction: tuple[int, int] | None = None


B = TypeVar("B", bound=ModelBatch)


@dataclass(frozen=True)
class MicroBatch(Generic[B]):
    """One micro-batch of one rank, with its exact counts (known on the host, before any device work).

    `counts` has the sum of the weights of each loss by its name, `tokens` the number of tokens of the rows in use
    that are not padding.
    """

    batch: B
    counts: dict[str, float]
    tokens: int


class Objective(Protocol[B]):
    """Built by Hydra as a partial of its options; called once with the `DataFacts` of the run. `B` is its batch type.

    `loss_names` has a fixed order, the first is the main loss. `columns` are the columns of the shards that its rows
    must have beside the tokens (see `pipeline.shards`). With `needs_partners`, `make_batch` is to be given another
    row for each row.
    """

    loss_names: tuple[str, ...]
    columns: tuple[str, ...]
    needs_partners: bool

    @classmethod
    def reading(cls, **options: Any) -> PairReading | None:
        """Say, of the options that it is going to be built with, how it reads pairs; None if it reads packed rows."""

    def build_model(self, architecture: Any, vocab_size: int) -> nn.Module:
        """Return the model to train, initialised from torch's global generator."""

    def make_batch(
        self,
        rows: Any,
        row_keys: UInt64Array,
        used: NDArray[np.bool_],
        *,
        training: bool,
        partners: Any = None,
    ) -> MicroBatch[B]:
        """Make a batch of R rows (`pipeline.shards.Rows`, or `pair_batches.PairsOfRows`).

        A pure function of its arguments, which stay as they are.

        `row_keys` [R] hold all the randomness of each row: the same key makes the same of a row, in any batch. Rows
        that are not `used` [R] get no weight. `partners` are R further rows, one for each row. `training` chooses
        between options for training and those for evaluation.
        """

    def loss(self, model: nn.Module, batch: B) -> dict[str, Tensor]:
        """Return the weighted SUM of each loss over a batch, fp32 scalars under all of `loss_names`, in that order."""


class ReadsRows:
    """An objective on packed rows of tokens."""

    @classmethod
    def reading(cls, **options: Any) -> PairReading | None:
        """See `Objective`."""
        return None
