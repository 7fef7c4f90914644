"""What became of the records of a range, counted. Imports neither Beam nor torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.manifest import Counts

EXAMPLES = 5
LENGTH_BINS = 40


class Fated(Protocol):
    """A record that was read and cleaned; see `pipeline.jobs.reading.Cleaned`."""

    @property
    def index(self) -> int: ...  # noqa: D102
    @property
    def fate(self) -> str: ...  # noqa: D102
    @property
    def reason(self) -> str: ...  # noqa: D102
    @property
    def detail(self) -> str: ...  # noqa: D102


RecordT = TypeVar("RecordT", bound=Fated)


def length_histogram() -> NDArray[np.int64]:
    """An empty histogram for `add_length`."""
    return np.zeros(LENGTH_BINS, dtype=np.int64)


def add_length(histogram: NDArray[np.int64], tokens: int) -> None:
    """Count a length above 0: bin b holds those from 2^b to 2^(b + 1) - 1."""
    histogram[min(tokens.bit_length() - 1, len(histogram) - 1)] += 1


class Tally:
    """Counts the fate of every record of a range."""

    def __init__(self) -> None:
        self.read = self.kept = 0
        self.dropped: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.examples: list[str] = []

    def count(self, records: Iterable[RecordT], duplicates: NDArray[np.uint64]) -> Iterator[RecordT]:
        """Count all records, pass on those that stay."""
        to_drop = set(duplicates.tolist())
        for record in records:
            self.read += 1
            if record.fate == "failed":
                self.failures[record.reason] += 1
                if len(self.examples) < EXAMPLES:
                    self.examples.append(record.detail)
            elif record.fate == "dropped":
                self.dropped[record.reason] += 1
            elif record.index in to_drop:
                self.dropped["duplicate"] += 1
            else:
                self.kept += 1
                yield record

    def reject(self, reason: str) -> None:
        """Drop a record after all that had been passed on."""
        self.kept -= 1
        self.dropped[reason] += 1

    def counts(self) -> Counts:
        """The counts so far."""
        return Counts(self.read, self.kept, dict(sorted(self.dropped.items())), sum(self.failures.values()))
