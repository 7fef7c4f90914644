"""What a run reads: one shard directory, or several that are mixed by weight, as numbered rows in the run's order.

A row is a packed one, or of pairs of sentences a batch (`pair_batches.py`). The order is `pretrain.data.order`'s.
Must not import torch, an objective or the loader.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError
from pipeline.manifest import Split
from pipeline.pair_shards import PairReader
from pipeline.shards import Manifest, Rows, ShardReader, ShardRows
from pretrain.data.counter import UInt64Array, derive_key, hash_coordinates
from pretrain.data.directories import Data, directories_of, weights_of
from pretrain.data.order import BLOCK, Int64Array, apportion, permute, rows_of_samples, samples_of_mixture
from pretrain.data.pair_batches import PairBatches, PairReading, PairsOfRows, joined
from pretrain.data.skip_list import read_skip_list, rows_to_skip

_PARTNER = derive_key("partner")
# What must be alike in all directories of a mixture, with the words of an error sentence for it.
_ALIKE = {
    "kind": "kind of rows",
    "tokenizer_hash": "tokenizer",
    "vocab_size": "vocabulary size",
    "row_length": "row length",
}


@dataclass(frozen=True)
class Source:
    """One shard directory of a mixture; `weight` is relative to the others', `skipped_rows` get weight 0, `language`
    is the number of its language, if languages are named.

    Pickled as what it reads and not as what is open: another process maps the files anew, without checking them again.
    """

    directory: Path
    weight: float
    reader: ShardRows | PairBatches
    skipped_rows: frozenset[int] = frozenset()
    split: Split = "train"
    language: int | None = None

    def __reduce__(self) -> tuple[Callable[..., "Source"], tuple[Any, ...]]:
        """Return how to make the same source in another process."""
        rule = (self.reader.max_tokens, self.reader.swapped) if isinstance(self.reader, PairBatches) else None
        known = (self.directory, self.weight, self.reader.manifest, self.skipped_rows, self.split, self.language)
        return _reopened, (*known, rule)

    def is_skipped(self, rows: Int64Array) -> NDArray[np.bool_]:
        """Return which of `rows` [R] are on the skip list."""
        if not self.skipped_rows:
            return np.zeros(len(rows), dtype=bool)
        return np.array([row in self.skipped_rows for row in rows.tolist()], dtype=bool)


def _reopened(
    directory: Path,
    weight: float,
    manifest: Manifest,
    skipped: frozenset[int],
    split: Split,
    language: int | None,
    rule: tuple[int, bool] | None,
) -> Source:
    reader = ShardRows(directory, manifest, split) if rule is None else PairBatches(directory, manifest, split, *rule)
    return Source(directory, weight, reader, skipped, split, language)


@dataclass(frozen=True)
class Picked:
    """Rows by number: whose they are (an index into the mixture's sources), which, and how often they came before.

    Three int64 [n].
    """

    source: Int64Array
    rows: Int64Array
    visits: Int64Array

    def __getitem__(self, part: slice) -> "Picked":
        """Return a part of them."""
        return Picked(self.source[part], self.rows[part], self.visits[part])


class Mixture:
    """One or more sources. Several are kept by content hash, so their order in the configuration means nothing.

    The weights hold exactly in every block of 65,536 samples, to one sample in 65,536 (0.0015 percentage points).
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sorted(sources, key=lambda source: source.reader.content_hash))
        self.shares = tuple(apportion([source.weight for source in self.sources], BLOCK)) if sources else ()
        for source, share in zip(self.sources, self.shares, strict=True):
            if share == 0:
                raise InputError(
                    f"the weight of '{source.directory}' must give it at least one row in {BLOCK}, but is "
                    f"{source.weight:g}, which gives it none: raise it or leave the directory out."
                )
        self._hashes = [source.reader.content_hash for source in self.sources]
        known = [source.language for source in self.sources if source.language is not None]
        self._languages = np.array(known, dtype=np.int64) if known else None
        identity = json.dumps([list(pair) for pair in zip(self._hashes, self.shares, strict=True)])
        self._order_key = "sha256:" + hashlib.sha256(identity.encode()).hexdigest()

    def __len__(self) -> int:
        """Rows of all sources together."""
        return sum(len(source.reader) for source in self.sources)

    @property
    def key(self) -> str:
        """A name for what is read: mixtures with the same key (and seed) have the same order.

        Of one directory it is the content hash; of several, a hash over theirs and the weights. Languages, where they
        are named, belong to what is read and so to the key, but the order does not depend on them.
        """
        plain = self._hashes[0] if len(self.sources) == 1 else self._order_key
        if self._languages is None:
            return plain
        identity = json.dumps([plain, self._languages.tolist()])
        return "sha256:" + hashlib.sha256(identity.encode()).hexdigest()

    @property
    def manifest(self) -> Manifest:
        """The manifest of one of the sources, for what is alike in all: tokenizer, vocabulary, row length."""
        return self.sources[0].reader.manifest

    @property
    def direction(self) -> tuple[str, str] | None:
        """The languages of the sources and of the targets, alike in all; None for rows that are no pairs."""
        reader = self.sources[0].reader
        return reader.direction if isinstance(reader, PairBatches) else None

    @property
    def tokens_per_row(self) -> int:
        """The tokens of a full row: its places, or of pairs the budget of a batch."""
        reader = self.sources[0].reader
        return reader.max_tokens if isinstance(reader, PairBatches) else reader.row_length

    def pick(self, seed: int, first_sample: int, count: int) -> Picked:
        """Return the rows of the samples first_sample ... first_sample + count - 1 of a run.

        A pure function of its arguments, the sources' rows and the weights. Costs O(count), with several sources
        O(count + BLOCK), wherever `first_sample` is and however many rows there are.
        """
        if len(self.sources) == 1:
            samples = np.arange(first_sample, first_sample + count, dtype=np.int64)
            # The key of runs with one directory, which a checkpoint of such a run goes on with.
            rows, visits = rows_of_samples(samples, len(self.sources[0].reader), "row order", seed)
            return Picked(np.zeros(count, dtype=np.int64), rows, visits)
        sources, samples = samples_of_mixture(seed, self._order_key, self.shares, first_sample, count)
        rows, visits = np.empty_like(samples), np.empty_like(samples)
        for number, source in enumerate(self.sources):
            mine = sources == number
            rows[mine], visits[mine] = rows_of_samples(
                samples[mine], len(source.reader), "row order", seed, self._hashes[number]
            )
        return Picked(sources, rows, visits)

    def read(
        self, picked: Picked, columns: Sequence[str] = (), watch: Callable[[int], None] = lambda source: None
    ) -> Rows | PairsOfRows:
        """Return the rows of `picked` [R], in its order, with their languages if these are named.

        `watch` is told the number of a source before it is read.
        """
        rows = self._read(picked, columns, watch)
        if self._languages is None or isinstance(rows, PairsOfRows):
            return rows
        return replace(rows, language=self._languages[picked.source])

    def _read(self, picked: Picked, columns: Sequence[str], watch: Callable[[int], None]) -> Rows | PairsOfRows:
        parts: list[Rows | PairsOfRows] = []
        places = []
        for number in np.unique(picked.source).tolist():
            watch(number)
            mine = np.flatnonzero(picked.source == number)
            parts.append(self.sources[number].reader.rows(picked.rows[mine], columns))
            places.append(mine)
        if len(parts) == 1:
            return parts[0]
        pairs = [part for part in parts if isinstance(part, PairsOfRows)]
        if pairs:
            return joined(pairs, places)
        back = np.argsort(np.concatenate(places))

        def merged(name: str) -> Any:
            columns_read = [getattr(part, name) for part in parts]
            return None if columns_read[0] is None else np.concatenate(columns_read)[back]

        return Rows(**{field.name: merged(field.name) for field in fields(Rows)})

    def used(self, picked: Picked) -> NDArray[np.bool_]:
        """Return which of `picked` [R] are not on the skip list."""
        used = np.ones(len(picked.rows), dtype=bool)
        for number, source in enumerate(self.sources):
            if source.skipped_rows:
                used[picked.source == number] = ~source.is_skipped(picked.rows[picked.source == number])
        return used

    def skipped_visits(self, seed: int, first_sample: int, count: int) -> int:
        """Return how many of the samples first_sample ... first_sample + count - 1 of a run are on the skip list."""
        if not any(source.skipped_rows for source in self.sources):
            return 0
        starts = range(first_sample, first_sample + count, BLOCK)
        parts = (self.pick(seed, start, min(BLOCK, first_sample + count - start)) for start in starts)
        return sum(int((~self.used(part)).sum()) for part in parts)

    def row_keys(self, picked: Picked, *purpose: int | str, visits: bool) -> UInt64Array:
        """Return the key of all random choices about each row, uint64 [R]: of `purpose`, the directory's content hash,
        the row's number and, with `visits`, how often it came before."""
        keys = np.concatenate([derive_key(*purpose, content_hash) for content_hash in self._hashes])
        return hash_coordinates(keys[picked.source], picked.rows, *([picked.visits] if visits else []))

    def require(self, columns: Sequence[str], partners: bool) -> None:
        """Raise InputError unless every source has the `columns` and, with `partners`, rows enough for pairs: a stage
        that is hours away is to fail now."""
        for source in self.sources:
            rows = np.zeros(1, dtype=np.int64)
            source.reader.rows(rows, columns)
            if partners:
                _others(source, rows, np.zeros(1, dtype=np.uint64))

    def partners(self, picked: Picked, row_keys: UInt64Array) -> Picked:
        """Choose for each of `picked` [R] another row of the same source, by its key, never itself or a skipped row.

        Raises InputError for a source without such a row.
        """
        words = hash_coordinates(row_keys, _PARTNER)
        rows = np.empty_like(picked.rows)
        for number, source in enumerate(self.sources):
            mine = picked.source == number
            rows[mine] = _others(source, picked.rows[mine], words[mine])
        return Picked(picked.source, rows, picked.visits)

    def held_out(self, rows: int) -> Picked:
        """Draw `rows` rows over all of every source, each once and the same in every run, in proportion to the weights.

        A source that has fewer than its share gives all it has, and the others the rest. Raises ValueError for more
        rows than there are.
        """
        if rows > len(self):
            raise ValueError(f"{rows} rows of a split that has {len(self)}")
        sizes = [len(source.reader) for source in self.sources]
        weights = [source.weight for source in self.sources]
        picked = []
        for number, share in enumerate(_shares_within(rows, weights, sizes)):
            purpose = ("validation rows",) if len(self.sources) == 1 else ("validation rows", self._hashes[number])
            drawn = permute(np.arange(share), sizes[number], derive_key(*purpose))
            picked.append((np.full(share, number), drawn))
        return Picked(
            np.concatenate([np.empty(0, np.int64), *(source for source, _ in picked)]),
            np.concatenate([np.empty(0, np.int64), *(drawn for _, drawn in picked)]),
            np.zeros(rows, dtype=np.int64),
        )


