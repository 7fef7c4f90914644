"""The manifest of a shard directory: what is in it, where it came from, and the checks that a reader makes.

Part of the contract between `pipeline` and `pretrain`: imports neither Beam nor torch. `manifest.json` is the last
file a job writes, so a directory without one is not complete, whatever else lies in it.
"""

from __future__ import annotations

import hashlib
import json
import typing
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from conf.errors import InputError
from conf.files import atomic_write_text

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
SPECIALS = ("pad", "unk", "cls", "sep", "mask")
SPLITS = ("train", "validation")
# What a row is, by the kind of a directory, and the job that writes it.
KINDS = {"masked_lm": ("packed rows of one text", "masked_lm"), "parallel": ("pairs of sentences", "parallel")}

Split = Literal["train", "validation"]


@dataclass(frozen=True)
class ShardInfo:
    """One shard file.

    `path` is relative to the shard directory, `tokens` counts the places that are not padding (special tokens
    included), `checksum` is "sha256:" and the hex digest of the file.
    """

    path: str
    split: str
    rows: int
    tokens: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Counts:
    """What became of the documents: read = kept + all of dropped + failed."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    failed: int = 0

    def __add__(self, other: Counts) -> Counts:
        dropped = dict(self.dropped)
        for reason, number in other.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + number
        return Counts(
            self.read + other.read, self.kept + other.kept, dict(sorted(dropped.items())), self.failed + other.failed
        )

    @property
    def balanced(self) -> bool:
        """Whether every document that was read is accounted for."""
        return self.read == self.kept + sum(self.dropped.values()) + self.failed


@dataclass(frozen=True)
class Manifest:
    """Everything a reader must know of a shard directory.

    `fill` is the share of places that are not padding, had every row (of pairs: both sides) `row_length` of them;
    `languages` are those of pairs: {"source": name, "target": name}.
    """

    format_version: int
    kind: str
    config: dict[str, Any]
    tokenizer_hash: str
    vocab_size: int
    special_ids: dict[str, int]
    dtype: str
    row_length: int
    shards: list[ShardInfo]
    counts: Counts
    sources: list[dict[str, Any]]
    content_hash: str
    fill: float
    code_version: str
    languages: dict[str, str] = field(default_factory=dict)

    def split(self, name: str) -> list[ShardInfo]:
        """The shards of one split, in order."""
        return [shard for shard in self.shards if shard.split == name]

    def rows(self, split: str) -> int:
        """How many rows a split has."""
        return sum(shard.rows for shard in self.split(split))


def content_hash(
    kind: str, row_length: int, dtype: str, tokenizer_hash: str, vocab_size: int, shards: list[ShardInfo]
) -> str:
    """One hash over all that shapes the rows: format, tokenizer, and every shard's name and checksum, in order."""
    identity = [
        FORMAT_VERSION,
        kind,
        row_length,
        dtype,
        tokenizer_hash,
        vocab_size,
        [asdict(shard) for shard in shards],
    ]
    return "sha256:" + hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def write_manifest(directory: str | Path, manifest: Manifest) -> None:
    """Write `manifest.json` whole or not at all. To be called when every other file is in place."""
    text = json.dumps(asdict(manifest), indent=1, sort_keys=True, ensure_ascii=False)
    atomic_write_text(Path(directory) / MANIFEST, text + "\n")


def read_manifest(directory: str | Path) -> Manifest:
    """Read and check `manifest.json`.

    Raises:
        InputError: there is none, or a field is missing, of another type, or contradicts another; file and field are
            named.
    """
    path = Path(directory) / MANIFEST
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(_no_shards(Path(directory))) from error
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read as JSON: {error}") from error
    if not isinstance(raw, dict):
        raise InputError(f"'{path}' must hold one JSON object, but holds a {type(raw).__name__}")
    if (other := _other(raw)) is not None:
        raise InputError(f"'{directory}' {other}")
    if raw.get("format_version") != FORMAT_VERSION:
        found = raw.get("format_version", "missing")
        raise InputError(
            f"'{path}': field 'format_version' must be {FORMAT_VERSION}, but is {found}; rebuild the shards"
        )
    values = _fields(raw, Manifest, path, "")
    values["shards"] = [
        ShardInfo(**_fields(shard, ShardInfo, path, f"shards[{i}].")) for i, shard in enumerate(values["shards"])
    ]
    values["counts"] = Counts(**_fields(values["counts"], Counts, path, "counts."))
    manifest = Manifest(**values)
    _check(manifest, path)
    return manifest


