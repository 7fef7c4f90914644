"""The largest of many numbers, faster than torch's topk and argmax on a CPU. Imports torch only."""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK = 64


def largest(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """topk(count) of each row of [R, V], several times as fast for a small `count`.

    The `count` largest numbers lie in the `count` blocks with the largest maxima, and to find a block's maximum is one
    vectorised pass, where topk goes number by number.
    """
    size = rows.shape[1]
    blocks, tail = divmod(size, _BLOCK)
    if blocks < 2 * count:
        values, places = rows.topk(count, dim=1)
        return values, places
    whole = rows[:, : size - tail].unflatten(1, (blocks, _BLOCK))
    chosen = whole.amax(2).topk(count, dim=1, sorted=False).indices
    inside = whole.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    if tail:
        inside = torch.cat([inside, rows[:, size - tail :]], 1)
    values, places = inside.topk(count, dim=1)
    block = places // _BLOCK
    start = chosen.gather(1, block.clamp(max=count - 1)) * _BLOCK
    in_tail = block >= count
    tokens = torch.where(in_tail, places - count * _BLOCK + size - tail, start + places % _BLOCK)
    return values, tokens
