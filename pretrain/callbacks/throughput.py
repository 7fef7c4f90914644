"""Time spent training, without what validation and checkpoints take. Must not import torch."""

import contextlib
import time
from collections.abc import Callable, Iterator


class Clock:
    """`elapsed` runs always and over all sessions of a run; `training` stands still inside `paused`."""

    def __init__(self, earlier: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._earlier, self._paused = now, earlier, 0.0
        self._start = now()

    def elapsed(self) -> float:
        """Seconds of this run, sessions before this one included."""
        return self._earlier + self._now() - self._start

    def training(self) -> float:
        """Seconds of this session outside `paused`."""
        return self._now() - self._start - self._paused

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Keep the time of a block out of `training`."""
        start = self._now()
        try:
            yield
        finally:
            self._paused += self._now() - start


class Throughput:
    """Tokens per second since it was last asked."""

    def __init__(self, clock: Clock, tokens: int) -> None:
        self._clock, self._tokens, self._seconds = clock, tokens, clock.training()

    def measure(self, tokens: int) -> float:
        """Return the rate since the last call, given the count of tokens now."""
        seconds = self._clock.training()
        rate = (tokens - self._tokens) / max(seconds - self._seconds, 1e-9)
        self._tokens, self._seconds = tokens, seconds
        return rate
