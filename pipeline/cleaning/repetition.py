"""Texts that say one thing over and over: generated tables, lists, logs.

Must import nothing of the project but `conf.errors`.
"""

from collections import Counter
from dataclasses import dataclass

from conf.errors import InputError
from pipeline.cleaning.chain import Dropped

REPETITIVE = Dropped("repetitive")


@dataclass(frozen=True)
class Repetition:
    """Drops a text as "repetitive" when too much of it is lines that it has already said.

    Attributes:
        maximum_share: of the characters (in non-blank lines, without their indentation) that lie in a line which an
            earlier line of the text equals. The rule of the Gopher corpus (Rae et al. 2021, table A1: characters in
            duplicate lines at most 0.2) with a wider bound, for documentation repeats its parameter lines.
        minimum_lines: a text with fewer non-blank lines is kept.
    """

    maximum_share: float = 0.5
    minimum_lines: int = 20

    def __post_init__(self) -> None:
        if not 0.0 <= self.maximum_share <= 1.0:
            raise InputError(
                f"option 'maximum_share' of a repetition step must be from 0 to 1, but is {self.maximum_share}"
            )

    def __call__(self, text: str) -> str | Dropped:
        """The text as it is, or why it is dropped."""
        lines = [stripped for line in text.split("\n") if (stripped := line.strip())]
        if len(lines) < self.minimum_lines:
            return text
        repeated = sum((count - 1) * len(line) for line, count in Counter(lines).items() if count > 1)
        return REPETITIVE if repeated > self.maximum_share * sum(map(len, lines)) else text
