"""Starting the ranks of a run on this machine: `ranks=2` on a command line that no launcher has started.

Each rank is the same command with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT set, as torchrun would
set them. The parent only watches: it forwards signals, and when a rank fails it names it, shows its last lines, and
stops the others. Must not import torch.
"""

import contextlib
import math
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from conf.errors import InputError

LAUNCHER_PID = "PALIMPSEST_LAUNCHER_PID"  # tells a rank whose end is its own, too
KEPT_LINES = 400
SHOWN_LINES = 40
EXIT_PREEMPTED = 85  # saved after a signal; the marker file `requeue` lies in the run directory
EXIT_HANG = 86  # a rank died or hung; the watchdog of every other rank has named it
STACK_OF = "the stack of"  # begins the line before the stack of a rank that held up the others
_EXIT_BAD_INPUT = 2
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05
_ONE_PRESS_SECONDS = 1.0
_PORTS, _PORT_TRIES = range(10000, 20000), 100  # a Slurm job's own port is 20000 and more


@dataclass
class _Process:
    rank: int
    popen: subprocess.Popen[bytes]
    lines: deque[str]


def free_port() -> int:
    """Return a TCP port that is free on this machine now.

    One below those that the system gives to outgoing connections (32768 and more on Linux): any process could be given
    such a one between this call and the rendezvous. And a random one, so that two runs that start at once do not meet.
    """
    for port in random.SystemRandom().sample(_PORTS, _PORT_TRIES):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("", port))
            return port
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def usable_cores() -> int:
    """Return how many CPU cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rank_environment(base: Mapping[str, str], rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the environment of one local rank: `base` and what torchrun would add; cores shared evenly."""
    threads = max(1, usable_cores() // ranks)
    return {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        # Host names need not resolve on a laptop; ranks of one machine meet over the loopback device.
        **({"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}),
        **base,
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        LAUNCHER_PID: str(os.getpid()),
        "PYTHONUNBUFFERED": "1",
    }


def run_ranks(commands: Sequence[Sequence[str]]) -> int:
    """Run one command for each local rank to its end and return the exit code of the whole.

    0 if every rank ended with 0; EXIT_PREEMPTED if they saved after a signal; EXIT_HANG if they named a rank that held
    them up; else the code of the rank that failed first (128 + n if signal n killed it), whose last lines are then
    shown on stderr. Rank 0 writes straight to our terminal. SIGINT, SIGTERM and SIGUSR2 go on to the ranks.

    Raises KeyboardInterrupt for a second Ctrl-C: what they are doing is then given up.
    """
    if not commands:
        raise InputError("ranks must be at least 1, but is 0.")
    port = free_port()
    processes = [_start(rank, command, len(commands), port) for rank, command in enumerate(commands)]
    grace = _GRACE_SECONDS
    try:
        with _forwarded_signals(processes):
            failed = _first_failure(processes)
        if failed is None:
            return 0
        code = _report(failed, processes)
        if code == EXIT_HANG:  # what is left neither saves nor listens
            grace = 0.0
        return code
    finally:
        _stop(processes, grace)


def _start(rank: int, command: Sequence[str], ranks: int, port: int) -> _Process:
    captured = subprocess.PIPE if rank > 0 else None
    popen = subprocess.Popen(
        list(command),
        env=rank_environment(os.environ, rank, ranks, port),
        stdout=captured,
        stderr=subprocess.STDOUT if rank > 0 else None,
        start_new_session=True,  # Ctrl-C reaches the ranks once, from us
    )
    process = _Process(rank, popen, deque(maxlen=KEPT_LINES))
    if popen.stdout is not None:
        threading.Thread(target=_drain, args=(popen.stdout, process.lines), daemon=True).start()
    return process


def _drain(stream: Iterator[bytes], lines: deque[str]) -> None:
    for line in stream:
        lines.append(line.decode(errors="replace").rstrip("\n"))


@contextlib.contextmanager
def _forwarded_signals(processes: Sequence[_Process]) -> Iterator[None]:
    interrupted = math.inf

    def forward(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if number == signal.SIGINT:
            if time.monotonic() - interrupted > _ONE_PRESS_SECONDS:
                raise KeyboardInterrupt
            interrupted = min(interrupted, time.monotonic())
        for process in processes:
            if process.popen.poll() is None:
                process.popen.send_signal(number)

    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
    before = {kind: signal.signal(kind, forward) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _first_failure(processes: Sequence[_Process]) -> _Process | None:
    """Wait until all ranks ended well (None) or one ended otherwise (that one)."""
    while True:
        codes = [process.popen.poll() for process in processes]
        for process, code in zip(processes, codes, strict=True):
            if code:
                return process
        if all(code == 0 for code in codes):
            return None
        time.sleep(_POLL_SECONDS)


def _report(failed: _Process, processes: Sequence[_Process]) -> int:
    code = failed.popen.returncode
    if code in (EXIT_PREEMPTED, _EXIT_BAD_INPUT):
        # The ranks agree on such an end, and rank 0 says it once for all: give it the time to.
        with contextlib.suppress(subprocess.TimeoutExpired):
            if processes[0].popen.wait(_GRACE_SECONDS) == code:
                for process in processes[1:]:
                    process.popen.wait(_GRACE_SECONDS)
                return code
    if code < 0 or code == EXIT_HANG:
        _let_the_others_speak(failed, processes)
    if code == EXIT_HANG:
        _show_who_hung(processes)
        return code
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    if failed.rank == 0:
        tail = "its last lines are above"
    else:
        time.sleep(0.2)  # the reader thread may hold the last lines
        tail = "its last lines:\n" + "\n".join(f"    {line}" for line in list(failed.lines)[-SHOWN_LINES:])
    print(f"error: rank {failed.rank} of {len(processes)} {how}; the others were stopped; {tail}", file=sys.stderr)
    return 128 - code if code < 0 else code


def _let_the_others_speak(failed: _Process, processes: Sequence[_Process]) -> None:
    """Give the watchdogs of the other ranks the time to say who is lost, until rank 0 has."""
    deadline = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < deadline and processes[0].popen.poll() is None:
        time.sleep(_POLL_SECONDS)
    time.sleep(4 * _POLL_SECONDS)  # the reader threads may hold the last lines


def _show_who_hung(processes: Sequence[_Process]) -> None:
    """Show what the ranks whose output we keep said: the sentence, unless rank 0 has, and the culprits' stacks."""
    said = processes[0].popen.poll() == EXIT_HANG
    for process in processes[1:]:
        lines = list(process.lines)
        sentences = [line for line in lines if line.startswith("error: ")]
        if sentences and not said:
            said = True
            print(sentences[-1], file=sys.stderr)
        stack = next((number for number, line in enumerate(lines) if line.startswith(STACK_OF)), len(lines))
        for line in lines[stack:]:
            print(line, file=sys.stderr)


def _stop(processes: Sequence[_Process], grace: float) -> None:
    """Terminate what still runs; a rank that waits in a collective cannot react and is killed."""
    running = [process.popen for process in processes if process.popen.poll() is None]
    for popen in running:
        popen.terminate()
    deadline = time.monotonic() + grace
    for popen in running:
        try:
            popen.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
