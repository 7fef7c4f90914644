"""Steps per second of a training loop, on a CPU or a GPU: what `gpu`, `mlm_step` and `seq2seq_step` time with.

Must not import the project's packages.
"""

import gc
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch


class TrainingLoop(Protocol):
    """Something that trains, one optimiser step a call."""

    @property
    def fill(self) -> float:
        """The share of counted tokens in what it computes."""

    def step(self) -> int:
        """Take one optimiser step on the next batch; return its counted tokens: those that are not padding, or
        of an encoder-decoder those that it predicts."""

    def close(self) -> None:
        """Free what it holds."""


@dataclass(frozen=True)
class Timing:
    """Counted tokens per second of each run, the most GPU memory at once in GiB (None on a CPU), seconds of warm-up."""

    rates: tuple[float, ...]
    peak_gib: float | None
    warmup_seconds: float


# "cpu" is the time that this process had on its processors: of use on a machine that others use too. With one thread on
# an idle machine the two are alike.
CLOCKS: Mapping[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


_PRODUCTS = {"aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm", "aten::baddbmm_"}


def wait(device: torch.device) -> None:
    """Let the device finish what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(loop: TrainingLoop, steps: int, clock: str = "wall") -> float:
    """Return the counted tokens per second of `steps` steps on a CPU, by one of CLOCKS."""
    now = CLOCKS[clock]
    begin = now()
    tokens = sum(loop.step() for _ in range(steps))
    return tokens / (now() - begin)


def products_share(loop: TrainingLoop, steps: int) -> float:
    """Return the share of a loop's CPU time that is in matrix products, by torch's profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(steps):
            loop.step()
    times = {event.key: event.self_cpu_time_total for event in profile.key_averages()}
    return sum(time for name, time in times.items() if name in _PRODUCTS) / sum(times.values())


def timed_for(loop: TrainingLoop, device: torch.device, seconds: float) -> float:
    """Return the counted tokens per second of as many steps as fill `seconds` (at least one), by the wall's clock."""
    wait(device)
    begin, tokens = time.perf_counter(), 0
    for number in itertools.count(1):
        tokens += loop.step()
        if number % 4 == 0:
            wait(device)  # the clock would otherwise run ahead of the device
        if time.perf_counter() - begin >= seconds:
            break
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
    gc.collect()  # the loop before this one, which DeepSpeed may have left in a ring of references
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
        rates = tuple(timed_for(loop, device, seconds) for _ in range(runs))
        peak = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None
        if before_close is not None:
            before_close(loop)
        return Timing(rates, peak, warmup_seconds), loop.fill
    finally:
        loop.close()
