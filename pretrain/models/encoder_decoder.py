"""What every encoder-decoder offers, whatever its layers are: from packed pairs to states at targets and to logits.

An architecture says how it encodes and decodes (`seq2seq.py`, `conv_seq2seq.py`). No loss is known here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from pretrain.models.attention import AttentionLayout
from pretrain.models.config import EncoderDecoderConfig


class EncoderDecoder(nn.Module, ABC):
    """Encoder and decoder over flat tokens with a layout each: sequence i of the one reads sequence i of the other.

    Positions are given with the tokens, so a decoder's tokens may keep the positions they have elsewhere (MASS predicts
    a fragment at its original ones) and leave out the tokens between.
    """

    config: EncoderDecoderConfig
    vocab_size: int

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        layout: AttentionLayout,
        decoder_input_ids: Tensor,
        decoder_position_ids: Tensor,
        decoder_layout: AttentionLayout,
        target_positions: Tensor,
        *,
        language_ids: Tensor | None = None,
        decoder_language_ids: Tensor | None = None,
        hidden_keys: Tensor | None = None,
    ) -> Tensor:
        """As `target_states`, and the output layer on it: logits [C, vocab_size] at the target positions."""
        states = self.target_states(
            input_ids,
            position_ids,
            layout,
            decoder_input_ids,
            decoder_position_ids,
            decoder_layout,
            target_positions,
            language_ids=language_ids,
            decoder_language_ids=decoder_language_ids,
            hidden_keys=hidden_keys,
        )
        return self.logits(states)

    def target_states(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        layout: AttentionLayout,
        decoder_input_ids: Tensor,
        decoder_position_ids: Tensor,
        decoder_layout: AttentionLayout,
        target_positions: Tensor,
        *,
        language_ids: Tensor | None = None,
        decoder_language_ids: Tensor | None = None,
        hidden_keys: Tensor | None = None,
    ) -> Tensor:
        """The decoder's final states at `target_positions`, int64 [C]: [C, size], for `logits` or a loss in pieces.

        The encoder's tokens, positions and languages are int64 [T], the decoder's int64 [D]. Sequence i of
        `decoder_layout` reads sequence i of `layout`; it may be empty. `hidden_keys` bool [T]: True for an encoder
        token that the decoder does not see. Ids of languages are needed where the model has languages, and not used
        elsewhere.
        """
        memory = self.encode(input_ids, position_ids, layout, language_ids)
        return self.decode(
            decoder_input_ids,
            decoder_position_ids,
            decoder_layout,
            memory,
            layout,
            language_ids=decoder_language_ids,
            hidden_keys=hidden_keys,
            output_positions=target_positions,
        )

    @abstractmethod
    def encode(
        self, input_ids: Tensor, position_ids: Tensor, layout: AttentionLayout, language_ids: Tensor | None = None
    ) -> Any:
        """int64 [T] each -> what `decode` reads of the encoder's side, in the architecture's own form.

        Raises InputError if a sequence may be longer than max_positions, or without ids of languages that are needed.
        """

    @abstractmethod
    def decode(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        layout: AttentionLayout,
        memory: Any,
        memory_layout: AttentionLayout,
        *,
        language_ids: Tensor | None = None,
        hidden_keys: Tensor | None = None,
        output_positions: Tensor | None = None,
    ) -> Tensor:
        """The decoder's int64 [D] each and what `encode` gave -> states [D, size].

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
