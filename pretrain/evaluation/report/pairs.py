"""What a report shows of minimal pairs: a few with their scores, and a longer list for a person to audit.

Works on the rows of `items/*.jsonl` and knows no file. Must not import torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from pretrain.evaluation.challenge.templates import TOKEN


@dataclass(frozen=True)
class PairExample:
    """A minimal pair with pseudo-log-likelihoods (good, bad) of the pretrained model and of one with random weights."""

    phenomenon: str
    good: str
    bad: str
    pretrained: tuple[float, float] | None
    random: tuple[float, float] | None


@dataclass(frozen=True)
class AuditPair:
    """A minimal pair to read: each sentence as (before, where it differs from the other, after), and what filled it."""

    template: str
    good: tuple[str, str, str]
    bad: tuple[str, str, str]
    slots: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PhenomenonPairs:
    """The pairs of one phenomenon to audit, out of `total` pairs from `templates` templates."""

    task: str
    phenomenon: str
    total: int
    templates: int
    pairs: tuple[AuditPair, ...]


def first_pairs(items: Sequence[Mapping[str, Any]], count: int) -> Iterator[PairExample]:
    """The first `count` pairs of each phenomenon whose templates differ: no picking of those that look well."""
    shown: dict[str, set[str]] = {}
    for item in items:
        templates = shown.setdefault(item["phenomenon"], set())
        if len(templates) >= count or str(item.get("template")) in templates:
            continue
        templates.add(str(item.get("template")))
        scores: dict[str, Any] = item["scores"]
        random = next((pair for name, pair in scores.items() if name.startswith("random")), None)
        yield PairExample(
            item["phenomenon"], item["good"], item["bad"], _scores(scores.get("pretrained")), _scores(random)
        )


def pairs_to_audit(task: str, items: Sequence[Mapping[str, Any]], count: int) -> list[PhenomenonPairs]:
    """`count` pairs of each phenomenon, as evenly over its templates as can be and the first of each.

    So twenty pairs of ten templates show each template with both its directions.
    """
    by_phenomenon: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for item in items:
        by_template = by_phenomenon.setdefault(str(item["phenomenon"]), {})
        by_template.setdefault(str(item.get("template", "")), []).append(item)
    found = []
    for phenomenon, by_template in by_phenomenon.items():
        places = sorted(
            (rank, number) for number, rows in enumerate(by_template.values()) for rank in range(len(rows))
        )[:count]
        rows = list(by_template.values())
        pairs = tuple(_audit_pair(rows[number][rank]) for number, rank in sorted((n, r) for r, n in places))
        found.append(PhenomenonPairs(task, phenomenon, sum(map(len, rows)), len(rows), pairs))
    return found


def difference(good: str, bad: str) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """Each sentence as (before, where it differs, after), cut between words: the longest equal start, then the end."""
    tokens = [list(TOKEN.finditer(text)) for text in (good, bad)]
    words = [[token[0] for token in found] for found in tokens]
    start = _equal(words[0], words[1])
    end = _equal(words[0][start:][::-1], words[1][start:][::-1])
    first, second = (
        _cut(text, found[start : len(found) - end]) for text, found in zip((good, bad), tokens, strict=True)
    )
    return first, second


def _equal(first: Sequence[str], second: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _cut(text: str, tokens: Sequence[Any]) -> tuple[str, str, str]:
    if not tokens:
        return text, "", ""
    start, end = tokens[0].start(), tokens[-1].end()
    return text[:start], text[start:end], text[end:]


def _audit_pair(item: Mapping[str, Any]) -> AuditPair:
    good, bad = difference(item["good"], item["bad"])
    slots = {str(slot): str(word) for slot, word in item.get("slots", {}).items()}
    return AuditPair(str(item.get("template", "")).rpartition("/")[2], good, bad, slots)


def _scores(scores: Any) -> tuple[float, float] | None:
    return None if scores is None else (float(scores[0]), float(scores[1]))
