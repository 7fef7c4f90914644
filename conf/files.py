"""Files that are whole or not there at all: atomic writes, fingerprints, the lock on an output directory.

Must not import anything of the project but `conf.errors`.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from conf.errors import InputError

BLOCK = 1 << 20
FULL_HASH_LIMIT = 64 * BLOCK
SAMPLED_BLOCKS = 64


def fsync_directory(directory: Path) -> None:
    """Make the names in a directory durable (a rename is lost in a power cut otherwise)."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def atomic_writer(path: str | Path) -> Iterator[BinaryIO]:
    """Write a file under a temporary name; it takes its name only when the block ends without an error.

    Yields a binary handle. The temporary file lies in the same directory and is removed on an error, so that a full
    disk or a kill leaves no file that looks complete.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    handle = temporary.open("wb")
    try:
        yield handle
        handle.flush()
        os.fsync(handle.fileno())
        handle.close()
        temporary.replace(path)
        fsync_directory(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):  # closing flushes, which fails again on a full disk
            handle.close()
        temporary.unlink(missing_ok=True)
        raise


def atomic_write_bytes(path: str | Path, data: bytes) -> None:
    """Write `data` to `path` whole or not at all."""
    with atomic_writer(path) as handle:
        handle.write(data)


def atomic_write_text(path: str | Path, text: str) -> None:
    """Write `text` as UTF-8 to `path` whole or not at all."""
    atomic_write_bytes(path, text.encode("utf-8"))


def sha256_file(path: str | Path) -> str:
    """SHA-256 of a file's content, as hex."""
    with Path(path).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def fingerprint_file(path: str | Path) -> str:
    """A short text that changes when the file's content does.

    Up to 64 MiB it is the SHA-256 of the content. A larger file is not read whole (a corpus of terabytes would cost
    hours before any work): its size, modification time and 64 evenly spaced blocks of 1 MiB, first and last among
    them, are hashed, and the text says so by its prefix.
    """
    path = Path(path)
    status = path.stat()
    if status.st_size <= FULL_HASH_LIMIT:
        return f"sha256:{sha256_file(path)}"
    digest = hashlib.sha256(f"{status.st_size}:{status.st_mtime_ns}".encode())
    last = status.st_size - BLOCK
    with path.open("rb") as handle:
        for index in range(SAMPLED_BLOCKS):
            handle.seek(last * index // (SAMPLED_BLOCKS - 1))
            digest.update(handle.read(BLOCK))
    return f"sampled:{digest.hexdigest()}"


def prepare_output_directory(path: str | Path) -> Path:
    """Create an output directory and prove that a file can be written into it.

    Raises:
        InputError: it cannot be created or written to; the sentence names it and the reason.
    """
    directory = Path(path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / f".write-test.{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, FileExistsError | NotADirectoryError):
            file = next((part for part in (directory, *directory.parents) if part.is_file()), directory)
            raise InputError(
                f"the output directory '{directory}' cannot be made, for '{file}' is a file: choose another"
            ) from error
        raise InputError(
            f"the output directory '{directory}' cannot be written to ({reason}): choose another or change its rights"
        ) from error
    return directory


def prepare_own_directory(path: str | Path, written: Collection[str], what: str) -> Path:
    """As `prepare_output_directory`, for a command that overwrites: nothing but its own files may be there.

    Args:
        path: the folder, by the option `output`.
        written: names of the files that the command writes; hidden ones do not count.
        what: the thing that an earlier run of the command left there, for the sentence.

    Raises:
        InputError: something else is in it.
    """
    directory = prepare_output_directory(path)
    others = [one.name for one in directory.iterdir() if one.name not in written and not one.name.startswith(".")]
    if others:
        raise InputError(
            f"output '{directory}' must be empty or {what}, but holds '{min(others)}'; choose another folder"
        )
    return directory


@contextlib.contextmanager
def directory_lock(path: str | Path, shared: bool = False, wait_seconds: float = 0.0) -> Iterator[None]:
    """Hold a directory as its only writer, or as one of several that write to different parts of it.

    The lock is the kernel's (`flock`), so it ends with the process however that ends; the file `.lock` names the
    holder for the other's error sentence.

    Args:
        path: the directory.
        shared: others that hold it so may hold it too.
        wait_seconds: how long another may hold it before that is an error.

    Raises:
        InputError: another process holds the directory.
    """
    directory = prepare_output_directory(path)
    lock_path = directory / ".lock"
    until = time.monotonic() + wait_seconds
    with lock_path.open("a+", encoding="utf-8") as handle:
        while True:
            try:
                fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    raise InputError(
                        f"'{directory}' is in use by another run ({_holder(lock_path)}): "
                        "wait for it, stop it, or choose another directory"
                    ) from error
                time.sleep(0.2)
        handle.truncate(0)
        handle.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}))
        handle.flush()
        yield


def _holder(lock_path: Path) -> str:
    try:
        record = json.loads(lock_path.read_text(encoding="utf-8"))
        return f"process {record['pid']} on {record['host']}"
    except (OSError, ValueError, KeyError):
        return "its holder has not written its name yet"
