"""What a corpus of sentence pairs is, and how its sentences are read as documents.

Must not import apache_beam or torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pipeline.blanks import without_blanks
from pipeline.ranges import Plan, Range
from pipeline.records import Document, Pair, ReadFailure
from pipeline.sources import Corpus, TextCorpus


class PairCorpus(Protocol):
    """What the jobs on pairs read from; see `pipeline.sources.Corpus`."""

    holds: ClassVar[str]

    def plan(self) -> Plan:
        """The corpus's files and ranges.

        Raises:
            InputError: nothing to read, or files that do not belong together.
        """

    def read(self, range_: Range) -> Iterator[Pair | ReadFailure]:
        """The pairs of one range, in order; the same ones on every call."""

    def reading_key(self) -> str:
        """A text of all options that change what `read` yields (not which files there are)."""


@dataclass(frozen=True)
class Sides:
    """The sentences of a corpus of pairs as documents, source and target one after the other: for a joint tokenizer."""

    pairs: PairCorpus

    def plan(self) -> Plan:
        """See Corpus."""
        return self.pairs.plan()

    def read(self, range_: Range) -> Iterator[Document | ReadFailure]:
        """See Corpus."""
        for record in self.pairs.read(range_):
            if isinstance(record, ReadFailure):
                yield record
            else:
                for side, text in (("source", record.source), ("target", record.target)):
                    yield Document(without_blanks(text), f"{record.id}:{side}", record.file, record.offset)

    def reading_key(self) -> str:
        """See Corpus."""
        return f"both sides of {self.pairs.reading_key()}"


def as_documents(corpus: Corpus | PairCorpus) -> Corpus:
    """The corpus itself, or both sides of one that holds pairs."""
    if getattr(corpus, "holds", "documents") == "pairs":
        return Sides(corpus)  # type: ignore[arg-type]
    return corpus  # type: ignore[return-value]


def text_corpus(corpus: Any, paths: list[str]) -> TextCorpus:
    """A reader of lines with the options of a corpus of pairs that are those of TextCorpus too."""
    return TextCorpus(
        paths=paths,
        format="text",
        encoding=corpus.encoding,
        bad_bytes=corpus.bad_bytes,
        range_bytes=corpus.range_bytes,
        block_bytes=corpus.block_bytes,
        max_record_bytes=corpus.max_record_bytes,
        storage_options=corpus.storage_options,
    )
