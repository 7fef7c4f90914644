"""The batches of a run, made ahead of time by a thread or by processes.

What a step holds is decided by the mixture and the objective; this only fetches and prefetches, says how long training
waited, and names what stalls. Must not import deepspeed or the trainer.
"""

import logging
import queue
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError
from pretrain.data.counter import UInt64Array
from pretrain.data.mixture import Mixture, Picked
from pretrain.data.order import micro_batch_slice
from pretrain.data.workers import MAKING, STARTING, Cell, WorkerProcesses, thread_cell
from pretrain.objectives import MicroBatch, Objective

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 5.0


@dataclass(frozen=True)
class Layout:
    """How a global batch is split: global_batch_size = world_size * micro_batch_size * accumulation."""

    global_batch_size: int
    micro_batch_size: int
    rank: int
    world_size: int

    @property
    def accumulation(self) -> int:
        """Micro-steps of each rank in one optimiser step."""
        return self.global_batch_size // (self.micro_batch_size * self.world_size)


@dataclass(frozen=True)
class StepMaker:
    """Makes any step of one rank: a pure function of where it starts, and the same in every process."""

    mixture: Mixture
    objective: Objective[Any]
    seed: int
    layout: Layout

    def __call__(self, first_sample: int, cell: Cell) -> list[MicroBatch[Any]]:
        """Make the micro-batches of the step that starts at `first_sample`; `cell` says what is being done."""
        layout = self.layout
        picked = self.mixture.pick(self.seed, first_sample, layout.global_batch_size)
        return [
            self._micro_batch(
                picked[micro_batch_slice(micro_step, layout.rank, layout.world_size, layout.micro_batch_size)], cell
            )
            for micro_step in range(layout.accumulation)
        ]

    def _micro_batch(self, picked: Picked, cell: Cell) -> MicroBatch[Any]:
        keys = self.mixture.row_keys(picked, "rows", self.seed, visits=True)
        return _make_batch(self.mixture, self.objective, picked, keys, self.mixture.used(picked), True, cell)


def _make_batch(
    mixture: Mixture,
    objective: Objective[Any],
    picked: Picked,
    row_keys: UInt64Array,
    used: NDArray[np.bool_],
    training: bool,
    cell: Cell,
) -> MicroBatch[Any]:
    def watch(source: int) -> None:
        cell.value = source

    rows = mixture.read(picked, objective.columns, watch)
    partners = None
    if objective.needs_partners:
        partners = mixture.read(mixture.partners(picked, row_keys), objective.columns, watch)
    cell.value = MAKING
    return objective.make_batch(rows, row_keys, used, training=training, partners=partners)


class Loader:
    """Yields the micro-batches of one rank, step after step, for ever (epochs follow each other).

    With `workers` = 0 a thread of this process makes them, else that many processes: the same batches. Up to `prefetch`
    steps wait to be taken. Without a step for `stall_seconds` a warning says what is waited for, and again after twice,
    four times ... that long.

    Raises InputError for shards that the objective cannot be given rows of.
    """

    def __init__(
        self,
        mixture: Mixture,
        objective: Objective[Any],
        seed: int,
        layout: Layout,
        *,
        workers: int = 0,
        prefetch: int = 2,
        stall_seconds: float | None = None,
    ) -> None:
        if workers < 0 or prefetch < 1:
            raise InputError(
                f"a loader must have 0 or more workers and prefetch at least 1 step, but has {workers} and {prefetch}."
            )
        mixture.require(objective.columns, objective.needs_partners)
        self._maker = StepMaker(mixture, objective, seed, layout)
        self._workers, self._prefetch, self._stall_seconds = workers, prefetch, stall_seconds
        self._waited = 0.0

    def step(self, first_sample: int) -> list[MicroBatch[Any]]:
        """Make this rank's micro-batches of the step that starts at sample `first_sample`, here and now."""
        return self._maker(first_sample, thread_cell())

    def waited(self) -> float:
        """Return the seconds that `steps` kept its consumer waiting since this was last asked."""
        waited, self._waited = self._waited, 0.0
        return waited

    def steps(self, first_sample: int) -> Generator[list[MicroBatch[Any]], None, None]:
        """Yield the steps from `first_sample` on. Close the iterator to end its thread and processes.

        Raises what making a step raised; InputError for a worker process that was killed.
        """
        maker: _Here | WorkerProcesses
        if self._workers:
            stride = self._maker.layout.global_batch_size
            maker = WorkerProcesses(self._workers, self._maker, first_sample, stride, self._describe)
        else:
            maker = _Here(self, first_sample)
        ready = _Buffer(maker, self._prefetch)
        try:
            while True:
                yield self._next(ready, maker)
        finally:
            ready.close()

    def _next(self, ready: "_Buffer", maker: "_Here | WorkerProcesses") -> list[MicroBatch[Any]]:
        start = time.monotonic()
        patience = self._stall_seconds
        try:
            while True:
                try:
                    return ready.take(patience)
                except queue.Empty:
                    assert patience is not None
                    logger.warning(
                        "data loader stall: rank %d has waited %.0f s for its next batch: %s",
                        self._maker.layout.rank,
                        time.monotonic() - start,
                        maker.where(),
                    )
                    patience *= 2
        finally:
            self._waited += time.monotonic() - start

    def _describe(self, doing: int) -> str:
        if doing == STARTING:
            return "is starting"
        if doing == MAKING:
            return "is making a batch of rows that it has read"
        return f"is reading '{self._maker.mixture.sources[doing].directory}'"


