"""What every encoder-decoder offers, whatever its layers are: from packed pairs to states at targets and to logits.

An architecture says how it encodes and decodes (`seq2seq.py`, `conv_seq2seq.py`). No loss is known here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from pretrain.models.attention import AttentionLayout
from pretrain.models.config import EncoderDecoderConfig
from pretrain.models.tokens import Tokens


class EncoderDecoder(nn.Module, ABC):
    """Encoder and decoder over flat tokens with a layout each: sequence i of the one reads sequence i of the other.

    Positions are given with the tokens, so a decoder's tokens may keep the positions they have elsewhere (MASS predicts
    a fragment at its original ones) and leave out the tokens between.
    """

    config: EncoderDecoderConfig
    vocab_size: int

    def forward(
        self, source: Tokens, target: Tokens, target_positions: Tensor, *, hidden_keys: Tensor | None = None
    ) -> Tensor:
        """As `target_states`, and the output layer on it: logits [C, vocab_size] at the target positions."""
        return self.logits(self.target_states(source, target, target_positions, hidden_keys=hidden_keys))

    def target_states(
        self, source: Tokens, target: Tokens, target_positions: Tensor, *, hidden_keys: Tensor | None = None
    ) -> Tensor:
        """The decoder's final states at `target_positions`, int64 [C]: [C, size], for `logits` or a loss in pieces.

        The encoder reads the T tokens of `source`, the decoder the D of `target`, whose sequence i reads sequence i of
        `source`; it may be empty. `hidden_keys` bool [T]: True for an encoder token that the decoder does not see.
        """
        memory = self.encode(source)
        return self.decode(target, memory, source.layout, hidden_keys=hidden_keys, output_positions=target_positions)

    @abstractmethod
    def encode(self, source: Tokens) -> Any:
        """T tokens -> what `decode` reads of the encoder's side, in the architecture's own form.

        Raises InputError if a sequence may be longer than max_positions, or without ids of languages that are needed.
        """

    @abstractmethod
    def decode(
        self,
        target: Tokens,
        memory: Any,
        memory_layout: AttentionLayout,
        *,
        hidden_keys: Tensor | None = None,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        """The decoder's D tokens and what `encode` gave of tokens with `memory_layout` -> states [D, size].

        With `output_positions` int64 [C] only these, [C, size]. `hidden_keys` bool [T] as in `target_states`. Raises
        InputError as `encode` does.
        """

    @abstractmethod
    def logits(self, states: Tensor) -> Tensor:
        """[C, size] -> [C, vocab_size]; the rows that pad the vocabulary are cut off."""

    @abstractmethod
    def output_matrix(self) -> Tensor:
        """The matrix [padded vocabulary, size] that `logits` multiplies with; its bias is `head.bias`."""

    @abstractmethod
    def num_parameters(self) -> int:
        """Trained numbers, without the rows that pad the vocabulary and counting a shared matrix once."""
