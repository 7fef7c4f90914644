"""Dropout, from torch's global generator. Imports torch and nothing else.

On a CPU torch draws one number of its generator for each element, which at attention's sizes costs more than the
attention; here each 64-bit draw serves four elements (a 1 x 4 x 4 x 512 x 512 tensor: 26 ms by torch, 11 ms here).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_LEVELS = 2**16  # a quarter of a 64-bit draw
_LEAST = -(2**15)


def dropout(x: Tensor, probability: float, training: bool = True) -> Tensor:
    """Set each element to 0 with `probability` and divide the others by what is kept (Srivastava et al. 2014).

    The identity if not `training` or `probability` is 0. The same seed of torch's global generator gives the same
    result. On a CPU `probability` is rounded to a multiple of 2^-16, and the others are divided by exactly what that
    keeps, so that the mean stays right; on other devices and under torch.compile this is torch's own dropout.
    """
    if not training or probability == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, probability)
    dropped = min(round(probability * _LEVELS), _LEVELS - 1)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = draws.view(torch.int16)[: x.numel()].view(x.shape) >= _LEAST + dropped
    return x * kept.to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped))
