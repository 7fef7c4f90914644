"""One side of a batch of pairs: flat tokens with all that a model needs to know of them. No model is known here."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
from torch import Tensor

from pretrain.models.attention import AttentionLayout

_Parts = TypeVar("_Parts")


@dataclass(frozen=True, eq=False)
class Tokens:
    """T flat tokens: `input_ids`, `position_ids` int64 [T], where their sequences begin, and their languages.

    Positions are given, so that tokens may keep the ones they have elsewhere. `language_ids` int64 [T] are needed where
    the model has languages, and not used elsewhere.
    """

    input_ids: Tensor
    position_ids: Tensor
    layout: AttentionLayout
    language_ids: Tensor | None = None

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Tokens:
        """The same tokens on another device."""
        return moved(self, device, non_blocking)


def moved(whole: _Parts, device: torch.device | str, non_blocking: bool) -> _Parts:
    """The same dataclass with every part on `device`; a part that is None stays so."""

    def on_device(part: Any) -> Any:
        return None if part is None else part.to(device, non_blocking=non_blocking)

    parts = {item.name: on_device(getattr(whole, item.name)) for item in fields(whole)}  # type: ignore[arg-type]
    return type(whole)(**parts)
