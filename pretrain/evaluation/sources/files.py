"""Finds a data set's files in a folder or an archive, whatever folders lie around them. Must not import torch.

A file's place is the list of its folders, in which an archive counts as a folder of its own name: the member
`RTE/dev.tsv` of `RTE.zip` lies at `RTE/dev.tsv`, the member `final/dev.tsv` of `paws.tar.gz` at `paws/final/dev.tsv`.
So one pattern finds a set that was unpacked, one that was not, and one with archives kept in folders of their name.
"""

import fnmatch
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from conf.errors import InputError

ARCHIVE = re.compile(r"(.+)\.(zip|tar|tgz|tar\.gz)", re.IGNORECASE)
BOM = "\ufeff"
NOT_DATA = "__MACOSX"
DAMAGED_ARCHIVE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError)


@dataclass(frozen=True)
class DataFile:
    """One file of a data set: in a folder, or the member `member` of the archive `path`.

    `place` is its folders and its name in lower case; `notes` collects what a reader left out, as sentences.
    """

    path: Path
    member: str | None
    place: tuple[str, ...]
    notes: list[str] = field(default_factory=list, compare=False)

    @property
    def name(self) -> str:
        """The file as a user would name it: `/data/RTE.zip/RTE/dev.tsv`."""
        return str(self.path) if self.member is None else f"{self.path}/{self.member}"

    def read(self) -> bytes:
        """The whole content.

        Raises:
            InputError: it cannot be opened, or the archive is damaged.
        """
        with self._open() as handle:
            return handle.read()

    def lines(self, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
        """Number and text of each line; only a line feed ends a line, a BOM is no part of the first.

        `str.splitlines` would cut at U+2028, U+0085 and form feeds as well, which texts do hold.

        Raises:
            InputError: as `read`; or a line is not UTF-8.
        """
        with self._open() as handle:
            for number, raw in enumerate(handle, start=1):
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(
                        f"'{self.name}', line {number}, must be UTF-8 text, but has {error.reason} at byte "
                        f"{error.start} of the line: convert the file"
                    ) from error
                if number == 1:
                    line = line.removeprefix(BOM)
                yield number, line if keep_ends else line.removesuffix("\n").removesuffix("\r")

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            if self.member is None:
                with self.path.open("rb") as handle:
                    yield handle
            elif zipfile.is_zipfile(self.path):
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as member:
                    yield member  # type: ignore[misc]  # IO[bytes] with all that is used of BinaryIO
            else:
                with tarfile.open(self.path) as tar:
                    content = tar.extractfile(self.member)
                    assert content is not None  # only regular files are listed
                    yield content  # type: ignore[misc]
        except DAMAGED_ARCHIVE as error:
            raise InputError(f"'{self.name}' cannot be read, the archive is damaged ({error}): get it again") from error
        except OSError as error:
            raise InputError(f"'{self.name}' cannot be read: {error.strerror or error}") from error


@dataclass
class TaskFiles:
    """All files below one place on disk: a folder of data sets, one set's folder, or an archive.

    `own` says that the place belongs to one task, so that the folder a set is usually kept in may have another name.
    `used` names the files that were read, in order; `notes` holds what readers left out.
    """

    root: Path
    own: bool = False
    used: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """List the files once.

        Raises:
            InputError: there is nothing at `root`, or it is a file and no archive.
        """
        root = self.root.resolve()
        if not root.exists():
            raise InputError(f"there is no folder or archive '{self.root}': give the place where the data sets lie")
        if root.is_file() and not ARCHIVE.fullmatch(root.name):
            raise InputError(f"'{self.root}' must be a folder, a zip or a tar archive, but is another kind of file")
        self.entries = sorted(_walk(root, self.notes), key=lambda entry: (len(entry.place), entry.place, entry.name))

    def find(self, pattern: str) -> list[DataFile]:
        """The files whose place ends with the pattern (`RTE/*.tsv`: a wild card stands for part of one name).

        The nearest come first. Case does not matter.
        """
        wanted = pattern.lower().split("/")
        return [entry for entry in self.entries if ends_with(entry.place, wanted)]


def ends_with(place: tuple[str, ...], wanted: list[str]) -> bool:
    """Whether the last folders of a place match the wanted names, all in lower case."""
    tail = place[len(place) - len(wanted) :] if len(wanted) <= len(place) else ()
    return len(tail) == len(wanted) and all(map(fnmatch.fnmatchcase, reversed(tail), reversed(wanted)))


def _walk(root: Path, notes: list[str]) -> Iterator[DataFile]:
    """Every file below the root, members of archives among them. A damaged archive is left out with a note."""
    paths = [root] if root.is_file() else _files_below(root)
    for path in paths:
        if not ARCHIVE.fullmatch(path.name):
            yield DataFile(path, None, _place(path.parts), notes)
            continue
        try:
            members = _members(path)
        except (*DAMAGED_ARCHIVE, OSError) as error:
            notes.append(f"'{path}' is left out, it cannot be read as an archive ({error})")
            continue
        for member in members:
            parts = PurePosixPath(member).parts
            if NOT_DATA not in parts and not parts[-1].startswith("."):
                yield DataFile(path, member, _place(path.parts + parts), notes)


def _files_below(root: Path) -> Iterator[Path]:
    seen: set[str] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # a link back to a folder above would never end
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != NOT_DATA)
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder) / name


def _members(path: Path) -> list[str]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    with tarfile.open(path) as tar:
        return [entry.name for entry in tar if entry.isfile()]


def _place(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Folders and name in lower case; an archive is a folder of its name, but not beside one of that name inside it."""
    place: list[str] = []
    for index, part in enumerate(parts):
        archive = ARCHIVE.fullmatch(part) if index < len(parts) - 1 else None
        if archive is None:
            place.append(part.lower())
        elif parts[index + 1].lower() != archive.group(1).lower():
            place.append(archive.group(1).lower())
    return tuple(place)
