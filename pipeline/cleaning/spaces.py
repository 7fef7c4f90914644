"""White space within a sentence, which tells nothing there. Must import nothing of the project."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Spaces:
    """Rewrites a text: white space of all kinds, line ends too, becomes one space, and none at both ends."""

    def __call__(self, text: str) -> str:
        """The text on one line."""
        return " ".join(text.split())
