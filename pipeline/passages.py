"""Fine-tuning tasks made of documents, with labels that are true by construction.

`adjacent_passages`: do these two passages follow one another in one document? `word_order`: is the word order of this
sentence intact? Both are built so that neither length, nor position, nor punctuation, nor capitals, nor any word tells
the label: every sentence, and every passage on either side of a pair, occurs as often with one label as with the other.
What is left is how words, or passages, go together. Pure and deterministic: choices are hashes of the seed and the
text, never a generator's state. Must import nothing of the project but `pipeline.prose`.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.prose import plain_sentences, runs_of_passages

Pair = tuple[str, str]

# A pair of passages, and one left out after it: the next pair's first passage does not follow this one's second.
STRIDE = 3
FIRST_LIMIT = 8


@dataclass(frozen=True)
class HeldOutDocument:
    """A cleaned document that training does not see: its id, its 128-bit content hash, its text."""

    id: str
    hash: bytes
    text: str


@dataclass(frozen=True)
class Item:
    """One example. Items that share a document share its id as `group`: they are not independent."""

    text_a: str
    text_b: str | None
    label: int
    group: str


@dataclass(frozen=True)
class Candidates:
    """What a document has to offer a task: pairs of texts to make items of, and all texts that others must not have."""

    pairs: list[Pair]
    texts: set[str]


@dataclass(frozen=True)
class TaskKind:
    """One task.

    Attributes:
        name: as users know it.
        kind: whether an item has one text or two.
        labels: what labels 0 and 1 mean.
        candidates: of one document's text, with the seed.
        items: made of the chosen candidates, (document id, pair), those of one document lying together.
    """

    name: str
    kind: Literal["pair", "single"]
    labels: tuple[str, str]
    candidates: Callable[[str, int], Candidates]
    items: Callable[[Sequence[tuple[str, Pair]]], list[Item]]


def build_task(
    kind: TaskKind, parts: Mapping[str, tuple[Sequence[HeldOutDocument], int]], seed: int
) -> dict[str, list[Item]]:
    """The items of each part of a task, mixed; half of each label.

    A text that occurs in two documents, of whatever parts, is in none: boilerplate would tie train to dev.

    Args:
        kind: the task.
        parts: for each part's name its documents, and the number of items wanted; fewer come if there are no more.
        seed: of all choices.
    """
    found = {
        document.id: kind.candidates(document.text, seed) for documents, _ in parts.values() for document in documents
    }
    documents_with = Counter(text for candidates in found.values() for text in candidates.texts)
    built = {}
    for name, (documents, size) in parts.items():
        own = {
            document.id: [
                pair
                for pair in found[document.id].pairs
                if not any(documents_with[text] > 1 for text in found[document.id].texts.intersection(pair))
            ]
            for document in documents
        }
        items = kind.items(_choose(own, size // 2, seed))
        built[name] = sorted(items, key=lambda item: keyed(seed, "mix", item.text_a, item.text_b, item.label))
    return built


def keyed(seed: int, *parts: object) -> int:
    """A 64-bit number that looks random and depends on the seed and the parts alone."""
    text = "\0".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def split_documents(
    documents: Sequence[HeldOutDocument], dev_share: float, seed: int
) -> tuple[list[HeldOutDocument], list[HeldOutDocument]]:
    """Part documents into train and dev, both in an order that the seed shuffles.

    The dev part is `dev_share` of the documents, at least 1, and leaves at least 1. What both tasks are built from is
    parted once, so that no document is in the train part of one and the dev part of the other.
    """
    ordered = sorted(documents, key=lambda document: keyed(seed, "split", document.hash.hex()))
    number = min(max(1, round(dev_share * len(ordered))), max(len(ordered) - 1, 0))
    return ordered[number:], ordered[:number]


def word_order_candidates(text: str, seed: int) -> Candidates:
    """(intact, shuffled) for each sentence of 8 to 24 plain words, but for those whose shuffle reads the same.

    Shuffled is the order of all words but the first and the last, which keep the capital and the full stop in their
    places.
    """
    pairs = [(sentence, shuffle_words(sentence, seed)) for sentence in plain_sentences(text)]
    return Candidates([pair for pair in pairs if pair[0] != pair[1]], {sentence for sentence, _ in pairs})


def word_order_items(chosen: Sequence[tuple[str, Pair]]) -> list[Item]:
    """Each sentence once intact (label 1) and once shuffled (label 0).

    So the two items of a sentence have the same words, length, ends and punctuation marks, and only how the words
    follow one another differs.
    """
    items = []
    for group, (intact, shuffled) in chosen:
        items += [Item(intact, None, 1, group), Item(shuffled, None, 0, group)]
    return items


def shuffle_words(sentence: str, seed: int) -> str:
    """The sentence with the words between its first and its last in an order that the seed and the sentence decide."""
    first, *inner, last = sentence.split(" ")
    order = sorted(range(len(inner)), key=lambda index: keyed(seed, "word order", sentence, index))
    return " ".join([first, *(inner[index] for index in order), last])


def adjacent_passages_candidates(text: str, seed: int) -> Candidates:
    """Disjoint pairs of passages that follow one another, of passages that occur once in the document.

    From each run of passages (see `pipeline.prose`) every third and the one after it make a pair; the one between two
    pairs is left out, so that no pair's first passage follows another's second. Nothing is left to the seed.
    """
    runs = list(runs_of_passages(text))
    occurrences = Counter(passage for run in runs for passage in run)
    pairs = [pair for run in runs for pair in zip(run[::STRIDE], run[1::STRIDE], strict=False)]
    return Candidates([pair for pair in pairs if all(occurrences[text] == 1 for text in pair)], set(occurrences))


def adjacent_passages_items(chosen: Sequence[tuple[str, Pair]]) -> list[Item]:
    """Pairs of passages that follow one another (label 1), and that do not (label 0).

    Each pair's first passage occurs once more, with the second passage of another pair: label 0. For about half of them
    that is a pair of the same document, for the others of another document. So every passage occurs twice, in the same
    place, once with each label.
    """
    by_document: dict[str, list[Pair]] = {}
    for group, pair in chosen:
        by_document.setdefault(group, []).append(pair)
    same, across = _assign_negatives(by_document)
    items = []
    for group, pairs in same.items():
        for (first, second), (_, other) in zip(pairs, pairs[1:] + pairs[:1], strict=True):
            items += [Item(first, second, 1, group), Item(first, other, 0, group)]
    flat = [(group, pair) for group, pairs in across.items() for pair in pairs]
    # The pairs of a document lie together; a shift by the largest number of them leads out of every document.
    shift = max(map(len, across.values()), default=0)
    for (group, (first, second)), (_, (_, other)) in zip(flat, flat[shift:] + flat[:shift], strict=True):
        items += [Item(first, second, 1, group), Item(first, other, 0, group)]
    return items


def _assign_negatives(
    by_document: dict[str, list[Pair]],
) -> tuple[dict[str, list[Pair]], dict[str, list[Pair]]]:
    """Documents whose pairs are mixed among themselves, and those whose pairs are mixed with other documents'.

    Half of all pairs go to each side as nearly as whole documents allow. One pair alone cannot be mixed within its
    document, and a document with more than half of its side's pairs not with others: it changes sides, or is left out.
    """
    total = sum(map(len, by_document.values()))
    same: dict[str, list[Pair]] = {}
    across: dict[str, list[Pair]] = {}
    taken = 0
    for group, pairs in by_document.items():
        if len(pairs) > 1 and taken + len(pairs) <= max(total / 2, len(pairs) if not same else 0):
            same[group] = pairs
            taken += len(pairs)
        else:
            across[group] = pairs
    while across:
        largest = max(across, key=lambda group: len(across[group]))
        if 2 * len(across[largest]) <= sum(map(len, across.values())):
            break
        pairs = across.pop(largest)
        if len(pairs) > 1:
            same[largest] = pairs
    return same, across


def _choose(found: dict[str, list[Pair]], number: int, seed: int) -> list[tuple[str, Pair]]:
    """`number` candidates (or all, if there are fewer) with their document, from as many documents as possible.

    No document gives more than a limit, the lowest of 8, 16, 32, ... that suffices. The candidates of a document come
    in the order in which the seed shuffles them, and lie together.
    """
    limit = FIRST_LIMIT
    while sum(min(limit, len(candidates)) for candidates in found.values()) < number and any(
        len(candidates) > limit for candidates in found.values()
    ):
        limit *= 2
    ranked = {
        group: sorted(candidates, key=lambda candidate: keyed(seed, "choice", candidate))[:limit]
        for group, candidates in found.items()
    }
    pool = [(group, candidate) for group, candidates in ranked.items() for candidate in candidates]
    kept = set(sorted(range(len(pool)), key=lambda index: keyed(seed, "sample", pool[index]))[:number])
    return [entry for index, entry in enumerate(pool) if index in kept]


ADJACENT_PASSAGES = TaskKind(
    "adjacent_passages", "pair", ("not_adjacent", "adjacent"), adjacent_passages_candidates, adjacent_passages_items
)
WORD_ORDER = TaskKind("word_order", "single", ("shuffled", "intact"), word_order_candidates, word_order_items)
TASKS = (ADJACENT_PASSAGES, WORD_ORDER)
