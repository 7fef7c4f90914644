"""What every job does first: a range of the corpus, read and cleaned, with the fate of each record.

Imports neither Beam nor torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from conf.errors import InputError
from pipeline.cleaning.chain import Dropped, Step
from pipeline.jobs.code_version import code_version
from pipeline.manifest import Counts
from pipeline.pair_sources import PairCorpus
from pipeline.ranges import Plan, Range
from pipeline.records import ReadFailure, document_key
from pipeline.sources import Corpus


@dataclass(frozen=True)
class Task:
    """One range to do; `inputs` is the fingerprint of all that decides what is made of it."""

    number: int
    range: Range
    inputs: str


def tasks_of(plan: Plan, corpus: Corpus | PairCorpus, cleaning: Step, *more: Any) -> list[Task]:
    """A task for each range of a plan; `more` is what decides besides what reading and cleaning it yields."""
    read = [range_fingerprint(plan, range_, corpus, cleaning) for range_ in plan.ranges]
    return [
        Task(number, range_, fingerprint(inputs, *more) if more else inputs)
        for number, (range_, inputs) in enumerate(zip(plan.ranges, read, strict=True))
    ]


@dataclass(frozen=True)
class Cleaned:
    """One record of a range after cleaning.

    `index` counts the records of the range from 0. A record that is `kept` has its cleaned `text`; of the others
    `reason` is the code to count, and `detail` a sentence where reading or cleaning failed.
    """

    index: int
    key: int
    fate: Literal["kept", "dropped", "failed"]
    text: str = ""
    reason: str = ""
    detail: str = ""


def cleaned(corpus: Corpus, range_: Range, cleaning: Step) -> Iterator[Cleaned]:
    """Read and clean a range, in order, the same on every call. A step that raises fails that one record."""
    for index, record in enumerate(corpus.read(range_)):
        key = document_key(record.file, record.offset)
        if isinstance(record, ReadFailure):
            yield Cleaned(index, key, "failed", reason=record.reason, detail=record.detail)
            continue
        try:
            text = cleaning(record.text)
        except Exception as error:
            detail = f"{record.id}: cleaning raised {type(error).__name__}: {error}"
            yield Cleaned(index, key, "failed", reason="cleaning_error", detail=detail)
            continue
        if isinstance(text, Dropped):
            yield Cleaned(index, key, "dropped", reason=text.reason)
        else:
            yield Cleaned(index, key, "kept", text=text)


# Of pairs, which option decides a reason.
_OPTIONS = {
    "low_score": "minimum_score",
    "low_dual_score": "minimum_dual_score",
    "copy": "drop_copies",
    "excluded": "exclude",
    "too_short": "min_length",
    "too_long": "max_length",
    "ratio": "max_ratio",
    "repetition": "max_repeats",
    "language": "language_confidence",
}


def refuse_nothing(counts: Counts, examples: Sequence[str] = (), what: str = "documents") -> None:
    """Refuse a corpus of which no record is left.

    Args:
        counts: what became of the records.
        examples: sentences on records that failed, of which the first is shown: it names file and cause.
        what: what the records are.

    Raises:
        InputError: no record is kept.
    """
    if counts.kept:
        return
    cause = f": {examples[0]}" if examples else ""
    if counts.failed and counts.failed == counts.read:
        raise InputError(f"none of the {counts.read} {what} of the corpus could be read{cause}")
    fates = [f"{number} {reason}" for reason, number in counts.dropped.items()]
    fates += [f"{counts.failed} failed{cause}"] if counts.failed else []
    became = f" ({', '.join(fates)})" if fates else ""
    options = [f"job.{_OPTIONS[reason]}" for reason in counts.dropped if reason in _OPTIONS and what == "pairs"]
    hint = f": look whether they are what they should be, or change {', '.join(options)}" if options else ""
    raise InputError(f"the corpus is empty: of {counts.read} {what} read none is left{became}{hint}")


def fingerprint(*parts: Any) -> str:
    """A short hash of anything that JSON can hold (or `repr` tells)."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()[:32]


def range_fingerprint(plan: Plan, range_: Range, corpus: Corpus | PairCorpus, cleaning: Step) -> str:
    """A hash of all that decides what `cleaned` yields for a range: content, options, cleaning and code."""
    pieces = [
        (piece.file, piece.name, plan.files[piece.file].fingerprint, piece.start, piece.end) for piece in range_.pieces
    ]
    besides = [piece.beside for piece in range_.pieces if piece.beside is not None]
    others = [(beside.file, beside.name, plan.files[beside.file].fingerprint, beside.start) for beside in besides]
    return fingerprint(range_.id, pieces, others, corpus.reading_key(), repr(cleaning), code_version())
