"""What a model adds to or turns by a token's position, where it is not learned: tables made from the configuration.

Imports torch and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn


class _Tables(nn.Module):
    """fp32 tables with a row for each position: no part of a checkpoint, and kept in fp32 whatever the model's type."""

    def __init__(self, *tables: Tensor) -> None:
        super().__init__()
        # Plain attributes, not buffers: `model.to(bfloat16)` must not round a table before it is indexed.
        self._tables = tables

    def rows(self, position_ids: Tensor) -> list[Tensor]:
        """int64 [T] -> the rows of each table, [T, width] in fp32."""
        if self._tables[0].device != position_ids.device:
            self._tables = tuple(table.to(position_ids.device) for table in self._tables)
        return [table[position_ids] for table in self._tables]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the tables along with the model, so that compiled code need not do it; their dtype stays."""
        device = fn(torch.empty(0)).device
        if device.type != "meta":
            self._tables = tuple(table.to(device) for table in self._tables)
        return super()._apply(fn, recurse)


def _angles(size: int, max_positions: int, base: float) -> Tensor:
    """[max_positions, size / 2]: position * base^(-2j / size)."""
    # On the CPU by name, so that a model made on the meta device has its table all the same. Rounded as in
    # transformers: at position 8,000 another order of the same operations moves the angle by 3e-4.
    exponent = torch.arange(0, size, 2, dtype=torch.float32, device="cpu") / size
    frequency = 1.0 / torch.pow(base, exponent)
    return torch.arange(max_positions, dtype=torch.float32, device="cpu")[:, None] * frequency


# cos and sin of one batch, made once for all layers that share a base.
RotaryAngles = tuple[Tensor, Tensor]


class RotaryPositions(_Tables):
    """cos and sin of the rotary embedding (Su et al. 2021), in the half-split order that Hugging Face models use.

    Frequency j of head_dim / 2 turns by position * base^(-2j / head_dim).
    """

    def __init__(self, head_dim: int, max_positions: int, base: float) -> None:
        angles = _angles(head_dim, max_positions, base)
        super().__init__(angles.cos(), angles.sin())

    def forward(self, position_ids: Tensor, dtype: torch.dtype) -> RotaryAngles:
        """int64 [T] -> cos, sin, each [T, 1, 1, head_dim / 2] in `dtype`."""
        cos, sin = self.rows(position_ids)
        return cos.to(dtype)[:, None, None, :], sin.to(dtype)[:, None, None, :]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[j], x[j + head_dim / 2]) by its angle; x is [T, 2, heads, head_dim] (queries and keys)."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class SinusoidalPositions(_Tables):
    """The fixed position embedding of Vaswani et al. 2017, section 3.5; `hidden_size` must be even.

    Dimension 2j of position p is sin(p / 10000^(2j / hidden_size)), dimension 2j + 1 the cosine of it.
    """

    def __init__(self, hidden_size: int, max_positions: int) -> None:
        angles = _angles(hidden_size, max_positions, 10000.0)
        super().__init__(torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1))

    def forward(self, position_ids: Tensor) -> Tensor:
        """int64 [T] -> [T, hidden] in fp32."""
        return self.rows(position_ids)[0]
