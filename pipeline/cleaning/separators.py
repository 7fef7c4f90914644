"""Lines that only draw: rules of ===== and -----, table borders. Must import nothing of the project."""

import re
from dataclasses import dataclass

from conf.errors import InputError

_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class Separators:
    """Removes lines that are made of punctuation and white space only, `minimum` signs or more; drops no text.

    Headings keep their words and lose the rule below them; blank lines that come together where a line went become one,
    and go at both ends of the text. A `...` or a closing bracket is shorter, and stays.
    """

    minimum: int = 4

    def __post_init__(self) -> None:
        if self.minimum < 1:
            raise InputError(f"option 'minimum' of a separators step must be at least 1, but is {self.minimum}")
        # A line without letters or digits, whose signs number `minimum` or more; the text around keeps its line ends.
        pattern = rf"^[ \t]*(?:[^\w\s][ \t]*){{{self.minimum},}}$\n?"
        object.__setattr__(self, "_line", re.compile(pattern, re.MULTILINE))

    def __call__(self, text: str) -> str:
        """The text without its separator lines."""
        line: re.Pattern[str] = self.__dict__["_line"]
        kept = line.sub("", text)
        return text if kept == text else _BLANK_LINES.sub("\n\n", kept).strip("\n")
