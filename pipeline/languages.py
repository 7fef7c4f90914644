"""Which of two languages a sentence is in, by py3langid's n-gram model, which ships with that package.

Asked to choose between two languages only, it errs on sentences far less than where it must find one of many. Must
import nothing of the project.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Fewer sentences that can be told tell nothing of a corpus.
MINIMUM_VOTES = 10


def code_of(language: str) -> str:
    """The ISO 639 code of a name such as "de", "de-AT" or "zh_CN"."""
    return language.replace("_", "-").partition("-")[0].lower()


class Telling:
    """Tells two languages apart. Make it with `telling`, which knows whether it can."""

    def __init__(self, identifier: Any, source: str, target: str) -> None:
        self._identifier, self._source, self._target = identifier, code_of(source), code_of(target)

    def is_other(self, source: str, target: str, confidence: float) -> bool:
        """Whether a side is in the other side's language, with a probability (of the two) above `confidence`."""
        for text, own in ((source, self._source), (target, self._target)):
            found, probability = self._identifier.classify(text)
            if found != own and probability > confidence:
                return True
        return False

    def votes(self, pairs: Iterable[tuple[str, str]]) -> Votes:
        """How many of some pairs stand in the right order, and how many in the other."""
        right = swapped = 0
        for source, target in pairs:
            found = self._identifier.classify(source)[0], self._identifier.classify(target)[0]
            right += found == (self._source, self._target)
            swapped += found == (self._target, self._source)
        return Votes(right, swapped)


@dataclass(frozen=True)
class Votes:
    """Pairs in the right order and in the other; those whose sides seem to be in one language are in neither."""

    right: int
    swapped: int

    @property
    def are_swapped(self) -> bool:
        """Whether most pairs stand in the other order."""
        return self.swapped > self.right and self.right + self.swapped >= MINIMUM_VOTES


@functools.lru_cache(maxsize=4)
def telling(source: str, target: str) -> Telling | None:
    """What tells two languages apart; None where they are one, or where the model does not know both."""
    codes = {code_of(source), code_of(target)}
    if len(codes) < 2:
        return None
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    if not codes <= set(identifier.labels):
        return None
    identifier.set_languages(sorted(codes))
    return Telling(identifier, source, target)