def _others(source: Source, rows: Int64Array, words: UInt64Array) -> Int64Array:
    """Choose for each row another of the source, as the words say; from a skipped one on, the next that will do."""
    size = len(source.reader)
    if len(rows) and size - len(source.skipped_rows) < 2:
        raise InputError(
            f"an objective with pairs of rows needs at least two rows that are not skipped in each of the shards, but "
            f"'{source.directory}' has {size - len(source.skipped_rows)} in its split '{source.split}'."
        )
    chosen = (rows + 1 + (words % np.uint64(max(size - 1, 1))).astype(np.int64)) % max(size, 1)
    while (wrong := source.is_skipped(chosen) | (chosen == rows)).any():
        chosen[wrong] = (chosen[wrong] + 1) % size
    return chosen


def _shares_within(places: int, weights: Sequence[float], limits: Sequence[int]) -> list[int]:
    """Share `places` out in proportion to `weights`, no share above its limit."""
    shares = [0] * len(weights)
    while places:
        open_ones = [i for i, limit in enumerate(limits) if shares[i] < limit]
        for i, share in zip(open_ones, apportion([weights[i] for i in open_ones], places), strict=True):
            taken = min(share, limits[i] - shares[i])
            shares[i] += taken
            places -= taken
    return shares


def open_mixture(
    data: Data,
    split: Split = "train",
    skip: str | Path | None = None,
    *,
    sampling_exponent: float | None = None,
    languages: Mapping[str, int] | None = None,
    pairs: PairReading | None = None,
) -> Mixture:
    """Open the shard directories of the option `data` for reading; `skip` is the file of the option `skip_rows`.

    Where `data` gives no weights they follow from the training rows of each and the `sampling_exponent`, for every
    split. With `languages` (directory -> number, `directories.languages_of`) rows know the number of their language.
    With `pairs` the shards hold pairs of sentences, read so, and a row is a batch of them (`pair_batches.py`).

    Checksums are not verified here (`pipeline.shards.verify` does that). The skip list names training rows, so other
    splits are read without it. Outside the training split a directory without rows is left out, even if none is left.

    Raises:
        InputError: a directory that is not whole, that has no training rows, that holds the same rows as another, or
            that holds no rows of the kind that is read, whose tokenizer, vocabulary or row length is not the others'; a
            weight or a line of the skip list that
            cannot be.
    """
    names = directories_of(data)
    directories = [Path(name) for name in names]
    readers = [_opened(directory, split, pairs) for directory in directories]
    for place, (directory, reader) in enumerate(zip(directories, readers, strict=True)):
        _require_alike(directories[0], readers[0], directory, reader)
        for other, before in zip(directories[:place], readers[:place], strict=True):
            if before.content_hash == reader.content_hash:
                raise InputError(
                    f"'{other}' and '{directory}' in data hold the same rows: name them once, with the sum of the "
                    "weights."
                )
        if not reader.manifest.rows("train"):
            raise InputError(f"the shards in '{directory}' hold no rows to train on: give the pipeline more text.")
    weights = weights_of(data, [reader.manifest.rows("train") for reader in readers], sampling_exponent)
    skips = read_skip_list(skip) if skip is not None and split == "train" else []
    sources = [
        Source(
            directory,
            weight,
            reader,
            rows_to_skip(skips, directory, reader.content_hash, len(reader)),
            split,
            None if languages is None else languages[name],
        )
        for name, directory, weight, reader in zip(names, directories, weights, readers, strict=True)
    ]
    return Mixture([source for source in sources if len(source.reader)])


