"""Cleaning steps one after another: the target of the Hydra group `cleaning`.

Must import nothing of the project but `conf.errors`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from conf.errors import InputError


@dataclass(frozen=True, slots=True)
class Dropped:
    """A document that is not used, and the code under which that is counted, such as "too_short"."""

    reason: str


EMPTY = Dropped("empty")

Step = Callable[[str], str | Dropped]


def clean(text: str, steps: Iterable[Step]) -> str | Dropped:
    """A text after all steps in order, or the first reason to drop it.

    A text with nothing but white space in the end is dropped as "empty", whatever the steps.
    """
    for step in steps:
        result = step(text)
        if isinstance(result, Dropped):
            return result
        text = result
    return text if text and not text.isspace() else EMPTY


class Cleaning:
    """Steps by name, run in the order they are given, as one step.

    The names let single options be overridden (`cleaning.length.minimum=100`), and null in the place of a step leaves
    it out (`cleaning.repetition=null`).
    """

    def __init__(self, **steps: Step | None) -> None:
        self.steps: dict[str, Step] = {name: step for name, step in steps.items() if step is not None}
        for name, step in self.steps.items():
            if not callable(step):
                raise InputError(f"option 'cleaning.{name}' must be a step (a node with _target_), but is {step!r}")

    def __call__(self, text: str) -> str | Dropped:
        """The cleaned text, or why it is dropped."""
        return clean(text, self.steps.values())

    def __repr__(self) -> str:
        """All steps and their options: two cleanings that print the same do the same."""
        return f"Cleaning({', '.join(f'{name}={step!r}' for name, step in self.steps.items())})"
