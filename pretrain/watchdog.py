"""A thread in every rank that notices when a rank dies or hangs, names it, and ends the others in time.

    with watch(group, lambda: trainer.status, options.hang_seconds):
        trainer.fit()

The heartbeats (`pretrain.heartbeats`) go over TCP connections of their own to rank 0, so they need no collective call
and no main thread; rank 0 judges, and the others judge rank 0. The connections also tell at once when a process has
died, wherever it ran. (torch's TCPStore does not: it shows no lost client, its calls outlast their timeout when the
host is stopped, and each failed call prints a C++ trace.) Must not import torch or the trainer.
"""

import contextlib
import faulthandler
import json
import math
import os
import secrets
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from types import TracebackType
from typing import Protocol

import psutil

from conf.errors import InputError
from pretrain.heartbeats import GONE_SECONDS, Beat, Judge, Verdict, read_beat
from pretrain.launch import EXIT_HANG, STACK_OF

MAX_SILENCE_SECONDS = 60.0
_LEAVE_SECONDS = 10.0
_COLLECTIVE_CODE = (f"{os.sep}torch{os.sep}distributed{os.sep}", f"{os.sep}deepspeed{os.sep}comm{os.sep}")


class Status(Protocol):
    """What a rank is doing: the steps it has completed, a phase, and its begin as a time of `time.monotonic`."""

    @property
    def step(self) -> int:
        """Steps completed."""

    @property
    def phase(self) -> str:
        """What it does now."""

    @property
    def since(self) -> float:
        """When it began with that."""


class Ranks(Protocol):
    """As much of `pretrain.distributed.Group` as is needed to meet."""

    def gather(self, value: str) -> list[str]:
        """Return the values of all ranks."""

    def from_main(self, make: Callable[[], tuple[int, str]]) -> tuple[int, str]:
        """Return rank 0's value on all ranks."""


@contextlib.contextmanager
def watch(group: Ranks, rank: int, status: Callable[[], Status], hang_seconds: float | None) -> Iterator[None]:
    """Watch over all ranks while the block runs; entered by all of them together. None: do nothing.

    The process is ended with EXIT_HANG, after one sentence on stderr, when no rank has made progress for
    `hang_seconds` (6 times that in a phase that may be long, see `heartbeats.PATIENT_PHASES`, and in the first step),
    when a rank gave no sign of life for min(hang_seconds, 60), or a second after its process has died.
    """
    if hang_seconds is None:
        yield
        return
    watchdog = _Watchdog(group, rank, status, hang_seconds)
    try:
        yield
    except BaseException as error:
        if _is_of_a_collective(error):
            watchdog.await_verdict(error)  # a consequence; its cause is known in a moment, and ends the process
        watchdog.leave(ended="an error in input" if isinstance(error, InputError) else type(error).__name__)
        raise
    watchdog.leave()


