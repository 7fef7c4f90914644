"""The tokenizer job: a bounded, seeded sample of the corpus -> a tokenizer. Never imports torch.

Of a corpus of pairs, both sides are documents: the vocabulary is that of both languages.

Workers draw the sample, the driver trains. At most RANGES_READ ranges are read, so the cost does not grow with the
corpus; a corpus with fewer is read in all its ranges.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
import json
import logging
import random
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from tokenizers import Tokenizer

from conf.errors import InputError
from conf.files import atomic_write_text
from conf.progress import progress
from pipeline.byte_bpe import train_byte_bpe
from pipeline.cleaning.chain import Cleaning, Step
from pipeline.jobs.reading import cleaned, fingerprint, range_fingerprint, refuse_nothing
from pipeline.manifest import Counts
from pipeline.pair_sources import PairCorpus, as_documents
from pipeline.ranges import Range
from pipeline.records import text_hash
from pipeline.runners import Runner
from pipeline.sources import Corpus
from pipeline.tokenizer import (
    TOKENIZER,
    check_added_tokens,
    save_tokenizer,
    special_ids,
    tokenizer_hash,
    train_wordpiece,
)

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
RANGES_READ = 64
# A range is read until it has yielded so many times its share of the sample, which is then drawn from that.
OVERSAMPLING = 8


@dataclass(frozen=True)
class TokenizerJob:
    """Options of the job; see `train_wordpiece` and `train_byte_bpe` for those of training.

    Attributes:
        cleaning: the step that each document goes through.
        kind: wordpiece, or byte_bpe, from whose ids a text comes back to the byte.
        split_digits: of byte_bpe only; `alphabet_size` is of wordpiece only, null elsewhere.
        sample_bytes: UTF-8 bytes of text to train on, at most.
        seed: of the choice of ranges and documents.
        added_tokens: reserved tokens such as "<bt>", which no text becomes.
    """

    cleaning: Any = field(default_factory=Cleaning)
    kind: Literal["wordpiece", "byte_bpe"] = "wordpiece"
    vocab_size: int = 8192
    lowercase: bool = True
    min_frequency: int = 2
    alphabet_size: int | None = 1000
    split_digits: bool = False
    sample_bytes: int = 32 << 20
    seed: int = 0
    added_tokens: list[str] = field(default_factory=list)

    reads: ClassVar[str] = "anything"

    def __post_init__(self) -> None:
        check_added_tokens(self.added_tokens)
        if self.kind == "byte_bpe" and self.alphabet_size is not None:
            raise InputError(
                "option 'job.alphabet_size' is for job.kind=wordpiece, for the alphabet of byte_bpe is the bytes: set "
                f"it to null, but it is {self.alphabet_size}"
            )
        if self.kind == "wordpiece" and (self.split_digits or self.alphabet_size is None):
            raise InputError(
                "job.kind=wordpiece needs job.alphabet_size and cannot split digits, but job.alphabet_size is "
                f"{self.alphabet_size} and job.split_digits is {str(self.split_digits).lower()}"
            )
        for option, least in (("vocab_size", 16), ("min_frequency", 1), ("alphabet_size", 1), ("sample_bytes", 1)):
            if getattr(self, option) is not None and getattr(self, option) < least:
                raise InputError(f"option 'job.{option}' must be at least {least}, but is {getattr(self, option)}")

    def run(self, corpus: Corpus | PairCorpus, output: Path, tokenizer: str | None, runner: Runner) -> None:
        """Write `tokenizer.json` and then `manifest.json` into `output`, which the caller has locked.

        Raises:
            InputError: a `tokenizer` is given, the corpus is empty, or vocab_size cannot hold its characters.
            RuntimeError: the runner did not read every range.
        """
        if tokenizer is not None:
            raise InputError("option 'tokenizer' has no meaning for job=tokenizer, which trains one: leave it out")
        corpus = as_documents(corpus)
        plan = corpus.plan()
        chosen = choose_ranges(plan.ranges, self.seed)
        options = {key: value for key, value in vars(self).items() if key != "cleaning"}
        key = fingerprint(options, [range_fingerprint(plan, range_, corpus, self.cleaning) for range_ in plan.ranges])
        if _is_done(output, key):
            logger.info("'%s' is complete for these inputs and options: nothing to do", output)
            return
        (output / MANIFEST).unlink(missing_ok=True)
        work = output / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        share = -(-self.sample_bytes // len(chosen))
        sampler = Sampler(corpus, self.cleaning, str(work), share, self.seed)
        with progress("tokenizer", total=3) as line:
            line.update(0, f"drawing a sample from {len(chosen)} of {len(plan.ranges)} ranges")
            runner.run(functools.partial(build_pipeline, ranges=chosen, sampler=sampler), units=len(chosen))
            texts, counts = _collect(chosen, work)
            line.update(1, f"training on {len(texts)} documents")
            trained = self._train(texts)
            line.update(2, "writing")
            save_tokenizer(trained, output)
            shutil.rmtree(work)
            size = trained.get_vocab_size()
            sample = {"documents": len(texts), "bytes": sum(len(text.encode()) for text in texts)}
            record = {
                "kind": "tokenizer",
                "key": key,
                "tokenizer_hash": tokenizer_hash(output),
                "vocab_size": size,
                "special_ids": special_ids(trained),
                "options": options,
                "cleaning": repr(self.cleaning),
                "corpus": corpus.reading_key(),
                "sample": sample,
                "counts": asdict(counts),
            }
            atomic_write_text(output / MANIFEST, json.dumps(record, indent=1, sort_keys=True) + "\n")
            line.update(3, "done")
        if size < self.vocab_size:
            logger.warning(
                "the sample (%d documents, %d bytes) fills only %d of %d vocabulary entries: "
                "give more text, or lower job.vocab_size or job.min_frequency",
                len(texts), sample["bytes"], size, self.vocab_size,
            )  # fmt: skip
        logger.info("a tokenizer of %d entries, trained on %d documents, in '%s'", size, len(texts), output)

    def _train(self, texts: Sequence[str]) -> Tokenizer:
        if self.alphabet_size is None:
            return train_byte_bpe(
                texts, self.vocab_size, self.lowercase, self.min_frequency, self.split_digits, self.added_tokens
            )
        return train_wordpiece(
            texts, self.vocab_size, self.lowercase, self.min_frequency, self.alphabet_size, self.added_tokens
        )


def choose_ranges(ranges: Sequence[Range], seed: int) -> list[Range]:
    """At most RANGES_READ ranges, drawn without replacement; in the order of the plan."""
    if len(ranges) <= RANGES_READ:
        return list(ranges)
    return [ranges[i] for i in sorted(random.Random(seed).sample(range(len(ranges)), RANGES_READ))]


@dataclass(frozen=True)
class Sampler:
    """Draws a range's share of the sample: documents in the order of a seeded hash of their text, each text once."""

    corpus: Corpus
    cleaning: Step
    directory: str
    share: int
    seed: int

    def draw(self, range_: Range) -> str:
        """Write the sample of a range to `<directory>/<range id>.json`; returns the range's id."""
        # The documents with the smallest priorities that together fill the share; the heap has the largest on top.
        kept: dict[bytes, str] = {}
        heap: list[tuple[int, bytes]] = []
        size = seen = 0
        counts = {"read": 0, "kept": 0, "failed": 0}
        dropped: dict[str, int] = {}
        examples: list[str] = []
        for record in cleaned(self.corpus, range_, self.cleaning):
            counts["read"] += 1
            if record.fate == "dropped":
                dropped[record.reason] = dropped.get(record.reason, 0) + 1
                continue
            counts[record.fate] += 1
            if record.fate == "failed":
                examples = examples or [record.detail]
                continue
            # No document may take more than the share; cut by characters, which are at least one byte each.
            text = record.text[: self.share]
            seen += len(text)
            digest = text_hash(text)
            if digest not in kept:
                kept[digest] = text
                heapq.heappush(heap, (-self._priority(digest), digest))
                size += len(text.encode())
            while size - len(kept[heap[0][1]].encode()) >= self.share:
                size -= len(kept.pop(heapq.heappop(heap)[1]).encode())
            if seen >= OVERSAMPLING * self.share:
                break
        order = sorted(heap, reverse=True)
        texts = [kept[digest] for _, digest in order]
        content = {"texts": texts, "counts": {**counts, "dropped": dropped}, "examples": examples}
        atomic_write_text(Path(self.directory) / f"{range_.id}.json", json.dumps(content))
        return range_.id

    def _priority(self, digest: bytes) -> int:
        keyed = hashlib.blake2b(digest, digest_size=8, salt=self.seed.to_bytes(8, "little", signed=True))
        return int.from_bytes(keyed.digest(), "big")


def build_pipeline(pipeline: Any, ranges: Sequence[Range], sampler: Sampler) -> None:
    """Add the job's transforms to a Beam pipeline."""
    import apache_beam as beam

    _ = (
        pipeline
        | "ranges" >> beam.Create(list(ranges))
        | "spread" >> beam.Reshuffle()
        | "sample" >> beam.Map(sampler.draw)
    )


def _collect(ranges: Sequence[Range], work: Path) -> tuple[list[str], Counts]:
    texts: list[str] = []
    counts = Counts()
    examples: list[str] = []
    for range_ in ranges:
        path = work / f"{range_.id}.json"
        if not path.is_file():
            raise RuntimeError(f"the runner ended, but range {range_.id} was not read: run the same command again")
        found = json.loads(path.read_text(encoding="utf-8"))
        texts.extend(found["texts"])
        counts += Counts(**found["counts"])
        examples += found["examples"]
    refuse_nothing(counts, examples)
    return texts, counts


def _is_done(output: Path, key: str) -> bool:
    try:
        record = json.loads((output / MANIFEST).read_text(encoding="utf-8"))
        return bool(record["key"] == key and record["tokenizer_hash"] == tokenizer_hash(output / TOKENIZER))
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return False
