"""Steps made by several processes, in their order: step i by worker i mod n, each sent through a pipe of its own.

A worker has no state but its place in the run, so any number of workers makes the same steps. It is started fresh
(spawn: no lock or thread of the training process is copied), leaves signals to the training process, and ends when
that does, however that ends. Must not import what makes the steps, nor torch before a worker is asked for one.
"""

import atexit
import contextlib
import ctypes
import io
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Protocol

from conf.errors import InputError

STARTING, MAKING = -2, -1
"""What a cell holds when it does not hold the number of the source that is being read."""

Maker = Callable[[int, "Cell"], Any]
"""Makes the step that starts at a sample, keeping the cell up to date."""

_PARENT_POLL_SECONDS = 0.5
_LAST_WORDS_SECONDS = 5.0
# Slurm sends these to every process of a job step. The training process decides what they mean; a worker that died of
# one would take the run with it before it has saved.
_NOT_FOR_WORKERS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
_LIKELY_CAUSES = {
    signal.SIGKILL: "probably because memory ran out: start again (the run goes on from its last checkpoint) with "
    "fewer trainer.loader_workers or more memory",
    signal.SIGBUS: "probably because a shard file was cut short or its disk went away: check the shards",
}


class Cell(Protocol):
    """One number that another thread or process reads."""

    value: int


def thread_cell() -> Cell:
    """Return a cell for a thread of this process."""
    return ctypes.c_int(STARTING)


@dataclass(frozen=True)
class _Failure:
    """What a worker sends in place of a step."""

    sentence: str | None  # of an InputError; None for any other error
    details: str


class _Pickler(pickle.Pickler):
    """Writes tensors as their arrays: torch's own way is to share memory by file descriptors, which run out."""

    def reducer_override(self, item: Any) -> Any:
        import torch

        if isinstance(item, torch.Tensor):
            return torch.from_numpy, (item.numpy(),)
        return NotImplemented


def packed(item: Any) -> bytes:
    """Pickle what may hold tensors on the CPU, for another process of the same program."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(item)
    return buffer.getvalue()


@dataclass
class _Worker:
    process: Any  # multiprocessing's SpawnProcess, which has no public type
    pipe: Connection
    cell: Cell


class WorkerProcesses:
    """`count` processes that make the steps from `first_sample` on, `stride` samples each. Close it to end them.

    `describe` puts a cell's value into words. Raises InputError if `maker` cannot be sent to another process.
    """

    def __init__(
        self, count: int, maker: Maker, first_sample: int, stride: int, describe: Callable[[int], str]
    ) -> None:
        try:
            job = pickle.dumps(maker)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"trainer.loader_workers={count} needs an objective that can be sent to another process, but pickle "
                f"refuses this one ({error}): use trainer.loader_workers=0 or define it at the top of a module."
            ) from error
        self._describe = describe
        self._awaited = 0
        self._closed = False
        self._workers: list[_Worker] = []
        # Before multiprocessing's own exit hook, which would wait for processes that do not take its SIGTERM.
        atexit.register(self.close)
        try:
            with _blocked_signals():
                for number in range(count):
                    self._workers.append(_start(number, job, first_sample + number * stride, count * stride))
        except BaseException:
            self.close()
            raise

    def steps(self) -> Iterator[Any]:
        """Yield the steps in order, for ever; end when the processes are closed.

        Raises:
            InputError: a worker was killed, or ended by an InputError; it is named.
            RuntimeError: a worker failed in another way; its traceback is in the message.
        """
        number = 0
        while True:
            self._awaited = number % len(self._workers)
            worker = self._workers[self._awaited]
            try:
                step = pickle.loads(worker.pipe.recv_bytes())
            except (EOFError, OSError):
                if self._closed:
                    return
                raise InputError(f"{self._name(self._awaited)} {self._end_of(worker)}.") from None
            if isinstance(step, _Failure):
                if step.sentence is not None:
                    raise InputError(f"{self._name(self._awaited)} failed: {step.sentence}")
                raise RuntimeError(f"{self._name(self._awaited)} failed:\n{step.details}")
            yield step
            number += 1

    def where(self) -> str:
        """Say which worker is waited for and what it is doing."""
        return f"{self._name(self._awaited)} {self._describe(self._workers[self._awaited].cell.value)}"

    def close(self) -> None:
        """End the processes at once: they hold nothing that could be lost."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()

    def _name(self, number: int) -> str:
        return f"loader worker {number} of {len(self._workers)} (process {self._workers[number].process.pid})"

    def _end_of(self, worker: _Worker) -> str:
        worker.process.join(_LAST_WORDS_SECONDS)
        status, doing = worker.process.exitcode, self._describe(worker.cell.value)
        if status is None:
            return f"closed its pipe without ending; it {doing}"
        if status >= 0:
            return f"ended by itself with status {status}; it {doing}"
        cause = _LIKELY_CAUSES.get(-status, "start again (the run goes on from its last checkpoint)")
        return f"was killed by signal {-status} ({signal.Signals(-status).name}) while it {doing}, {cause}"


@contextlib.contextmanager
def _blocked_signals() -> Iterator[None]:
    """Have processes that are started here begin with these signals blocked, before they run a line of Python."""
    resource_tracker.ensure_running()  # it would unblock two of them when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_WORKERS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(number: int, job: bytes, first_sample: int, stride: int) -> _Worker:
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    cell = context.RawValue("i", STARTING)
    process = context.Process(
        target=_work, args=(there, cell, job, first_sample, stride), name=f"loader-{number}", daemon=True
    )
    process.start()
    there.close()
    return _Worker(process, here, cell)


def _work(pipe: Connection, cell: Cell, job: bytes, first_sample: int, stride: int) -> None:
    """A worker process: makes steps until nobody reads them. At most one waits beside what the pipe holds (64 KiB)."""
    parent = parent_process()
    assert parent is not None and parent.pid is not None
    _end_with(parent.pid)
    try:
        import torch

        torch.set_num_threads(1)  # the cores are the training processes'
        maker: Maker = pickle.loads(job)
        sample = first_sample
        while True:
            pipe.send_bytes(packed(maker(sample, cell)))
            sample += stride
    except BrokenPipeError:
        pass
    except BaseException as error:
        sentence = str(error) if isinstance(error, InputError) else None
        with contextlib.suppress(BrokenPipeError):
            pipe.send_bytes(packed(_Failure(sentence, traceback.format_exc())))
    os._exit(0)  # taking torch down takes a second of the CPU, on a node whose next job may be waiting for it


def _end_with(parent: int) -> None:
    """End this process soon after its parent, which a kill -9 gives no time to end it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()
