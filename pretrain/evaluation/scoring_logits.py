"""Log-probabilities of chosen tokens from a model's last states. Knows no task and no text."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pretrain.models.language_model import LanguageModel

# Numbers, 2 MiB in fp32: a larger matrix of logits leaves the caches between its product and its sum.
LOGITS_AT_ONCE = 1 << 19


def chosen_log_probabilities(
    model: LanguageModel, states: Tensor, rows: NDArray[np.int64], tokens: NDArray[np.int64]
) -> NDArray[np.float64]:
    """log p of chosen tokens, computed in fp32.

    Args:
        model: whose `logits` is the output layer.
        states: [C, hidden], what it reads.
        rows: int64 [Q], which state each token is predicted from; must not decrease.
        tokens: int64 [Q].
    """
    size = max(1, LOGITS_AT_ONCE // model.vocab_size)
    found = []
    for start in range(0, len(states), size):
        # One fused pass over the logits: half the time of torch.logsumexp, which makes several.
        log_probabilities = torch.log_softmax(model.logits(states[start : start + size]).float(), dim=-1)
        first, last = np.searchsorted(rows, (start, start + len(log_probabilities)))
        row = torch.from_numpy(rows[first:last] - start).to(states.device)
        found.append(log_probabilities[row, torch.from_numpy(tokens[first:last]).to(states.device)])
    return torch.cat(found).double().cpu().numpy() if found else np.zeros(0)
