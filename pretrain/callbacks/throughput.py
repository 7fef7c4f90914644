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
    """Tokens per second since it was last asked; `seconds` is how long ago that was, pauses left out."""

    def __init__(self, clock: Clock, tokens: int) -> None:
        self._clock, self._tokens, self._at = clock, tokens, clock.training()
        self.seconds = 0.0

    def measure(self, tokens: int) -> float:
        """Return the rate since the last call, given the count of tokens now."""
        now = self._clock.training()
        self.seconds = max(now - self._at, 1e-9)
        rate = (tokens - self._tokens) / self.seconds
        self._tokens, self._at = tokens, now
        return rate


class TimeLeft:
    """How long the rest of the work takes at the mean speed of this session, whatever unit the work is in."""

    def __init__(self, total: float, position: float, seconds: float) -> None:
        self._total, self._first, self._start = total, position, seconds

    def estimate(self, position: float, seconds: float) -> float | None:
        """Return the seconds left, given the position and the time now; None before the first progress."""
        done, taken = position - self._first, seconds - self._start
        return max(0.0, self._total - position) * taken / done if done > 0 and taken > 0 else None
