"""The directory of translations: which chunks are finished, whose each is, and the manifest at the end.

    settings.json                 what the translations depend on, written by the first rank that comes
    translations/<chunk>.jsonl    a line a source: {"id", "source", "translations": [{"text", "score"}, ...]}, with
                                  score_with "reverse_score", "forward_score", "dual_score" (or null) beside "score"
    progress/<chunk>.json         written after the lines lie there whole: the mark that the chunk is finished
    manifest.json                 when all chunks are

Ranks need not know each other: each takes the next chunk that is neither finished nor locked. The lock is the kernel's,
so it ends with its process; where two file systems do not see each other's, a chunk is translated twice, to the same
bytes. Must not import torch.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conf.errors import InputError
from conf.files import atomic_write_text, atomic_writer, prepare_output_directory, sha256_file

FORMAT_VERSION = 1
SETTINGS, MANIFEST = "settings.json", "manifest.json"
# Of the settings, what the manifest says too; the last only where translations are scored.
_KEPT = ("tokenizer_hash", "checkpoint", "direction", "search", "score_with")
_TRANSLATIONS, _PROGRESS = "translations", "progress"


class OutputDirectory:
    """One job's output; any number of processes may have it open.

    Raises InputError if it cannot be written to, or was begun with other settings: the first that differs is named.
    """

    def __init__(self, path: str | Path, settings: Mapping[str, Any]) -> None:
        self.path = prepare_output_directory(path)
        self._translations, self._progress = self.path / _TRANSLATIONS, self.path / _PROGRESS
        known = _read(self.path / SETTINGS)
        if known is None:
            others = [entry.name for entry in self.path.iterdir() if not entry.name.startswith(".")]
            if others:
                raise InputError(
                    f"output '{self.path}' must be empty or a translation that was begun, but holds '{min(others)}'; "
                    "choose another folder"
                )
            text = json.dumps(settings, indent=1, sort_keys=True, ensure_ascii=False)
            atomic_write_text(self.path / SETTINGS, text + "\n")
        else:
            self._compare(known, json.loads(json.dumps(settings)))
        for folder in (self._translations, self._progress):
            folder.mkdir(exist_ok=True)
        self.settings = settings

    def _compare(self, before: Any, now: Mapping[str, Any]) -> None:
        for name in sorted({*_flat(before), *_flat(now)}):
            first, second = _flat(before).get(name, "nothing"), _flat(now).get(name, "nothing")
            if first != second:
                raise InputError(
                    f"'{self.path}' was begun with {name}={first}, but now it is {second}: choose another output, or "
                    "give what it was begun with"
                )

    @property
    def complete(self) -> bool:
        """Whether the manifest is there."""
        return (self.path / MANIFEST).is_file()

    def lines_path(self, chunk: str) -> Path:
        """Where the lines of a chunk go."""
        return self._translations / f"{chunk}.jsonl"

    def finished(self, chunk: str) -> dict[str, Any] | None:
        """What was noted of a finished chunk: its lines, bytes, checksum and counts; None if it is not finished."""
        try:
            record = json.loads((self._progress / f"{chunk}.json").read_text(encoding="utf-8"))
            same = self.lines_path(chunk).stat().st_size == record["bytes"]
        except (FileNotFoundError, ValueError, KeyError):
            return None
        return dict(record) if same else None

    @contextlib.contextmanager
    def claim(self, chunk: str) -> Iterator[bool]:
        """Whether this process may translate the chunk: it is not finished, and no other process is at it."""
        lock = self._progress / f".{chunk}.lock"
        with lock.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            if self.finished(chunk) is not None:
                lock.unlink(missing_ok=True)
                yield False
                return
            for left in (*self._translations.glob(f".{chunk}.*.tmp"), *self._progress.glob(f".{chunk}.*.tmp")):
                left.unlink(missing_ok=True)  # of a process that was killed
            try:
                yield True
            finally:
                lock.unlink(missing_ok=True)

    def write(self, chunk: str, lines: Sequence[Mapping[str, Any]], counts: Mapping[str, int]) -> None:
        """Write a chunk's lines, then the mark that it is finished."""
        path = self.lines_path(chunk)
        digest, size = hashlib.sha256(), 0
        with atomic_writer(path) as handle:
            for line in lines:
                data = (json.dumps(line, ensure_ascii=False) + "\n").encode()
                digest.update(data)
                size += len(data)
                handle.write(data)
        record = {
            "lines": len(lines),
            "bytes": size,
            "checksum": f"sha256:{digest.hexdigest()}",
            "counts": dict(counts),
        }
        atomic_write_text(self._progress / f"{chunk}.json", json.dumps(record, sort_keys=True) + "\n")

    def finish(self, chunks: Sequence[str], names: Sequence[str]) -> dict[str, int]:
        """Write the manifest of these chunks, which must all be finished -> its counts.

        `names` are the counts that are there even when they are 0. The manifest is a function of the input and the
        settings, whatever ranks there were.
        """
        counts: Counter[str] = Counter({"read": 0} | dict.fromkeys(names, 0))
        entries = []
        for chunk in chunks:
            record = self.finished(chunk)
            if record is None:
                raise InputError(f"the chunk '{chunk}' in '{self.path}' was removed meanwhile: run the command again")
            path = f"{_TRANSLATIONS}/{chunk}.jsonl"
            entries.append({"path": path, "lines": record["lines"], "checksum": record["checksum"]})
            counts.update(record["counts"])
            counts["read"] += record["lines"]
        kept = {name: self.settings[name] for name in _KEPT if name in self.settings}
        manifest = {
            "format_version": FORMAT_VERSION,
            "counts": dict(counts),
            **kept,
            "chunks": entries,
            "content_hash": _hash([FORMAT_VERSION, kept, entries]),
        }
        text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False)
        atomic_write_text(self.path / MANIFEST, text + "\n")
        return dict(counts)

    def verify(self) -> dict[str, Any]:
        """`verified_manifest` of this output."""
        return verified_manifest(self.path)


def verified_manifest(output: Path) -> dict[str, Any]:
    """Read the manifest and check every chunk against it. Raises InputError for the first that does not match."""
    manifest = _read(output / MANIFEST)
    if manifest is None:
        raise InputError(
            f"'{output}' is no finished translation: there is no {MANIFEST} in it; run `python -m pretrain.translate` "
            "to its end"
        )
    if not isinstance(manifest, dict) or not isinstance(manifest.get("chunks"), list):
        raise InputError(f"'{output}' holds no translations: name the output of `python -m pretrain.translate`")
    for entry in manifest["chunks"]:
        path = output / entry["path"]
        found = f"sha256:{sha256_file(path)}" if path.is_file() else "missing"
        if found != entry["checksum"]:
            raise InputError(f"'{path}' must have the checksum {entry['checksum']}, but is {found}")
    return dict(manifest)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"'{path}' cannot be read as JSON ({error}): choose another output") from error


def _hash(value: Any) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested mappings and lists as one: `decoding.beams`, `input.files.0.name`."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {name: leaf for key, one in items for name, leaf in _flat(one, f"{path}.{key}".lstrip(".")).items()}
    return {path: value}


def verified_lines(directory: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of a finished output, in the order of its input.

    Raises InputError for a folder that is not one, is not finished, or does not match its manifest.
    """
    output = Path(directory)
    for entry in verified_manifest(output)["chunks"]:
        with (output / entry["path"]).open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
