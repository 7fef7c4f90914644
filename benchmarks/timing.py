"""Steps per second of a training loop, on a CPU or a GPU: what `gpu` and `mlm_step` time their contestants with.

Must not import the project's packages.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch


class TrainingLoop(Protocol):
    """Something that trains: each call of `step` is one optimiser step and says how many real tokens it learned from.

    `fill` is the share of real tokens in what it computes.
    """

    fill: float

    def step(self) -> int:
        """Take one optimiser step on the next batch; return its tokens that are not padding."""

    def close(self) -> None:
        """Free what it holds."""


@dataclass(frozen=True)
class Timing:
    """Real tokens per second of each run, the most GPU memory at once in GiB (None on a CPU), seconds of warm-up."""

    rates: tuple[float, ...]
    peak_gib: float | None
    warmup_seconds: float


def wait(device: torch.device) -> None:
    """Let the device finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(loop: TrainingLoop, device: torch.device, *, steps: int | None, seconds: float | None = None) -> float:
    """Return the real tokens per second of `steps` steps, or of as many as fill `seconds` (at least one)."""
    wait(device)
    begin, tokens = time.perf_counter(), 0
    for number in itertools.count(1):
        tokens += loop.step()
        if number == steps or (steps is None and time.perf_counter() - begin >= (seconds or 0.0)):
            break
        if steps is None and number % 4 == 0:
            wait(device)  # the clock above would otherwise run ahead of the device
    wait(device)
    return tokens / (time.perf_counter() - begin)


def measure(
    make: Callable[[], TrainingLoop],
    device: torch.device,
    *,
    warmup: int,
    runs: int,
    seconds: float,
    before_close: Callable[[TrainingLoop], None] | None = None,
) -> tuple[Timing, float]:
    """Make a loop, warm it up, time it `runs` times, and free it; return its timing and its fill.

    `before_close` is handed the warm loop when it has been timed.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    begin = time.perf_counter()
    loop = make()
    try:
        for _ in range(warmup):
            loop.step()
        wait(device)
        warmup_seconds = time.perf_counter() - begin
        rates = tuple(timed(loop, device, steps=None, seconds=seconds) for _ in range(runs))
        peak = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None
        if before_close is not None:
            before_close(loop)
        return Timing(rates, peak, warmup_seconds), loop.fill
    finally:
        loop.close()
