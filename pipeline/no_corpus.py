"""The corpus of jobs that make their text themselves: no files. Imports neither Beam nor torch."""

from collections.abc import Iterator

from pipeline.ranges import Plan, Range
from pipeline.records import Document, ReadFailure


class NoCorpus:
    """A corpus without files; a job that reads documents finds none."""

    def plan(self) -> Plan:
        """See pipeline.sources.Corpus."""
        return Plan((), ())

    def read(self, range_: Range) -> Iterator[Document | ReadFailure]:
        """See pipeline.sources.Corpus."""
        return iter(())

    def reading_key(self) -> str:
        """See pipeline.sources.Corpus."""
        return "none"
