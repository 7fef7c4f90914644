"""What bounds an output, whatever the search: its first tokens, how long it is, which tokens it may not have.

Options are checked here and made into tensors for one batch. No search and no model is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conf.errors import InputError
from pretrain.decoding.vocabulary import Vocabulary


@dataclass(frozen=True)
class Hypothesis:
    """One output: `tokens` follow [CLS] and the forced prefix, [SEP] is left out.

    `score` is the sum of their natural log probabilities and [SEP]'s, divided by (their number, [SEP] counted) to the
    power of `length_penalty`. `ended` is False for one that was cut at its maximum length.
    """

    tokens: list[int]
    score: float
    ended: bool = True


@dataclass(frozen=True)
class Bounds:
    """The bounds of one batch of N sentences.

    `prefix` are the ids after [CLS] that every output begins with. `minimum` int64 [N]: so many tokens must come before
    [SEP]; `maximum` int64 [N] >= 1: so many there are at most, [SEP] counted; neither counts the prefix. `forbidden`
    int64 [F] are ids that no output has. `sep_id` ends an output, `cls_id` is the first input.
    """

    prefix: list[int]
    minimum: Tensor
    maximum: Tensor
    forbidden: Tensor
    cls_id: int
    sep_id: int

    def keep(self, sentences: Tensor) -> Bounds:
        """The bounds of the sentences at int64 [N']."""
        return Bounds(
            self.prefix, self.minimum[sentences], self.maximum[sentences], self.forbidden, self.cls_id, self.sep_id
        )

    def forbid(self, log_probabilities: Tensor, length: int) -> None:
        """Give what may not follow `length` tokens (prefix not counted) no chance, in place; [N, K, vocab_size]."""
        if len(self.forbidden):
            log_probabilities.index_fill_(2, self.forbidden, -torch.inf)
        early = self.minimum > length
        if bool(early.any()):
            log_probabilities[..., self.sep_id].masked_fill_(early[:, None], -torch.inf)


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """Options that every search has. Lengths are a + b * (tokens of the source), rounded down; a target's prefix and a
    source's [CLS] and [SEP] are not counted.

    Attributes:
        prefix: tokens by name that every output begins with, such as a language's tag; they are given to the model,
            are no part of the output and no part of its score.
        forbid: tokens that no output has, by name or, special ones, by role (pad, unk, cls, mask). Beam and
            greedy search do not spread their probability over the others.
        minimum_length, minimum_ratio: a and b of how many tokens must come before [SEP].
        maximum_length, maximum_ratio: a and b of how many tokens there are at most, [SEP] counted; never more than the
            model has positions for. An output that reaches it without [SEP] is cut there and says so.
    """

    prefix: Sequence[str] = ()
    forbid: Sequence[str] = ()
    minimum_length: int = 0
    minimum_ratio: float = 0.0
    maximum_length: int = 20
    maximum_ratio: float = 2.0

    def __post_init__(self) -> None:
        """Raise InputError for a value out of its range."""
        for name in ("minimum_length", "minimum_ratio", "maximum_length", "maximum_ratio"):
            if getattr(self, name) < 0:
                raise InputError(f"decoding.{name} must be 0 or more, but is {getattr(self, name)}")
        if self.maximum_length + self.maximum_ratio == 0:
            raise InputError(
                "decoding.maximum_length and decoding.maximum_ratio must leave room for a token, but both are 0"
            )

    def bounds(
        self, source_lengths: Tensor, max_positions: int, vocabulary: Vocabulary, device: torch.device
    ) -> Bounds:
        """The bounds for sources of int64 [N] tokens (without [CLS] and [SEP]), on `device`.

        Raises InputError for a token that is none, a forbidden [SEP], and a prefix that leaves the model no position.
        """
        prefix = vocabulary.ids(self.prefix, "decoding.prefix")
        forbidden = vocabulary.ids(self.forbid, "decoding.forbid")
        if vocabulary.sep_id in forbidden:
            raise InputError("decoding.forbid must leave the token that ends an output ([SEP]), but names it")
        # The last token of an output is no input, so there is room for one more than the positions left.
        room = max_positions - len(prefix)
        if room < 1:
            raise InputError(
                f"decoding.prefix has {len(prefix)} tokens, but the model has {max_positions} positions; shorten it"
            )
        lengths = source_lengths.double()
        maximum = (self.maximum_length + self.maximum_ratio * lengths).floor().clamp(1, room).long()
        minimum = (self.minimum_length + self.minimum_ratio * lengths).floor().long()
        return Bounds(
            prefix,
            minimum.to(device),
            maximum.to(device),
            torch.tensor(forbidden, dtype=torch.long, device=device),
            vocabulary.cls_id,
            vocabulary.sep_id,
        )