def _no_shards(directory: Path) -> str:
    """Say what a path without a manifest is instead, as far as one can tell."""
    writers = "`python -m pipeline job=masked_lm`, or job=parallel for pairs"
    wanted = f"name a directory that the pipeline wrote ({writers})"
    if directory.is_file():
        return f"'{directory}' is a file, not a shard directory: {wanted}"
    if not directory.exists() and any(sign in str(directory) for sign in "*?["):
        return f"'{directory}' is a pattern, but shards are named one directory by one: {wanted}"
    if (directory / "checkpoints").is_dir():
        return f"'{directory}' is a run, not shards: {wanted}"
    if (directory / "tokenizer.json").is_file() and not (directory / "shards").is_dir():
        return f"'{directory}' is a tokenizer, not shards: {wanted}"
    return (
        f"'{directory}' is not a finished shard directory: there is no {MANIFEST} in it; run the command that writes "
        f"it ({writers}) to its end"
    )


def _other(raw: dict[str, Any]) -> str | None:
    """What the manifest of another command is of, and what to do; None for one of shards, or anything else."""
    if "search" in raw and "chunks" in raw:
        return "holds translations, not shards: `python -m pipeline job=back_translation` makes shards of them"
    if raw.get("kind") == "tokenizer":
        return "is a tokenizer, not shards: `python -m pipeline job=masked_lm` or job=parallel makes shards with it"
    return None


def _fields(raw: Any, target: type, path: Path, prefix: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise InputError(f"'{path}': field '{prefix.rstrip('.')}' must be an object, but is {raw!r}")
    kinds = typing.get_type_hints(target)
    values = {}
    for item in fields(target):
        name = prefix + item.name
        if name == "languages" and name not in raw:
            continue  # written before there were pairs
        if item.name not in raw:
            raise InputError(f"'{path}': field '{name}' is missing; rebuild the shards")
        value, kind = raw[item.name], typing.get_origin(kinds[item.name]) or kinds[item.name]
        if kind is Counts:
            kind = dict
        allowed = (int, float) if kind is float else kind
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"'{path}': field '{name}' must be of type {kind.__name__}, but is {value!r}")
        values[item.name] = value
    return values


def _check(manifest: Manifest, path: Path) -> None:
    def refuse(name: str, expected: str, found: Any) -> None:
        raise InputError(f"'{path}': field '{name}' must be {expected}, but is {found!r}; rebuild the shards")

    if manifest.dtype not in ("uint16", "uint32"):
        refuse("dtype", "'uint16' or 'uint32'", manifest.dtype)
    if manifest.row_length < 3:
        refuse("row_length", "at least 3", manifest.row_length)
    for name in SPECIALS:
        number = manifest.special_ids.get(name)
        if not isinstance(number, int) or not 0 <= number < manifest.vocab_size:
            refuse(f"special_ids.{name}", f"an id below the vocabulary size {manifest.vocab_size}", number)
    for i, shard in enumerate(manifest.shards):
        if shard.split not in SPLITS:
            refuse(f"shards[{i}].split", "'train' or 'validation'", shard.split)
        if Path(shard.path).is_absolute() or ".." in Path(shard.path).parts:
            refuse(f"shards[{i}].path", "a path inside the shard directory", shard.path)
    if not manifest.counts.balanced:
        refuse("counts.read", "kept + dropped + failed", manifest.counts.read)
    expected = content_hash(
        manifest.kind,
        manifest.row_length,
        manifest.dtype,
        manifest.tokenizer_hash,
        manifest.vocab_size,
        manifest.shards,
    )
    if manifest.content_hash != expected:
        refuse("content_hash", f"{expected} (what the other fields give)", manifest.content_hash)
    if manifest.kind == "parallel":
        for side in ("source", "target"):
            if not isinstance(manifest.languages.get(side), str):
                refuse(f"languages.{side}", "the name of a language", manifest.languages.get(side))


def require_kind(manifest: Manifest, kind: str, directory: str | Path) -> None:
    """Refuse a directory whose rows are of another kind than the reader's.

    Raises:
        InputError: naming both kinds, and the job that writes the one that is wanted.
    """
    if manifest.kind != kind:
        wanted, job = KINDS[kind]
        found = KINDS.get(manifest.kind, ("rows of an unknown kind", ""))[0]
        raise InputError(
            f"'{directory}' must hold {wanted} (kind '{kind}'), but holds {found} (kind '{manifest.kind}'): name a "
            f"directory that `python -m pipeline job={job}` wrote"
        )
