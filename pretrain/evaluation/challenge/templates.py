"""The small language that templates of minimal pairs are written in. Must not import torch or know any language.

A pattern is a sentence with slots and exactly one contrast:

    "The {person.one} near the {thing.many} [{act.s}/{act.base}] today."

`{kind.form}` is filled with one form of a word of that kind; `{kind2.form}` is a second, different word of the same
kind; a word keeps its choice wherever its slot returns. `[good/bad]` is the contrast: the good sentence takes the left
side, the bad one the right.

A template is a group of patterns filled with the SAME words. Its patterns must balance each other, so that a scorer
that does not look at the context gets exactly one half (`bag_differences` is the test of that).

A language that is written without spaces has them in its patterns all the same, between its words, so that the balance
can be tested by word as well as by sign; `Grammar.sentence` takes them out.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

HAN = "\u3400-\u4dbf\u4e00-\u9fff"
SLOT = re.compile(r"\{([a-z_]+)(\d*)(?:\.([a-z]+))?\}")
CONTRAST = re.compile(r"\[([^\[\]/]+)/([^\[\]/]+)\]")
# A word, a Chinese character (each by itself: Chinese text does not say where a word ends), or a sign.
TOKEN = re.compile(rf"[{HAN}]|[^\W{HAN}]+|[^\w\s]")

Word = Mapping[str, str]
"""The forms of one word: `{"one": "dog", "many": "dogs"}`; a word with a single form has the key ""."""


@dataclass(frozen=True)
class Template:
    """A named group of patterns of one phenomenon that are filled together."""

    phenomenon: str
    name: str
    patterns: tuple[str, ...]


def templates_of(phenomenon: str, **groups: tuple[str, ...]) -> tuple[Template, ...]:
    """The templates of one phenomenon, written as `name=(pattern, pattern, ...)`."""
    return tuple(Template(phenomenon, name, patterns) for name, patterns in groups.items())


@dataclass(frozen=True)
class Grammar:
    """What a builder needs of a language: its words by kind and its templates. `version` changes with either.

    The first form of a word is its name, distinct within its kind. A kind holds at least 30 words, but for those that
    `closed` names with the reason why the language has no more. `spaced`: words are written with spaces between them.
    """

    language: str
    version: int
    words: Mapping[str, tuple[Word, ...]]
    templates: tuple[Template, ...]
    closed: Mapping[str, str] = field(default_factory=dict)
    spaced: bool = True

    def phenomena(self) -> tuple[str, ...]:
        """Names of the phenomena, in the order of the templates."""
        return tuple(dict.fromkeys(template.phenomenon for template in self.templates))

    def sentence(self, words: str) -> str:
        """The text as it is written, from words with spaces between them (as `fill` gives it)."""
        return words if self.spaced else words.replace(" ", "")


def slots_of(template: Template) -> tuple[tuple[str, str], ...]:
    """The `(slot, kind)` pairs of a template in order of appearance: `(("thing", "thing"), ("thing2", "thing"))`."""
    found: dict[str, str] = {}
    for pattern in template.patterns:
        for kind, index, _ in SLOT.findall(pattern):
            found[kind + index] = kind
    return tuple(found.items())


def fill(pattern: str, words: Mapping[str, Word]) -> tuple[str, str]:
    """The good and the bad sentence of a pattern, with the pattern's own spaces (see `Grammar.sentence`).

    Args:
        pattern: text with slots and one contrast.
        words: slot name -> the word chosen for it.

    Raises:
        KeyError: a slot without a word, or a form that the word does not have.
        ValueError: a pattern that has not exactly one contrast.
    """
    filled = SLOT.sub(lambda slot: words[slot[1] + slot[2]][slot[3] or ""], pattern)
    contrasts = CONTRAST.findall(filled)
    if len(contrasts) != 1:
        raise ValueError(f"a pattern must have exactly one [good/bad] contrast, but has {len(contrasts)}: {pattern}")
    good = CONTRAST.sub(lambda match: match[1], filled)
    bad = CONTRAST.sub(lambda match: match[2], filled)
    return good, bad


def bag_of_words(sentence: str) -> Counter[str]:
    """How often each word, Chinese character or sign stands in a sentence."""
    return Counter(TOKEN.findall(sentence))


def bag_differences(
    pairs: Iterable[tuple[str, str]], bag: Callable[[str], Counter[str]] = bag_of_words
) -> Counter[tuple[tuple[str, int], ...]]:
    """How often each difference "words of good minus words of bad" occurs among pairs.

    A set is balanced when every difference occurs as often as its negative: then a scorer that adds up weights of
    words, whatever the weights, wins one pair for each that it loses. The empty difference (a permutation) is its own
    negative and is a tie for such a scorer.

    Args:
        pairs: good and bad sentences.
        bag: how a sentence falls into units; of Chinese with spaces between its words, `Counter(sentence.split())`
            compares words, the default characters.
    """
    found: Counter[tuple[tuple[str, int], ...]] = Counter()
    for good, bad in pairs:
        difference = bag(good)
        difference.subtract(bag(bad))
        found[tuple(sorted((word, count) for word, count in difference.items() if count))] += 1
    return found
