"""What a checkpoint says of its languages: what it was trained on, and in which directions it learned to translate.

Pure: no file and no model is known here. Must not import torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conf.errors import InputError


@dataclass(frozen=True)
class TrainedLanguages:
    """The languages by name, and (source, target) of each direction that pairs were read in; empty: not known."""

    names: tuple[str, ...] = ()
    directions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, known: Sequence[str], directions: Sequence[tuple[str, str]]) -> TrainedLanguages:
        """The languages that a model or its data name, and those of the pairs, each once and in order."""
        names = dict.fromkeys([*known, *(name for direction in directions for name in direction)])
        return cls(tuple(names), tuple(dict.fromkeys(directions)))

    @classmethod
    def from_record(cls, record: dict[str, Any] | None) -> TrainedLanguages:
        """What `record` made; nothing is known of a checkpoint without one."""
        if record is None:
            return cls()
        return cls(tuple(record["names"]), tuple((source, target) for source, target in record["directions"]))

    def record(self) -> dict[str, Any]:
        """Both as JSON holds them."""
        return {"names": list(self.names), "directions": [list(direction) for direction in self.directions]}

    def __str__(self) -> str:
        """In words, such as "trained to translate de into en"; empty where nothing is known."""
        if self.directions:
            return "trained to translate " + " and ".join(
                f"{source} into {target}" for source, target in self.directions
            )
        return f"trained on {', '.join(self.names)}" if self.names else ""

    def require(self, source: str | None, target: str | None, where: str, options: str) -> None:
        """Raise InputError if a model, `where`, is to translate the other way round than it learned to.

        Of names that are not given or not the checkpoint's nothing is said. `options` is what the user mends.
        """
        if source is None or target is None or (source, target) in self.directions:
            return
        if (target, source) in self.directions:
            raise InputError(
                f"'{where}' was {self}, but is asked to translate {source} into {target}: exchange {options}, or give "
                "the model of that direction"
            )
