"""The batches of a run, made ahead of time by one thread.

What a step holds is decided by `pretrain.data.order` and the objective; this only fetches and prefetches. Must not
import deepspeed or the trainer.
"""

import contextlib
import queue
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.shards import ShardReader
from pretrain.data.counter import derive_key
from pretrain.data.order import micro_batch_slice, permute, rows_at
from pretrain.objectives import MicroBatch, Objective

_POLL_SECONDS = 0.5


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


class Loader:
    """Yields the micro-batches of one rank, step after step, for ever (epochs follow each other)."""

    def __init__(self, reader: ShardReader, objective: Objective, seed: int, layout: Layout, prefetch: int = 2) -> None:
        self._reader, self._objective, self._seed, self._layout = reader, objective, seed, layout
        self._prefetch = prefetch

    def step(self, first_sample: int) -> list[MicroBatch]:
        """Make this rank's micro-batches of the step that starts at sample `first_sample`."""
        layout = self._layout
        rows, visits = rows_at(self._seed, first_sample, layout.global_batch_size, len(self._reader))
        parts = [
            micro_batch_slice(micro_step, layout.rank, layout.world_size, layout.micro_batch_size)
            for micro_step in range(layout.accumulation)
        ]
        return [
            self._objective.training_batch(self._reader.rows(rows[part]), rows[part], visits[part]) for part in parts
        ]

    def steps(self, first_sample: int) -> Generator[list[MicroBatch], None, None]:
        """Yield the steps from `first_sample` on. Close the iterator to end its thread."""
        ready: queue.Queue[list[MicroBatch] | BaseException] = queue.Queue(self._prefetch)
        stopped = threading.Event()

        def put(item: list[MicroBatch] | BaseException) -> None:
            while not stopped.is_set():
                with contextlib.suppress(queue.Full):
                    return ready.put(item, timeout=_POLL_SECONDS)

        def work() -> None:
            sample = first_sample
            try:
                while not stopped.is_set():
                    put(self.step(sample))
                    sample += self._layout.global_batch_size
            except BaseException as error:  # raised again where the batch is awaited
                put(error)

        thread = threading.Thread(target=work, name="loader", daemon=True)
        thread.start()
        try:
            while True:
                item = ready.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()
            thread.join()


def validation_batches(reader: ShardReader, objective: Objective, rows: int, layout: Layout) -> Iterator[MicroBatch]:
    """Yield one rank's share of `rows` rows of a split, drawn over all of it and the same in every run.

    (Not the first ones: a split begins with the first files of the corpus, which are unlike the rest of it.) Every
    rank gets the same number of batches (a forward pass may be a collective call); the places beyond the last row
    repeat it, without weight.
    """
    size, world = layout.micro_batch_size, layout.world_size
    drawn = permute(np.arange(rows), len(reader), derive_key("validation rows"))
    for number in range(-(-rows // (size * world))):
        part = micro_batch_slice(number, layout.rank, world, size)
        numbers = drawn[np.minimum(np.arange(part.start, part.stop), rows - 1)]
        used = max(0, min(rows - part.start, size))
        yield objective.validation_batch(reader.rows(numbers), numbers, used)
