"""An encoder with its masked-LM head: the model that is pretrained. The losses belong to `pretrain/objectives`."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conf.errors import InputError
from pretrain.models.attention import AttentionLayout
from pretrain.models.encoder import Encoder, EncoderConfig
from pretrain.models.heads import MaskedLanguageHead, SentenceHead


class MaskedLanguageModel(nn.Module):
    """Logits over the vocabulary at chosen positions only; the output matrix is the input embedding.

    `sentence_head` adds two logits on each sequence's pooled first token, for next-sentence prediction or sentence
    order; it needs `config.pooler`. Without it no loss reaches the pooler, so the pooler is left out, and `config`
    says so. Initial weights come from torch's global generator: the same seed before it gives the same model.
    Raises InputError for a sentence head without a pooler.
    """

    def __init__(self, config: EncoderConfig, vocab_size: int, sentence_head: bool = False) -> None:
        super().__init__()
        if sentence_head and not config.pooler:
            raise InputError("a sentence loss (next sentence, sentence order) needs model.pooler=true, but it is false")
        self.config, self.vocab_size = replace(config, pooler=sentence_head), vocab_size
        self.encoder = Encoder(self.config, vocab_size)
        self.head = MaskedLanguageHead(self.config, self.encoder.embeddings.token.num_embeddings)
        self.sentence_head = SentenceHead(self.config) if sentence_head else None

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        layout: AttentionLayout,
        target_positions: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """int64 [T] each, and int64 `target_positions` [C] -> logits [C, vocab_size] at these positions."""
        states = self.target_states(input_ids, position_ids, layout, target_positions, token_type_ids)
        return self.logits(states)

    def target_states(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        layout: AttentionLayout,
        target_positions: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """As `forward`, up to the head's LayerNorm: [C, hidden]. For losses that make the logits in pieces."""
        hidden = self.encoder(input_ids, position_ids, layout, token_type_ids, output_positions=target_positions)
        return self.head(hidden)

    def forward_with_sentences(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        layout: AttentionLayout,
        target_positions: Tensor,
        token_type_ids: Tensor | None,
        sentence_positions: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """int64 [T] each, `target_positions` [C] and the first tokens' `sentence_positions` [P], in one pass.

        Returns the states of `target_states` [C, hidden] and the sentence logits [P, 2]; in a BERT checkpoint the
        first means "the second part follows the first" (Devlin et al. 2019). Raises InputError without that head.
        """
        if self.sentence_head is None:
            raise InputError("this model was made without a sentence head; make it with sentence_head=True")
        positions = torch.cat([target_positions, sentence_positions])
        hidden = self.encoder(input_ids, position_ids, layout, token_type_ids, output_positions=positions)
        targets, first = hidden.split([len(target_positions), len(sentence_positions)])
        return self.head(targets), self.sentence_head(self.encoder.pool(first))

    def logits(self, states: Tensor) -> Tensor:
        """[C, hidden] from `target_states` -> [C, vocab_size]; the rows that pad the vocabulary are cut off."""
        logits = F.linear(states, self.encoder.embeddings.token.weight, self.head.bias)
        return logits[:, : self.vocab_size] if logits.shape[1] != self.vocab_size else logits

    def num_parameters(self) -> int:
        """Trained numbers, without the rows that pad the vocabulary and counting the tied matrix once."""
        heads = (self.head, self.sentence_head)
        count = sum(parameter.numel() for head in heads if head is not None for parameter in head.parameters())
        padding = self.head.bias.numel() - self.vocab_size
        return self.encoder.num_parameters() + count - padding