def _opened(directory: Path, split: Split, pairs: PairReading | None) -> ShardRows | PairBatches:
    """A split of a directory, whose files are there. Raises InputError for rows of another kind than asked for."""
    if pairs is None:
        return ShardReader(directory, split, verify=False)
    manifest, into = PairReader(directory, split, verify=False).manifest, pairs.target_language
    if into is not None and into not in manifest.languages.values():
        raise InputError(
            f"the pairs in '{directory}' must have a side in objective.target_language={into}, but are of "
            f"{manifest.languages['source']} and {manifest.languages['target']}."
        )
    return PairBatches(directory, manifest, split, pairs.batch_tokens, into == manifest.languages["source"])


def _require_alike(
    first: Path, expected: ShardRows | PairBatches, directory: Path, found: ShardRows | PairBatches
) -> None:
    for name, words in _ALIKE.items():
        one, other = getattr(expected.manifest, name), getattr(found.manifest, name)
        if one != other:
            raise InputError(
                f"shards that are mixed must have the same {words}, but '{first}' has {one} and '{directory}' has "
                f"{other}: build them with the same tokenizer and job options."
            )
    if isinstance(expected, PairBatches) and isinstance(found, PairBatches) and expected.direction != found.direction:
        raise InputError(
            f"pairs that are mixed must have one direction, but those in '{first}' go from "
            f"{' to '.join(expected.direction)} and those in '{directory}' from {' to '.join(found.direction)}: set "
            "objective.target_language."
        )
