"""Content hashes of files and folders, remembered so that a second look at an unchanged file costs one `stat`.

A hash is reused only while size, modification time, change time and inode are all the same; the kernel sets the change
time at every write, and no ordinary call can set it back. Must not import `pipeline` or `pretrain`.
"""

import fcntl
import glob
import json
import os
from collections.abc import Iterator
from pathlib import Path

from conf.files import atomic_write_text, fingerprint_file


class Fingerprints:
    """Content hashes by path, kept in a file between runs."""

    def __init__(self, store: Path) -> None:
        """Read what an earlier run stored; a store that is missing or damaged only costs time."""
        self._store = store
        self._known = _read(store)
        self._learnt: dict[str, list[int | str]] = {}

    def of(self, path: Path) -> str:
        """The content hash of a file (`conf.files.fingerprint_file`)."""
        status = path.stat()
        stamp: list[int | str] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        name = str(path.absolute())
        known = self._known.get(name)
        if isinstance(known, list) and known[:-1] == stamp:
            return str(known[-1])
        fingerprint = fingerprint_file(path)
        self._known[name] = self._learnt[name] = [*stamp, fingerprint]
        return fingerprint

    def save(self) -> None:
        """Add what was learnt to the store; steps that run side by side, on other machines too, keep each other's."""
        if not self._learnt:
            return
        self._store.parent.mkdir(parents=True, exist_ok=True)
        with self._store.with_name(f".{self._store.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            atomic_write_text(self._store, json.dumps(_read(self._store) | self._learnt))
        self._learnt = {}


def _read(store: Path) -> dict[str, list[int | str]]:
    try:
        known = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def files_below(path: Path) -> Iterator[Path]:
    """The file itself, or all files of a folder in the order of their names.

    Names that begin with a dot are left out: they are locks and temporary files.
    """
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder) / name


def matching(pattern: str) -> list[Path]:
    """What a path or glob names on this machine, sorted; empty when there is no such thing."""
    path = Path(pattern).expanduser()
    if path.exists():
        return [path]
    if glob.has_magic(pattern):
        # Path.glob takes no absolute pattern.
        return sorted(Path(found) for found in glob.glob(str(path), recursive=True))  # noqa: PTH207
    return []