class _Watchdog:
    """One rank's thread. On rank 0 it serves and judges; elsewhere it reports, and judges rank 0 alone."""

    def __init__(self, group: Ranks, rank: int, status: Callable[[], Status], hang_seconds: float) -> None:
        self._rank, self._status, self._host = rank, status, socket.gethostname()
        self._interval = min(max(hang_seconds / 10, 0.1), 5.0)
        silence = max(min(hang_seconds, MAX_SILENCE_SECONDS), 4 * self._interval)
        self._wait_for_verdict = silence + GONE_SECONDS + 8 * self._interval
        self._judge = Judge(hang_seconds if rank == 0 else math.inf, silence)
        self._number, self._first_step = 0, status().step
        self._ended: str | None = None
        self._failed = self._done = False
        self._over = threading.Event()
        hosts = group.gather(self._host)
        self._ranks = len(hosts)
        now = time.monotonic()
        for other, host in enumerate(hosts) if rank == 0 else [(0, hosts[0])]:
            self._judge.expect(Beat(other, host), now)
        listener: socket.socket | None = None

        def listen() -> tuple[int, str]:
            nonlocal listener
            listener = _listener()
            return listener.getsockname()[1], secrets.token_hex(16)

        port, token = group.from_main(listen)
        self._token = token.encode()
        self._worker: _Server | _Client
        if listener is not None:
            self._worker = _Server(self, listener)
        else:
            connection = socket.create_connection((os.environ.get("MASTER_ADDR", "127.0.0.1"), port), timeout=30.0)
            connection.settimeout(self._interval)
            self._worker = _Client(self, connection)
        self._thread = threading.Thread(target=self._worker.run, name="watchdog", daemon=True)
        self._thread.start()

    def await_verdict(self, error: BaseException) -> None:
        """Report that a collective call broke down and give the thread time to end this process with the reason."""
        if self._ranks == 1:
            return
        said = str(error).splitlines()[0]
        os.write(2, f"a collective call failed on rank {self._rank} ({said}): finding out which rank is why\n".encode())
        self._failed = True
        self._worker.wake()
        time.sleep(self._wait_for_verdict)

    def leave(self, ended: str | None = None) -> None:
        """Report that this rank leaves, in good order or with an error, and end the thread."""
        self._ended, self._done = ended, ended is None
        self._worker.wake()
        self._over.wait(_LEAVE_SECONDS)

    def beat(self) -> Beat:
        """Return the next heartbeat of this rank."""
        status = self._status()
        self._number += 1
        return Beat(
            self._rank,
            self._host,
            self._number,
            status.step,
            status.phase,
            status.since,
            waits=_waits_in_a_collective(),
            first=status.step == self._first_step,
            ended=self._ended,
            failed=self._failed,
            done=self._done,
        )

    @property
    def leaving(self) -> bool:
        """Whether the main thread is done or failed."""
        return self._done or self._ended is not None

    def end(self, verdict: Verdict) -> None:
        """End this process, whatever its main thread does. Writes past Python's buffers, whose locks it may hold."""
        os.write(
            2,
            f"error: {verdict.sentence}; the run goes on from its last checkpoint when it is started again\n".encode(),
        )
        if self._rank in verdict.culprits:
            os.write(2, f"{STACK_OF} rank {self._rank}:\n".encode())
            faulthandler.dump_traceback(file=2, all_threads=True)
        for child in psutil.Process().children(recursive=True):  # loader workers would wait for us for ever
            with contextlib.suppress(psutil.Error):
                child.kill()
        os._exit(EXIT_HANG)


class _Pace:
    """Notices that the whole process was suspended (SIGSTOP, a paused machine), so that nobody is blamed for it."""

    def __init__(self, longest: float) -> None:
        self._longest, self._last = longest, time.monotonic()

    def gap(self, now: float) -> float:
        """Return the seconds since the last call if they are more than a running process needs, else 0."""
        gap, self._last = now - self._last, now
        return gap if gap > self._longest else 0.0


class _Client:
    def __init__(self, watchdog: _Watchdog, connection: socket.socket) -> None:
        self._dog, self._connection, self._buffer = watchdog, connection, b""
        self._pace, self._woken = _Pace(3 * watchdog._interval + 0.5), threading.Event()

    def wake(self) -> None:
        """Have the thread look now at what the main thread has to report."""
        self._woken.set()

    def run(self) -> None:
        dog, judge, connected = self._dog, self._dog._judge, True
        while True:
            leaving = dog.leaving
            if connected:
                connected = self._exchange()
                if not connected:
                    judge.lose(0, time.monotonic())
            now = time.monotonic()
            judge.forgive(self._pace.gap(now))
            if leaving:
                self._connection.close()
                dog._over.set()
                return
            verdict = judge.verdict(now)
            if verdict is not None:
                dog.end(verdict)
            self._woken.wait(dog._interval)
            self._woken.clear()

    def _exchange(self) -> bool:
        """Send a heartbeat and take in the answer, if it comes in time. Return whether the connection stands."""
        try:
            self._connection.sendall(self._dog._token + b" " + self._dog.beat().line())
            data = self._connection.recv(1 << 16)
        except TimeoutError:
            return True
        except OSError:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            self._dog._judge.hear(Beat(**answer["beat"]), time.monotonic())
            if answer["verdict"] is not None:
                self._dog.end(Verdict(answer["verdict"]["sentence"], tuple(answer["verdict"]["culprits"])))
        return bool(data)