class _Here:
    """Steps made by the thread that asks for them (`Loader.steps` without workers)."""

    def __init__(self, loader: Loader, first_sample: int) -> None:
        self._loader, self._sample = loader, first_sample
        self._cell = thread_cell()

    def steps(self) -> Iterator[list[MicroBatch[Any]]]:
        """Yield the steps in order, for ever."""
        maker = self._loader._maker
        while True:
            yield maker(self._sample, self._cell)
            self._sample += maker.layout.global_batch_size

    def where(self) -> str:
        """Say what the thread is doing."""
        return f"the loader's thread {self._loader._describe(self._cell.value)}"

    def close(self) -> None:
        """Nothing but the thread is to be ended."""


class _Buffer:
    """A thread that keeps up to `size` steps ready; an error takes its place among them."""

    def __init__(self, maker: _Here | WorkerProcesses, size: int) -> None:
        self._maker = maker
        self._ready: queue.Queue[list[MicroBatch[Any]] | BaseException] = queue.Queue(size)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="loader", daemon=True)
        self._thread.start()

    def take(self, timeout: float | None) -> list[MicroBatch[Any]]:
        """Return the next step. Raises queue.Empty when none is ready in time, and what the maker raised."""
        item = self._ready.get(timeout=timeout)
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        """End the thread and its processes; one that hangs in a read is left behind, it ends with the process."""
        self._stopped.set()
        self._maker.close()
        deadline = time.monotonic() + _CLOSE_SECONDS
        while self._thread.is_alive() and time.monotonic() < deadline:
            try:  # a full buffer may be what the thread waits for
                self._ready.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)

    def _work(self) -> None:
        try:
            for step in self._maker.steps():
                self._ready.put(step)
                if self._stopped.is_set():
                    return
        except BaseException as error:  # raised again where the step is awaited
            self._ready.put(error)


def validation_batches(
    mixture: Mixture, objective: Objective[Any], rows: int, layout: Layout
) -> Iterator[MicroBatch[Any]]:
    """Yield one rank's share of `rows` held-out rows, drawn from the sources in proportion to their weights.

    They lie all over each source (a split begins with the first files of the corpus, which are unlike the rest of it)
    and are the same in every run, as are the masks. Every rank gets the same number of batches (a forward pass may be
    a collective call); the places beyond the last row repeat it, without weight.
    """
    size, world = layout.micro_batch_size, layout.world_size
    picked = mixture.held_out(rows)
    cell = thread_cell()
    for number in range(-(-rows // (size * world))):
        part = micro_batch_slice(number, layout.rank, world, size)
        places = np.arange(part.start, part.stop)
        shown = np.minimum(places, rows - 1)
        mine = Picked(picked.source[shown], picked.rows[shown], picked.visits[shown])
        keys = mixture.row_keys(mine, "validation", visits=False)
        yield _make_batch(mixture, objective, mine, keys, places < rows, False, cell)
