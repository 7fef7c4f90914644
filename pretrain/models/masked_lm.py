"""An encoder with its masked-LM head: the model that is pretrained. The loss belongs to `pretrain/objectives`."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from pretrain.models.attention import AttentionLayout
from pretrain.models.encoder import Encoder, EncoderConfig
from pretrain.models.heads import MaskedLanguageHead


class MaskedLanguageModel(nn.Module):
    """Logits over the vocabulary at chosen positions only; the output matrix is the input embedding.

    Initial weights come from torch's global generator: the same seed before it gives the same model.
    """

    def __init__(self, config: EncoderConfig, vocab_size: int) -> None:
        super().__init__()
        self.config, self.vocab_size = config, vocab_size
        self.encoder = Encoder(config, vocab_size)
        self.head = MaskedLanguageHead(config, self.encoder.embeddings.token.num_embeddings)

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

    def logits(self, states: Tensor) -> Tensor:
        """[C, hidden] from `target_states` -> [C, vocab_size]; the rows that pad the vocabulary are cut off."""
        logits = F.linear(states, self.encoder.embeddings.token.weight, self.head.bias)
        return logits[:, : self.vocab_size] if logits.shape[1] != self.vocab_size else logits

    def num_parameters(self) -> int:
        """Trained numbers, without the rows that pad the vocabulary and counting the tied matrix once."""
        head = sum(parameter.numel() for parameter in self.head.parameters())
        padding = self.head.bias.numel() - self.vocab_size
        return self.encoder.num_parameters() + head - padding
