"""Content hashes of files and folders, remembered so that a second look at an unchanged file costs one `stat`.

A hash is reused only while size, modification time, change time and inode are all the same; the kernel sets the change
time at every write, and no ordinary call can set it back. Must not import `pipeline` or `pretrain`.
"""

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
        self._known: dict[str, list[int | str]] = {}
        self._changed = False
        try:
            known = json.loads(store.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        if isinstance(known, dict):
            self._known = known

    def of(self, path: Path) -> str:
        """The content hash of a file (`conf.files.fingerprint_file`)."""
        status = path.stat()
        stamp: list[int | str] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        name = str(path.absolute())
        known = self._known.get(name)
        if isinstance(known, list) and known[:-1] == stamp:
            return str(known[-1])
        fingerprint = fingerprint_file(path)
        self._known[name] = [*stamp, fingerprint]
        self._changed = True
        return fingerprint

    def save(self) -> None:
        """Store what was learnt. Call it with the run directory locked."""
        if self._changed:
            self._store.parent.mkdir(parents=True, exist_ok=True)
            atomic_write_text(self._store, json.dumps(self._known))
            self._changed = False


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
