"""What workers do for the jobs on pairs: hash a range, write a range's shards. Never imports torch.

The rules that look at texts alone are applied before duplicates are found, so that of equal pairs one that is kept
stays; those that look at tokens, which equal pairs pass or fail together, come after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline import excluded, languages
from pipeline.blanks import BLANK, without_blanks
from pipeline.cleaning.chain import Dropped, Step
from pipeline.held_out import is_held_out
from pipeline.jobs.range_work import batches, open_range, spill_hashes, tokenizer_of
from pipeline.jobs.reading import Task, fingerprint
from pipeline.jobs.shard_directory import DirectorySettings
from pipeline.jobs.tally import Tally, add_length, length_histogram
from pipeline.manifest import FORMAT_VERSION, Split
from pipeline.pair_filters import TokenRules, is_copy
from pipeline.pair_shards import ORIGINS, Pairs, PairWriter
from pipeline.pair_sources import PairCorpus
from pipeline.records import Pair, ReadFailure, text_hash
from pipeline.shards import ROWS_PER_BATCH, IdType, ShardInfo, id_dtype
from pipeline.tokenizer import added_token_id, special_ids
from pipeline.word_cache import TextEncoder, encoder

Score = Literal["translation", "dual"]


@dataclass(frozen=True)
class TextRules:
    """What is asked of a pair before it is tokenized, and which of its scores it keeps.

    Attributes:
        drop_copies: whether pairs go whose sides are the same.
        minimum_score: pairs with a lower one go; null for no bound. `minimum_dual_score` likewise.
        score: the one that is kept.
        excluded: the name of the set of sentences that no side may be (see `pipeline.excluded`); null for none.
    """

    drop_copies: bool = True
    minimum_score: float | None = None
    minimum_dual_score: float | None = None
    score: Score = "translation"
    excluded: str | None = None


@dataclass(frozen=True)
class PairSettings(DirectorySettings):
    """What all ranges of one run share.

    `language_confidence` is the probability above which a side in the other side's language goes; null: it is not
    looked at. `tag` is put behind the [CLS] of sources; `origin` is an index into ORIGINS.
    """

    corpus: PairCorpus
    cleaning: Step
    text_rules: TextRules
    token_rules: TokenRules
    source_language: str
    target_language: str
    language_confidence: float | None
    held_out_share: float
    tag: str | None
    origin: int

    def identity(self, task: Task) -> str:
        """See DirectorySettings."""
        return fingerprint(
            task.inputs,
            self.tokenizer_hash,
            repr(self.token_rules),
            [self.source_language, self.target_language, self.language_confidence],
            [self.held_out_share, self.tag, self.origin, self.generation],
            FORMAT_VERSION,
        )

    @property
    def excluded_file(self) -> Path:
        """Where the hashes of the excluded sentences lie while the job runs."""
        return self.work / f"excluded.{self.text_rules.excluded}"


@dataclass(frozen=True)
class CleanedPair:
    """One pair of a range after cleaning; see `pipeline.jobs.reading.Cleaned`."""

    index: int
    fate: Literal["kept", "dropped", "failed"]
    source: str = ""
    target: str = ""
    score: float = float("nan")
    reason: str = ""
    detail: str = ""

    @property
    def hash(self) -> bytes:
        """What exact duplicates share: both sides."""
        return text_hash(f"{len(self.source)}\n{self.source}{self.target}")


def cleaned_pairs(task: Task, settings: PairSettings) -> Iterator[CleanedPair]:
    """Read and clean a range, in order, the same on every call. A step that raises fails that one pair."""
    barred: frozenset[bytes] = frozenset()
    if settings.text_rules.excluded is not None:
        barred = excluded.load(settings.excluded_file)
    for index, record in enumerate(settings.corpus.read(task.range)):
        if isinstance(record, ReadFailure):
            yield CleanedPair(index, "failed", reason=record.reason, detail=record.detail)
            continue
        try:
            sides = settings.cleaning(record.source), settings.cleaning(record.target)
        except Exception as error:
            detail = f"{record.id}: cleaning raised {type(error).__name__}: {error}"
            yield CleanedPair(index, "failed", reason="cleaning_error", detail=detail)
            continue
        source, target = sides
        if isinstance(source, Dropped):
            yield CleanedPair(index, "dropped", reason=source.reason)
        elif isinstance(target, Dropped):
            yield CleanedPair(index, "dropped", reason=target.reason)
        elif reason := _text_reason(record, source, target, settings.text_rules, barred):
            yield CleanedPair(index, "dropped", reason=reason)
        else:
            score = record.score if settings.text_rules.score == "translation" else record.dual_score
            yield CleanedPair(index, "kept", source, target, score)


def _text_reason(record: Pair, source: str, target: str, rules: TextRules, barred: frozenset[bytes]) -> str | None:
    # Not "score < minimum": a pair that should have a score and has none (NaN) has not reached it.
    if rules.minimum_score is not None and not record.score >= rules.minimum_score:
        return "low_score"
    if rules.minimum_dual_score is not None and not record.dual_score >= rules.minimum_dual_score:
        return "low_dual_score"
    if rules.drop_copies and is_copy(source, target):
        return "copy"
    if barred and (excluded.sentence_hash(source) in barred or excluded.sentence_hash(target) in barred):
        return "excluded"
    return None


def hash_range(task: Task, settings: PairSettings) -> tuple[int, str]:
    """First pass over a range: the hashes of its pairs, spilled. Returns its number and the file."""
    hashes = ((record.index, record.hash) for record in cleaned_pairs(task, settings) if record.fate == "kept")
    return spill_hashes(task, settings, hashes)


def write_range(task: Task, duplicate_files: Iterable[str], settings: PairSettings) -> str:
    """Second pass: read, clean, drop, tokenize and write a range; the sidecar last. Returns the range's id.

    A range whose sidecar and shards are those of the same fingerprint is left as it is.
    """
    work = open_range(task, duplicate_files, settings)
    if work is None:
        return task.range.id
    tokenizer, cache = tokenizer_of(settings)
    form = _Form.of(tokenizer, settings)
    confidence = settings.language_confidence or 1.0
    telling = languages.telling(settings.source_language, settings.target_language) if confidence < 1 else None
    tally, source_lengths, target_lengths = Tally(), length_histogram(), length_histogram()
    codec: TextEncoder | None = None
    with (
        _Split(settings, task, "train", form) as train,
        _Split(settings, task, "validation", form) as validation,
    ):
        records = tally.count(cleaned_pairs(task, settings), work.duplicates)
        for batch in batches(records, lambda record: len(record.source) + len(record.target)):
            sides = [form.parts(record) for record in batch]
            texts = [text for parts in sides for text in parts]
            codec = codec or encoder(tokenizer, texts, cache)
            ids, offsets = codec.encode(texts)
            encoded = iter(np.split(ids, offsets[1:-1]))
            for record, parts in zip(batch, sides, strict=True):
                *source_parts, target = (next(encoded) for _ in parts)
                source = form.joined(source_parts)
                reason = settings.token_rules.reason(source, target, form.specials)
                if (
                    reason is None
                    and telling is not None
                    and telling.is_other(without_blanks(record.source, " "), record.target, confidence)
                ):
                    reason = "language"
                if reason is not None:
                    tally.reject(reason)
                    continue
                add_length(source_lengths, len(source))
                add_length(target_lengths, len(target))
                # By the target alone: no sentence that validation asks for is ever learnt, whatever it is paired with.
                held_out = is_held_out(text_hash(record.target), settings.held_out_share)
                (validation if held_out else train).add(source, target, record.score)
        shards = [*train.close(), *validation.close()]
    work.close(shards, tally, lengths=source_lengths.tolist(), target_lengths=target_lengths.tolist())
    return task.range.id


@dataclass(frozen=True)
class _Form:
    """What stands around the tokens of a source and of a target, as arrays of the shards' type.

    `blank` is [MASK], which stands in a synthetic source for each BLANK; None for other pairs, which have none.
    """

    dtype: IdType
    source_start: NDArray[np.unsignedinteger]
    target_start: NDArray[np.unsignedinteger]
    end: NDArray[np.unsignedinteger]
    blank: NDArray[np.int64] | None

    @classmethod
    def of(cls, tokenizer: Tokenizer, settings: PairSettings) -> _Form:
        specials = special_ids(tokenizer)
        dtype = id_dtype(tokenizer.get_vocab_size())
        start = [specials["cls"]]
        tag = [] if settings.tag is None else [added_token_id(tokenizer, settings.tag, "job.tag")]
        return cls(
            dtype,
            np.array(start + tag, dtype=dtype),
            np.array(start, dtype=dtype),
            np.array([specials["sep"]], dtype=dtype),
            np.array([specials["mask"]]) if ORIGINS[settings.origin] == "synthetic" else None,
        )

    def parts(self, record: CleanedPair) -> list[str]:
        """The texts of a pair to tokenize: those of the source, between its blanks, and the target."""
        return [*([record.source] if self.blank is None else record.source.split(BLANK)), record.target]

    def joined(self, source: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """The tokens of a source, from those of its parts."""
        first, *others = source
        if self.blank is None or not others:
            return first
        return np.concatenate([first, *(ids for part in others for ids in (self.blank, part))])

    @property
    def specials(self) -> tuple[int, int]:
        """How many special tokens source and target have."""
        return len(self.source_start) + len(self.end), len(self.target_start) + len(self.end)


class _Split:
    """The shard of one split of a range, written block by block: what is held does not grow with the range.

    A context manager: an error inside leaves no file. A split without pairs has no file.
    """

    def __init__(self, settings: PairSettings, task: Task, split: Split, form: _Form) -> None:
        self._settings, self._split, self._form = settings, split, form
        self._path = f"{settings.shards}/{task.range.id}.{split}.arrow"
        self._stack = ExitStack()
        self._writer: PairWriter | None = None
        self._start_block()

    def _start_block(self) -> None:
        self._ids: tuple[list[NDArray[np.unsignedinteger]], list[NDArray[np.unsignedinteger]]] = ([], [])
        self._lengths: tuple[list[int], list[int]] = ([], [])
        self._scores: list[float] = []

    def add(self, source: NDArray[np.int64], target: NDArray[np.int64], score: float) -> None:
        """Add one pair of token ids without special tokens."""
        form = self._form
        for side, (start, ids) in enumerate(((form.source_start, source), (form.target_start, target))):
            self._ids[side].extend((start, ids.astype(form.dtype), form.end))
            self._lengths[side].append(len(start) + len(ids) + len(form.end))
        self._scores.append(score)
        if len(self._scores) == ROWS_PER_BATCH:
            self._write_block()

    def _write_block(self) -> None:
        settings = self._settings
        if self._writer is None:
            self._writer = self._stack.enter_context(
                PairWriter(settings.directory, self._path, self._split, settings.token_rules.maximum, self._form.dtype)
            )
        flat = [np.concatenate(ids) for ids in self._ids]
        lengths = [np.array(side, dtype=np.int64) for side in self._lengths]
        origin = np.full(len(self._scores), settings.origin, dtype=np.uint8)
        scores = np.array(self._scores, dtype=np.float32)
        self._writer.write(Pairs(flat[0], lengths[0], flat[1], lengths[1], origin, scores))
        self._start_block()

    def close(self) -> list[ShardInfo]:
        """Finish the shard; the list is empty where there were no pairs."""
        if self._scores:
            self._write_block()
        return [] if self._writer is None else [self._writer.close()]

    def __enter__(self) -> _Split:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
