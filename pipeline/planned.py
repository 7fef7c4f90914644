"""A corpus that plans once, for planning reads every file to fingerprint it. Imports neither Beam nor torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from pipeline.pair_sources import PairCorpus
from pipeline.ranges import Plan, Range
from pipeline.sources import Corpus


class PlannedCorpus:
    """Any corpus, with its plan remembered. Workers are sent the corpus without the plan, which they do not need."""

    def __init__(self, corpus: Corpus | PairCorpus) -> None:
        self._corpus = corpus
        self._plan: Plan | None = None

    @property
    def inner(self) -> Corpus | PairCorpus:
        """The corpus itself, for a job that must know which one it is."""
        return self._corpus

    @property
    def holds(self) -> str:
        """What `read` yields: "documents" or "pairs"."""
        return getattr(self._corpus, "holds", "documents")

    def plan(self) -> Plan:
        """See Corpus."""
        if self._plan is None:
            self._plan = self._corpus.plan()
        return self._plan

    def read(self, range_: Range) -> Iterator[Any]:
        """See Corpus and PairCorpus."""
        return self._corpus.read(range_)

    def reading_key(self) -> str:
        """See Corpus."""
        return self._corpus.reading_key()

    def fingerprint(self) -> str:
        """A hash of the names and contents of all files, in order."""
        digest = hashlib.sha256()
        for file in self.plan().files:
            digest.update(f"{file.name}\0{file.fingerprint}\n".encode("utf-8", "surrogateescape"))
        return f"sha256:{digest.hexdigest()}"

    def __getstate__(self) -> dict[str, Any]:
        return {"_corpus": self._corpus, "_plan": None}
