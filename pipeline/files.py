"""Finding and opening a corpus's files: local paths and patterns, and the URLs that fsspec knows.

Order is fixed and duplicates are dropped here, so that the plan of a corpus is the same everywhere. Must import nothing
of the project but `conf` and the planning rule.
"""

import glob
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec

from conf.errors import InputError
from conf.files import fingerprint_file
from pipeline.ranges import SourceFile


def is_url(path: str) -> bool:
    """Whether a path is for fsspec (`s3://...`) and not of the local file system."""
    return "://" in path


def find_files(
    patterns: Sequence[str], storage_options: Mapping[str, Any], option: str = "corpus.paths"
) -> list[SourceFile]:
    """The files that patterns match: patterns in their order, each one's matches by name, each file once.

    Args:
        patterns: local paths or fsspec URLs; `*`, `?`, `[...]` and `**` match. Relative ones start at the working
            directory.
        storage_options: given to fsspec (endpoint, credentials) for URLs.
        option: what the user set them by, for the sentences of errors.

    Raises:
        InputError: no pattern is given, one matches no file, or one names a directory.
    """
    _require_a_pattern(patterns, option)
    found: dict[str, SourceFile] = {}
    for pattern in patterns:
        if is_url(pattern):
            matches = _find_remote(pattern, storage_options)
        else:
            matches = [local_file(path.absolute(), name) for path, name in _local_matches(pattern)]
        if not matches:
            raise _no_match(pattern, option)
        for file in matches:
            found.setdefault(file.path, file)
    return list(found.values())


def require_files(patterns: Sequence[str], storage_options: Mapping[str, Any], option: str = "corpus.paths") -> None:
    """Refuse what `find_files` would refuse for its name, without opening a file.

    Raises:
        InputError: no pattern is given, one matches no file, or one names a directory.
    """
    _require_a_pattern(patterns, option)
    for pattern in patterns:
        if not (_find_remote(pattern, storage_options) if is_url(pattern) else _local_matches(pattern)):
            raise _no_match(pattern, option)


def _require_a_pattern(patterns: Sequence[str], option: str) -> None:
    if not patterns:
        raise InputError(
            f"option '{option}' must name at least one file: add {option}='[/data/*.jsonl.gz]' to the command line"
        )


def _no_match(pattern: str, option: str) -> InputError:
    return InputError(
        f"corpus path '{pattern}' matches no file (working directory {Path.cwd()}): "
        f"check {option}, and quote patterns so that the shell leaves them alone"
    )


def _local_matches(pattern: str) -> list[tuple[Path, str]]:
    """The files that a pattern matches, each with its name relative to the pattern's fixed folder."""
    path = Path(pattern).expanduser()
    if path.is_dir():
        raise _is_directory(pattern)
    if path.exists():  # also a file whose name happens to hold [ or *
        base, matches = path.parent, [path]
    else:
        base = Path(_fixed_directory(str(path)))
        wildcards = str(path.relative_to(base))
        matches = sorted(match for match in base.glob(wildcards) if match.is_file() and not _hidden(match, base))
    return [(match, str(match.relative_to(base))) for match in matches]


def _is_directory(pattern: str) -> InputError:
    return InputError(f"corpus path '{pattern}' is a directory: name its files, for example '{pattern}/*.jsonl.gz'")


def _hidden(path: Path, base: Path) -> bool:
    """Whether a pattern should pass over a match: lock files and unfinished files of ours start with a dot."""
    return any(part.startswith(".") for part in path.relative_to(base).parts)


def local_file(path: Path, name: str) -> SourceFile:
    """A local file with its size and fingerprint.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return SourceFile(str(path), path.stat().st_size, fingerprint_file(path), name)
    except OSError as error:
        raise InputError(f"corpus file '{path}' cannot be read: {error.strerror or error}") from error


def _find_remote(pattern: str, storage_options: Mapping[str, Any]) -> list[SourceFile]:
    try:
        system, path = fsspec.core.url_to_fs(pattern, **storage_options)
        literal = not glob.has_magic(path) or system.exists(path)
        if literal and system.isdir(path):
            raise _is_directory(pattern)
        paths = [path] if literal and system.exists(path) else [] if literal else system.glob(path)
        base = posixpath.dirname(path) if literal else _fixed_directory(path)
        files = []
        for match in sorted(set(paths)):
            info = system.info(match)
            if info.get("type") == "file":
                size = info.get("size")
                files.append(
                    SourceFile(
                        system.unstrip_protocol(match),
                        -1 if size is None else int(size),
                        _remote_fingerprint(info),
                        posixpath.relpath(match, base or "."),
                    )
                )
        return files
    except (OSError, ImportError, ValueError) as error:
        raise InputError(f"corpus path '{pattern}' cannot be read: {type(error).__name__}: {error}") from error


def _remote_fingerprint(info: Mapping[str, Any]) -> str:
    """What the store itself says of a file's version: nothing is downloaded for it."""
    marks = ("size", "ETag", "etag", "md5Hash", "crc32c", "content_md5", "LastModified", "mtime", "created")
    return "store:" + ",".join(f"{mark}={info[mark]}" for mark in marks if info.get(mark) is not None)


def _fixed_directory(pattern: str) -> str:
    """The directory part of a pattern before its first wildcard."""
    parts = pattern.split("/")
    fixed = next(index for index, part in enumerate(parts) if glob.has_magic(part) or index == len(parts) - 1)
    return "/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else ".")


def open_file(path: str, storage_options: Mapping[str, Any]) -> BinaryIO:
    """Open a planned file for reading bytes, unbuffered where it is local.

    Raises:
        OSError: it cannot be opened.
    """
    if is_url(path):
        handle: BinaryIO = fsspec.open(path, "rb", **storage_options).open()
        return handle
    return cast(BinaryIO, Path(path).open("rb", buffering=0))


def total_size(files: Iterable[SourceFile]) -> int:
    """Bytes of all files together; one of unknown size counts as 1, for it is not known to be empty."""
    return sum(1 if file.size < 0 else file.size for file in files)
