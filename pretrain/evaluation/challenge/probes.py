"""Builds the cases of a check list from templates (Ribeiro et al. 2020): seeded and pure. Must not import torch.

A pattern is a text with slots as in `templates` (`{kind.form}`, `{kind2.form}` for a second, different word); a pair of
texts is one pattern with ` | ` between them. A template is the patterns of one case, filled with the same words: what
is judged by itself (minimum functionality), the same thing said with other words (invariance), or an original first
and what should move the answer after it (directional expectation).
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from conf.errors import InputError
from pretrain.evaluation.challenge.builder import fillings
from pretrain.evaluation.challenge.templates import SLOT, Grammar, Template, Word

CheckType = Literal["MFT", "INV", "DIR"]
Direction = Literal["up", "down"]
SECOND = " | "


@dataclass(frozen=True)
class Probe:
    """One test of a check list.

    `accepted` names the labels that are right (MFT), or whose probability moves in `direction` (DIR). `change` makes
    the second text of a case out of the first, whose pattern then stands alone.
    """

    name: str
    capability: str
    type: CheckType
    templates: tuple[tuple[str, ...], ...]
    accepted: tuple[str, ...] = ()
    direction: Direction | None = None
    change: Callable[[str, random.Random], str] | None = None


@dataclass(frozen=True)
class CheckCase:
    """A case: texts (or pairs) that are judged together. `template` is what cases of a test have in common."""

    id: str
    probe: Probe
    template: str
    texts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Probes:
    """The tests for heads of one kind. `version` changes with words or templates."""

    version: int
    words: Mapping[str, tuple[Word, ...]]
    tests: tuple[Probe, ...]


def build_cases(probes: Probes, cases_per_test: int, seed: int) -> list[CheckCase]:
    """At least `cases_per_test` cases of every test, spread evenly over its templates; no filling twice.

    Raises:
        InputError: a count below 1, or more cases asked for than the words allow.
    """
    if cases_per_test < 1:
        raise InputError(f"'cases_per_test' must be at least 1, but is {cases_per_test}")
    grammar = Grammar("check list", probes.version, probes.words, ())
    return [case for probe in probes.tests for case in _cases_of(grammar, probe, cases_per_test, seed)]


def _cases_of(grammar: Grammar, probe: Probe, count: int, seed: int) -> Iterator[CheckCase]:
    each = math.ceil(count / len(probe.templates))
    for number, patterns in enumerate(probe.templates):
        template = f"{probe.name}/{number}"
        drawn = fillings(grammar, Template(probe.name, str(number), patterns), each, seed)
        for index, words in enumerate(drawn):
            texts = [fill_plain(pattern, words) for pattern in patterns]
            name = f"{template}/{index:03d}"
            if probe.change is not None:
                texts.append(probe.change(texts[0], random.Random(f"{seed}/{name}")))
            yield CheckCase(name, probe, template, tuple(tuple(text.split(SECOND)) for text in texts))


def fill_plain(pattern: str, words: Mapping[str, Word]) -> str:
    """A pattern with its slots filled, beginning with a capital.

    Raises:
        KeyError: a slot without a word, or a form that the word does not have.
    """
    filled = SLOT.sub(lambda slot: words[slot[1] + slot[2]][slot[3] or ""], pattern)
    return SECOND.join(text[:1].upper() + text[1:] for text in filled.split(SECOND))


def plain(words: str) -> tuple[Word, ...]:
    """Words without forms, separated by commas, with their article under `a`: `{"": "good", "a": "a good"}`."""
    found = [word.strip() for word in words.split(",")]
    return tuple({"": word, "a": f"{'an' if word[0] in 'aeiouAEIOU' else 'a'} {word}"} for word in found)


def typo(text: str, generator: random.Random) -> str:
    """Two neighbouring letters inside one word (of a pair, of its first text) change places; no first or last letter.

    A word whose inner letters are all equal cannot show the change and is not taken; a text without any such word stays
    as it is.
    """
    first, separator, second = text.partition(SECOND)
    places = [at for at in range(1, len(first) - 2) if first[at - 1 : at + 3].isalpha() and first[at] != first[at + 1]]
    if places:
        at = generator.choice(places)
        first = first[:at] + first[at + 1] + first[at] + first[at + 2 :]
    return first + separator + second


def without_full_stop(text: str, generator: random.Random) -> str:
    """The text without its last sign, or, as often, with the sign twice."""
    return text.rstrip(".!?") if generator.random() < 0.5 else text + text[-1]


def contracted(text: str, generator: random.Random) -> str:
    """`is not` and `was not` become `isn't` and `wasn't`, `it is` becomes `it's`."""
    del generator
    for whole, short in ((" is not ", " isn't "), (" was not ", " wasn't "), (" did not ", " didn't ")):
        text = text.replace(whole, short)
    return text


def changed_places(text: str, generator: random.Random) -> str:
    """The two texts of a pair in the other order."""
    del generator
    first, _, second = text.partition(SECOND)
    return f"{second}{SECOND}{first}"


def templates(*patterns: str | Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Templates of one pattern each, or of several."""
    return tuple((pattern,) if isinstance(pattern, str) else tuple(pattern) for pattern in patterns)
