"""What workers do for the masked_lm job: hash a range, find duplicates, write a range's shards. Never imports torch.

Every function takes plain values, writes its result to files under temporary names first, and leaves alone what an
earlier run finished. Only paths and numbers travel between them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from conf.files import atomic_write_text
from pipeline.cleaning.chain import Step
from pipeline.dedup import duplicates_of, write_hashes
from pipeline.held_out import is_held_out
from pipeline.jobs.reading import Cleaned, cleaned, fingerprint
from pipeline.jobs.shard_directory import DirectorySettings, Task, final_fingerprint, is_complete, read_sidecar
from pipeline.jobs.tally import Tally, add_length, length_histogram
from pipeline.manifest import FORMAT_VERSION, ShardInfo, Split
from pipeline.packing import assemble, pack
from pipeline.records import text_hash
from pipeline.shards import IdType, ShardWriter, id_dtype
from pipeline.sources import Corpus
from pipeline.tokenizer import TOKENIZER, load_tokenizer, special_ids
from pipeline.word_cache import TextEncoder, WordCache, encoder

BATCH_CHARACTERS = 4_000_000


@dataclass(frozen=True)
class Settings(DirectorySettings):
    """What all ranges of one run share. `directory` holds the tokenizer and gets the shards, with these `columns`."""

    corpus: Corpus
    cleaning: Step
    tokenizer_hash: str
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
    path = settings.hashes(task)
    if not path.exists():
        records = list(cleaned_hashes(task, settings))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_hashes(path, [digest for _, digest in records], [index for index, _ in records])
    return task.number, str(path)


def cleaned_hashes(task: Task, settings: Settings) -> Iterator[tuple[int, bytes]]:
    """(index, hash of the cleaned text) of each document of a range that cleaning keeps."""
    for record in cleaned(settings.corpus, task.range, settings.cleaning):
        if record.fate == "kept":
            yield record.index, text_hash(record.text)


def write_range(task: Task, duplicate_files: Iterable[str], settings: Settings) -> str:
    """Second pass over a range: read, clean, drop, tokenize, pack and write; the sidecar last. Returns the range's id.

    A range whose sidecar and shards are those of the same fingerprint is left as it is.
    """
    duplicates = duplicates_of(task.number, sorted(Path(name) for name in duplicate_files))
    expected = final_fingerprint(task, settings, duplicates)
    sidecar = settings.sidecar(task)
    directory = Path(settings.directory)
    if is_complete(read_sidecar(sidecar), expected, directory, checksums=True):
        return task.range.id
    sidecar.unlink(missing_ok=True)
    sidecar.parent.mkdir(parents=True, exist_ok=True)
    tokenizer, cache = _loaded(
        str(directory / TOKENIZER), settings.tokenizer_hash, word_start="word_start" in settings.columns
    )
    tally, lengths = Tally(), length_histogram()
    dtype = id_dtype(tokenizer.get_vocab_size())
    splits: dict[Split, _Tokens] = {
        split: _Tokens(dtype, marked=bool(settings.columns)) for split in ("train", "validation")
    }
    codec: TextEncoder | None = None
    for batch in _batches(tally.count(cleaned(settings.corpus, task.range, settings.cleaning), duplicates)):
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
    summary = {
        "range": task.range.id,
        "fingerprint": expected,
        "identity": settings.identity(task),
        "shards": [asdict(shard) for shard in shards],
        "counts": asdict(tally.counts()),
        "failures": dict(sorted(tally.failures.items())),
        "examples": tally.examples,
        "lengths": lengths.tolist(),
    }
    atomic_write_text(sidecar, json.dumps(summary, indent=1, sort_keys=True) + "\n")
    return task.range.id


@functools.lru_cache(maxsize=1)
def _loaded(path: str, tokenizer_hash: str, word_start: bool) -> tuple[Tokenizer, WordCache]:
    """The tokenizer and its word cache, once per process; the hash is there to tell files apart."""
    tokenizer = load_tokenizer(path)
    return tokenizer, WordCache(tokenizer, word_start=word_start)


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


def _batches(records: Iterable[Cleaned]) -> Iterator[list[Cleaned]]:
    """Group records until a batch has BATCH_CHARACTERS."""
    batch: list[Cleaned] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


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
