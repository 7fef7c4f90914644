"""What a search asks of a model: one more token for each of some hypotheses of some sentences, at each call.

Protocols only: a model's own file implements them. Imports torch and nothing of this project.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor


class IncrementalDecoder(Protocol):
    """N sentences x K hypotheses, one token more at each call. All N sentences are at the same number of tokens.

    It begins with K = 1 and no token. What belongs to a sentence exists once a sentence, not once a hypothesis.
    """

    def step(self, tokens: Tensor) -> Tensor:
        """int64 [N, K], the next input of each hypothesis -> fp32 logits [N, K, vocab_size] of what follows it."""

    def select(self, sentences: Tensor, hypotheses: Tensor) -> None:
        """Keep the sentences at int64 [N'], in this order, and of them the hypotheses at int64 [N', K'].

        New hypothesis j of kept sentence i continues its former hypothesis `hypotheses[i, j]`.
        """


@runtime_checkable
class DecodesIncrementally(Protocol):
    """What every model with an encoder and a decoder has."""

    def incremental_decoder(
        self,
        source_ids: Tensor,
        source_lengths: Tensor,
        *,
        source_language: int | None = None,
        target_language: int | None = None,
    ) -> IncrementalDecoder:
        """Run the encoder on int64 [N, S] of which the first int64 [N] >= 1 places are the sentences.

        Whatever pads them changes nothing. Ids of languages are for a model with languages.
        """
