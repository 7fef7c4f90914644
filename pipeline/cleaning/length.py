"""Texts too short to teach anything, or too long for a worker. Must import nothing of the project but `conf.errors`."""

from dataclasses import dataclass

from conf.errors import InputError
from pipeline.cleaning.chain import Dropped

TOO_SHORT = Dropped("too_short")
TOO_LONG = Dropped("too_long")


@dataclass(frozen=True)
class Length:
    """Drops a text by its number of characters.

    Attributes:
        minimum: a shorter one is dropped as "too_short"; nothing but white space counts as empty, not as short.
        maximum: a longer one is dropped as "too_long"; null for no bound.
    """

    minimum: int = 1
    maximum: int | None = None

    def __post_init__(self) -> None:
        if self.minimum < 0 or (self.maximum is not None and self.maximum < self.minimum):
            raise InputError(
                "options 'minimum' and 'maximum' of a length step must be 0 <= minimum <= maximum, but are "
                f"{self.minimum} and {self.maximum}"
            )

    def __call__(self, text: str) -> str | Dropped:
        """The text as it is, or why it is dropped."""
        if len(text) < self.minimum and not text.isspace() and text:
            return TOO_SHORT
        if self.maximum is not None and len(text) > self.maximum:
            return TOO_LONG
        return text
