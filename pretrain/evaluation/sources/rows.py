"""One row of a data set with the place it came from, and typed access to its fields. Must not import torch.

Every way in which a row can be unusable is an InputError that names the file and the line.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from conf.errors import InputError

Split = Literal["train", "dev", "test"]
# How sets write "not given": an empty cell, the hub's -1 for labels and scores.
HIDDEN = ("", "-1", "-1.0", "None")


@dataclass(frozen=True)
class Row:
    """The fields of a row; `where` reads `'FILE', line N`, `number` counts the rows of its file from 0."""

    values: Mapping[str, Any]
    where: str
    number: int
    split: Split

    def error(self, sentence: str) -> InputError:
        """The error `'FILE', line N, <sentence>`."""
        return InputError(f"{self.where}, {sentence}")

    def value(self, field: str) -> Any:
        """A field as it was read.

        Raises:
            InputError: the row has no such field.
        """
        if field not in self.values:
            raise self.error(f"lacks the field '{field}'; it has {', '.join(map(repr, self.values)) or 'none'}")
        return self.values[field]

    def text(self, field: str) -> str:
        """A field that must be a text. It may be empty: published sets hold empty questions."""
        value = self.value(field)
        if not isinstance(value, str):
            raise self.error(f"field '{field}', must be a text, but is {value!r}")
        return value

    def texts(self, field: str) -> list[str]:
        """A field that must be a list of texts."""
        value = self.value(field)
        if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(x, str) for x in value):
            raise self.error(f"field '{field}', must be a list of texts, but is {value!r}")
        return list(value)

    def name(self, field: str) -> str:
        """A field that is a text or a whole number, as a text: for ids and groups."""
        value = self.value(field)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise self.error(f"field '{field}', must be a name or a number, but is {value!r}")
        return str(value)

    def whole(self, field: str) -> int:
        """A field that must be a whole number, not below 0."""
        value = self.value(field)
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.error(f"field '{field}', must be a whole number from 0, but is {value!r}")
        return value

    def number_within(self, field: str, lowest: float, highest: float) -> float | None:
        """A score; None where the split's scores are hidden.

        Raises:
            InputError: no number, one outside the bounds, or none at all in a split that has scores.
        """
        value = self.values.get(field)
        if value is None or str(value) in HIDDEN:
            self._refuse_unless_hidden(field)
            return None
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not lowest <= number <= highest:  # also refuses what is not a number
            raise self.error(f"field '{field}', must be a number from {lowest:g} to {highest:g}, but is {value!r}")
        return number

    def label(
        self, field: str, names: Sequence[str], spelled: Mapping[str, str] | None = None, none: Sequence[str] = ()
    ) -> int | None:
        """The number of the label whose NAME the field holds; None where the split's labels are hidden.

        Args:
            field: the column of the label.
            names: the task's labels by number.
            spelled: how a set writes its labels (`{"0": "not_entailment"}`); without an entry a label is its name.
            none: spellings of "the annotators agreed on no label".

        Raises:
            InputError: another label, or none in a split that has labels.
        """
        value = self.values.get(field)
        if value is None or str(value) in HIDDEN:
            self._refuse_unless_hidden(field)
            return None
        spelling = str(value).strip()
        if spelling in none:
            return None
        name = (spelled or {}).get(spelling, spelling)
        if name not in names:
            known = [*(spelled or {}), *(name for name in names if name not in (spelled or {}).values())]
            raise self.error(f"field '{field}', must be one of {', '.join(known)}, but is {spelling!r}")
        return list(names).index(name)

    def _refuse_unless_hidden(self, field: str) -> None:
        """A test split's label may be hidden; elsewhere a row without one is damaged."""
        if self.split != "test":
            raise self.error(
                f"field '{field}', must hold the label, but is missing or empty: a {self.split} row needs one"
            )
