"""Builds the minimal pairs of a grammar: seeded and pure, the same items on every machine. Must not import torch."""

import hashlib
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from conf.errors import InputError
from pretrain.evaluation.challenge.templates import Grammar, Template, Word, fill, slots_of

MAX_REDRAWS = 200


@dataclass(frozen=True)
class MinimalPair:
    """A good and a bad sentence that differ in one respect.

    `group` names the twins that were filled with the same words and balance each other; `slots` says which words.
    """

    id: str
    phenomenon: str
    template: str
    group: str
    slots: dict[str, str]
    good: str
    bad: str


def build(
    grammar: Grammar, pairs_per_phenomenon: int, seed: int, phenomena: Sequence[str] | None = None
) -> list[MinimalPair]:
    """Minimal pairs of a grammar.

    Every phenomenon gets at least `pairs_per_phenomenon` pairs, spread evenly over its templates in whole groups (a
    group is never split, or its balance would be lost). No group of words is drawn twice for one template.

    Raises:
        InputError: an unknown phenomenon, a count below 1, or more pairs asked for than the words allow.
    """
    if pairs_per_phenomenon < 1:
        raise InputError(f"'pairs_per_phenomenon' must be at least 1, but is {pairs_per_phenomenon}")
    known = grammar.phenomena()
    chosen = known if phenomena is None else tuple(phenomena)
    for name in chosen:
        if name not in known:
            raise InputError(
                f"'phenomena' names '{name}', which the {grammar.language} grammar does not have: "
                f"choose among {', '.join(known)}"
            )
    items: list[MinimalPair] = []
    for name in chosen:
        templates = [template for template in grammar.templates if template.phenomenon == name]
        smallest = min(len(template.patterns) for template in templates)
        groups = math.ceil(pairs_per_phenomenon / (len(templates) * smallest))
        for template in templates:
            items.extend(_pairs_of(grammar, template, groups, seed))
    return items


def items_hash(items: Sequence[MinimalPair]) -> str:
    """SHA-256 (hex) over the items' content and order."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(json.dumps(asdict(item), sort_keys=True, ensure_ascii=False).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _pairs_of(grammar: Grammar, template: Template, groups: int, seed: int) -> Iterator[MinimalPair]:
    for index, words in enumerate(fillings(grammar, template, groups, seed)):
        group = f"{template.phenomenon}/{template.name}/{index:03d}"
        slots = {slot: next(iter(word.values())) for slot, word in words.items()}
        for twin, pattern in enumerate(template.patterns):
            good, bad = fill(pattern, words)
            yield MinimalPair(
                id=f"{group}/{twin}",
                phenomenon=template.phenomenon,
                template=f"{template.phenomenon}/{template.name}",
                group=group,
                slots=slots,
                good=grammar.sentence(good),
                bad=grammar.sentence(bad),
            )


def fillings(grammar: Grammar, template: Template, groups: int, seed: int) -> Iterator[dict[str, Word]]:
    """Draw words for a template's slots: from shuffled decks, so that all words of a kind are used about equally."""
    generator = random.Random(f"{seed}/{grammar.language}/{template.phenomenon}/{template.name}")
    decks: dict[str, list[Word]] = {}

    def draw(kind: str) -> Word:
        if not decks.get(kind):
            decks[kind] = list(grammar.words[kind])
            generator.shuffle(decks[kind])
        return decks[kind].pop()

    seen: set[tuple[str, ...]] = set()
    slots = slots_of(template)
    for _ in range(groups):
        for _ in range(MAX_REDRAWS):
            words = {slot: draw(kind) for slot, kind in slots}
            key = tuple(next(iter(word.values())) for word in words.values())
            twice = any(
                words[slot] is words[other]
                for slot, kind in slots
                for other, kind2 in slots
                if slot < other and kind == kind2
            )  # a deck that ran out in the middle may give one word to two slots
            if key not in seen and not twice:
                break
        else:
            raise InputError(
                f"template '{template.phenomenon}/{template.name}' cannot give {groups} different groups of words: "
                "ask for fewer of them"
            )
        seen.add(key)
        yield words
