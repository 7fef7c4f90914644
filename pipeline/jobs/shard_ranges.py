"""What workers do for the masked_lm job: hash a range, find duplicates, write a range's shards. Never imports torch.

Every function takes plain values, writes its result to files under temporary names first, and leaves alone what an
earlier run finished. Only paths and numbers travel between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.cleaning.chain import Step
from pipeline.held_out import is_held_out
from pipeline.jobs.range_work import batches, open_range, spill_hashes, tokenizer_of
from pipeline.jobs.reading import Task, cleaned, fingerprint
from pipeline.jobs.shard_directory import DirectorySettings
from pipeline.jobs.tally import Tally, add_length, length_histogram
from pipeline.manifest import FORMAT_VERSION, ShardInfo, Split
from pipeline.packing import assemble, pack
from pipeline.records import text_hash
from pipeline.shards import IdType, ShardWriter, id_dtype
from pipeline.sources import Corpus
from pipeline.tokenizer import special_ids
from pipeline.word_cache import TextEncoder, encoder


@dataclass(frozen=True)
class Settings(DirectorySettings):
    """What all ranges of one run share. The shards have these `columns`."""

    corpus: Corpus
    cleaning: Step
    row_length: int
    held_out_share: float
    columns: tuple[str, ...] = ()

    def identity(self, task: Task) -> str:
        """A hash of all that decides a range's shards except which of its documents are duplicates."""
        return fingerprint(
            task.inputs,
            self.tokenizer_hash,
            self.row_length,
            self.held_out_share,
            self.generation,
            FORMAT_VERSION,
            *self.columns,
        )


def hash_range(task: Task, settings: Settings) -> tuple[int, str]:
    """First pass over a range: the hashes of its documents, spilled. Returns its number and the file."""
    return spill_hashes(task, settings, cleaned_hashes(task, settings))


def cleaned_hashes(task: Task, settings: Settings) -> Iterator[tuple[int, bytes]]:
    """(index, hash of the cleaned text) of each document of a range that cleaning keeps."""
    for record in cleaned(settings.corpus, task.range, settings.cleaning):
        if record.fate == "kept":
            yield record.index, text_hash(record.text)


def write_range(task: Task, duplicate_files: Iterable[str], settings: Settings) -> str:
    """Second pass over a range: read, clean, drop, tokenize, pack and write; the sidecar last. Returns the range's id.

    A range whose sidecar and shards are those of the same fingerprint is left as it is.
    """
    work = open_range(task, duplicate_files, settings)
    if work is None:
        return task.range.id
    tokenizer, cache = tokenizer_of(settings, word_start="word_start" in settings.columns)
    tally, lengths = Tally(), length_histogram()
    dtype = id_dtype(tokenizer.get_vocab_size())
    splits: dict[Split, _Tokens] = {
        split: _Tokens(dtype, marked=bool(settings.columns)) for split in ("train", "validation")
    }
    codec: TextEncoder | None = None
    records = tally.count(cleaned(settings.corpus, task.range, settings.cleaning), work.duplicates)
    for batch in batches(records, lambda record: len(record.text)):
        texts = [record.text for record in batch]
        codec = codec or encoder(tokenizer, texts, cache, settings.columns)
        ids, offsets = codec.encode(texts)
        for record, begin, end in zip(batch, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            if begin == end:
                tally.reject("no_tokens")
                continue
            add_length(lengths, end - begin)
            held_out = is_held_out(text_hash(record.text), settings.held_out_share)
            splits["validation" if held_out else "train"].add(ids[begin:end], record.key)
    specials = special_ids(tokenizer)
    shards = [
        _write_shard(settings, task, split, tokens, specials) for split, tokens in splits.items() if tokens.lengths
    ]
    work.close(shards, tally, lengths=lengths.tolist())
    return task.range.id


class _Tokens:
    """The ids of the documents of one split of a range, growing; `marked` ids take 32 bits until they are written."""

    def __init__(self, dtype: IdType, marked: bool) -> None:
        self.dtype = dtype
        self._held_as = "uint32" if marked else dtype
        self.ids: list[NDArray[np.unsignedinteger]] = []
        self.lengths: list[int] = []
        self.keys: list[int] = []

    def add(self, ids: NDArray[np.int64], key: int) -> None:
        """Add one document."""
        self.ids.append(ids.astype(self._held_as))
        self.lengths.append(len(ids))
        self.keys.append(key)


def _write_shard(settings: Settings, task: Task, split: Split, tokens: _Tokens, specials: dict[str, int]) -> ShardInfo:
    lengths = np.array(tokens.lengths, dtype=np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    path = f"{settings.shards}/{task.range.id}.{split}.arrow"
    with ShardWriter(settings.directory, path, split, settings.row_length, tokens.dtype, settings.columns) as writer:
        blocks = assemble(
            pack(lengths, settings.row_length),
            np.concatenate(tokens.ids),
            offsets,
            np.array(tokens.keys, dtype=np.uint64),
            specials["cls"],
            specials["sep"],
        )
        for block in blocks:
            writer.write(block)
        return writer.close()