class _Server:
    def __init__(self, watchdog: _Watchdog, listener: socket.socket) -> None:
        self._dog, self._listener = watchdog, listener
        self._pace = _Pace(3 * watchdog._interval + 0.5)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._woken, self._waker = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._buffers: dict[socket.socket, bytes] = {}
        self._rank_of: dict[socket.socket, int] = {}
        self._verdict: Verdict | None = None
        self._answer = b""

    def wake(self) -> None:
        """Have the thread look now at what the main thread has to report."""
        self._waker.send(b"!")

    def run(self) -> None:
        dog, judge, due = self._dog, self._dog._judge, 0.0
        leave_by = end_by = math.inf
        while True:
            for key, _ in self._selector.select(dog._interval / 4):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._woken.recv(16)
                else:
                    self._read(key.fileobj)  # type: ignore[arg-type]
            now = time.monotonic()
            judge.forgive(self._pace.gap(now))
            leaving = dog.leaving
            if now < due and not leaving:
                continue
            due = now + dog._interval / 2
            self._hear_myself(now)
            if leaving:
                leave_by = min(leave_by, now + (_LEAVE_SECONDS / 2 if dog._done else 2 * dog._interval))
                if judge.reachable() in ([], [0]) or now > leave_by:
                    return self._close()
            elif self._verdict is None:
                self._verdict = judge.verdict(now)
                if self._verdict is not None:
                    end_by = now + 2 * dog._interval + 1.0
                    self._hear_myself(now)
                    for connection in list(self._rank_of):
                        self._send(connection)
            elif judge.reachable() in ([], [0]) or now > end_by:  # the others have been told
                dog.end(self._verdict)

    def _hear_myself(self, now: float) -> None:
        beat = self._dog.beat()
        self._dog._judge.hear(beat, now)
        verdict = None if self._verdict is None else asdict(self._verdict)
        self._answer = json.dumps({"beat": asdict(beat), "verdict": verdict}).encode() + b"\n"

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(1.0)
        self._buffers[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(1 << 16)
        except OSError:
            data = b""
        *lines, self._buffers[connection] = (self._buffers[connection] + data).split(b"\n")
        for line in lines:
            token, _, beat = line.partition(b" ")
            if not secrets.compare_digest(token, self._dog._token):
                data = b""  # not one of ours
                break
            heard = read_beat(beat)
            self._rank_of[connection] = heard.rank
            self._dog._judge.hear(heard, time.monotonic())
            self._send(connection)
        if not data:
            self._drop(connection)

    def _send(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the next read tells
            connection.sendall(self._answer)

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        connection.close()
        del self._buffers[connection]
        rank = self._rank_of.pop(connection, None)
        if rank is not None:
            self._dog._judge.lose(rank, time.monotonic())

    def _close(self) -> None:
        for connection in self._buffers:
            self._send(connection)  # how this rank ended
            connection.close()
        self._selector.close()
        for own in (self._listener, self._woken, self._waker):
            own.close()
        self._dog._over.set()


def _listener() -> socket.socket:
    """Listen on a free port: on the loopback device where all ranks meet there, else on every address."""
    if os.environ.get("MASTER_ADDR", "127.0.0.1") in ("127.0.0.1", "localhost"):
        return socket.create_server(("127.0.0.1", 0))
    with contextlib.suppress(OSError):  # a kernel without IPv6
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _waits_in_a_collective() -> bool:
    """Whether the main thread is now inside a function of torch's or DeepSpeed's communication."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _COLLECTIVE_CODE):
            return True
        frame = frame.f_back
    return False


def _is_of_a_collective(error: BaseException) -> bool:
    """Whether an error came out of torch's or DeepSpeed's communication: another rank is gone, or did not answer."""
    trace: TracebackType | None = error.__traceback__ if isinstance(error, RuntimeError) else None
    while trace is not None:
        if any(part in trace.tb_frame.f_code.co_filename for part in _COLLECTIVE_CODE):
            return True
        trace = trace.tb_next
    return False
