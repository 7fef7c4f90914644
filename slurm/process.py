"""Running one command: its output live and in a log, its whole process group ended with it.

On a terminal the command gets a terminal of its own (a pty), so that its progress bar shows; the log gets the same
lines without escape codes. Must not import the project's other packages, nor anything of `slurm`.
"""

import contextlib
import ctypes
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

ESCAPE_CODES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78cM]")
FORWARDED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)
PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.2
# How long processes that the command left behind get between SIGTERM and SIGKILL.
LEFT_BEHIND_SECONDS = 5.0
LONGEST_UNFINISHED_LINE = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        status: its exit status; negative for the signal that ended it.
        seconds: wall-clock time.
        tail: its last lines of output.
        stopped_by: the signal this process was sent while the command ran, or None.
    """

    status: int
    seconds: float
    tail: tuple[str, ...]
    stopped_by: signal.Signals | None


class PlainLines:
    """Turns what a program writes to a terminal into the lines a log should hold.

    A carriage return starts the line again (that is how a progress bar moves), escape codes are dropped.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        """Take what is to be called with each finished line."""
        self._write = write
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of output, cut anywhere."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._write(self._plain(line))
        if len(self._rest) > LONGEST_UNFINISHED_LINE:
            self._rest = self._rest[-LONGEST_UNFINISHED_LINE:].rpartition(b"\r")[2]

    def close(self) -> None:
        """Write the last line if it has no end."""
        if plain := self._plain(self._rest):
            self._write(plain)
        self._rest = b""

    @staticmethod
    def _plain(line: bytes) -> str:
        last = ESCAPE_CODES.sub(b"", line).rstrip(b"\r").rpartition(b"\r")[2]
        return last.decode("utf-8", errors="replace").rstrip()


def run_logged(
    arguments: Sequence[str], log_path: Path, append: bool, grace_seconds: float, tail_lines: int
) -> Outcome:
    """Run a command to its end, with its output shown and logged.

    The command leads a process group of its own. SIGINT, SIGTERM, SIGHUP and SIGUSR2 sent to this process go on to that
    group; what is still there `grace_seconds` later, or at a second signal, is killed. When the command has ended,
    however it did, nothing of its group is left. Should this process itself be killed, the kernel sends the command
    SIGTERM.

    Args:
        arguments: the command line.
        log_path: file for its output, standard output and error together.
        append: go on in an existing log.
        grace_seconds: how long a signalled command may take to save and end.
        tail_lines: how many last lines the outcome holds.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    tail: deque[str] = deque(maxlen=tail_lines)
    stopper = _Stopper(grace_seconds)
    begun = time.monotonic()
    with log_path.open("ab" if append else "wb") as log:
        log.write(f"# {datetime.now().astimezone().isoformat(timespec='seconds')} {shlex.join(arguments)}\n".encode())
        lines = PlainLines(lambda line: _keep(line, log, tail))
        with _signals_to(stopper), _output_channel() as (ours, theirs):
            process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                preexec_fn=_die_with_parent(),
            )
            os.close(theirs)
            stopper.started(process.pid)
            try:
                _copy(ours, process.pid, lines, log, stopper)
            finally:
                _end_group(process.pid)
                status = process.wait()
            lines.close()
            log.flush()
    return Outcome(status, time.monotonic() - begun, tuple(tail), stopper.received)


def shown_beside_errors() -> bool:
    """Whether standard output and standard error go to the same place, so that what one showed stands in the other."""
    try:
        outputs = [os.fstat(stream.fileno()) for stream in (sys.stdout, sys.stderr)]
    except (OSError, ValueError):
        return False
    return (outputs[0].st_dev, outputs[0].st_ino) == (outputs[1].st_dev, outputs[1].st_ino)


class _Stopper:
    """Passes signals on to a process group and counts down to its end."""

    def __init__(self, grace_seconds: float) -> None:
        self.received: signal.Signals | None = None
        self._grace = grace_seconds
        self._group: int | None = None
        self._deadline: float | None = None

    def started(self, group: int) -> None:
        self._group = group
        if self.received is not None:  # it came before there was a group
            _signal_group(group, self.received)

    def __call__(self, number: int, frame: object) -> None:
        second = self.received is not None
        self.received = self.received or signal.Signals(number)
        self._deadline = self._deadline or time.monotonic() + self._grace
        if self._group is not None:
            _signal_group(self._group, signal.SIGKILL if second else signal.Signals(number))

    def tick(self) -> None:
        if self._group is not None and self._deadline is not None and time.monotonic() > self._deadline:
            _signal_group(self._group, signal.SIGKILL)


@contextlib.contextmanager
def _signals_to(stopper: _Stopper) -> Iterator[None]:
    before = {number: signal.signal(number, stopper) for number in FORWARDED_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _output_channel() -> Iterator[tuple[int, int]]:
    """Our reading end and the command's writing end; the caller closes the latter once the command has it."""
    if sys.stdout.isatty():
        ours, theirs = pty.openpty()
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    else:
        ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    try:
        yield ours, theirs
    finally:
        os.close(ours)


def _copy(ours: int, pid: int, lines: PlainLines, log: BinaryIO, stopper: _Stopper) -> None:
    """Copy output until the command has ended and nothing it wrote is left to read."""
    open_ = True
    while True:
        ended = _has_ended(pid)  # asked before reading, so that its last words are read after it has ended
        if open_:
            readable, _, _ = select.select([ours], [], [], 0.0 if ended else POLL_SECONDS)
            data = b""
            if readable:
                with contextlib.suppress(OSError):  # a pty whose other end is closed says EIO instead of nothing
                    data = os.read(ours, 1 << 16)
                open_ = bool(data)
            if data:
                with contextlib.suppress(OSError):  # whoever read our output may have gone; the log goes on
                    sys.stdout.buffer.write(data)
                    sys.stdout.buffer.flush()
                lines.feed(data)
                log.flush()
                continue
        elif not ended:
            time.sleep(POLL_SECONDS)
        stopper.tick()
        if ended:
            # A process it left behind may hold the channel open: what was written by now has been read.
            return


def _keep(line: str, log: BinaryIO, tail: deque[str]) -> None:
    log.write(f"{line}\n".encode())
    if line:
        tail.append(line)


def _has_ended(pid: int) -> bool:
    """Whether our child has ended. It is not reaped, so that its number still stands for its group."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _end_group(group: int) -> None:
    """End every process of a group: ask, wait a little, kill. The leader must not have been reaped yet."""
    if not _has_ended(group):
        _signal_group(group, signal.SIGKILL)
        return
    deadline = time.monotonic() + LEFT_BEHIND_SECONDS
    _signal_group(group, signal.SIGTERM)
    while _living_members(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal_group(group, signal.SIGKILL)


def _living_members(group: int) -> bool:
    """Whether a process of the group is running; the unreaped leader, a zombie, does not count."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = entry.read_text().rpartition(")")[2].split()  # a program's name may hold spaces and brackets
            if int(fields[2]) == group and fields[0] not in ("Z", "X"):
                return True
    return False


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _die_with_parent() -> Callable[[], None] | None:
    """What the child does before the command starts: ask the kernel for SIGTERM at our death (Linux only)."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # we died before the kernel was asked
            os._exit(1)

    return ask
