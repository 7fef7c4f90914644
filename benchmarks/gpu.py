"""BERT-base and BERT-large on one GPU: correctness, tokens per second, MFU, memory and kernels; transformers beside.

Ends within eight minutes. What is computed is compared with the CPU's reference first. The MFU is a share of the rate
of a large bf16 matrix product measured here, not of a datasheet. On a machine without CUDA all of it runs at a tiny
size, to show that it runs: those figures say nothing of a GPU.

Keys, with SHAPE one of `base_128`, `base_512`, `large_512` (without CUDA `tiny_64`): `mfu_SHAPE`,
`tokens_per_second_SHAPE` and `peak_gib_SHAPE` of ours compiled, `eager_ratio_SHAPE` compiled over not compiled;
`transformers_ratio_SHAPE` against the peer's fastest with documents apart as ours are (padded), and
`transformers_full_ratio_SHAPE` against its fastest on rows without padding, where documents see each other;
`ceiling_tflops`, and `failed_checks`.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch

from benchmarks.gpu_cases import BATCHES, Case, cases
from benchmarks.gpu_correctness import checks
from benchmarks.gpu_profile import Profile, profiled
from benchmarks.harness import arguments, machine, print_table, write_figures
from benchmarks.own_step import Alone, Loop, Settings, deepspeed_problem
from benchmarks.timing import Timing, TrainingLoop, measure
from pretrain.peak_flops import measured_peak

MINUTES = 7.5
OURS, PADDED, FULL = "palimpsest", "transformers, padded", "transformers, full rows"
COMPILED, EAGER = "compiled", "not compiled"
MakeLoop = Callable[[int], TrainingLoop]
# Seconds that a measurement is thought to take before one of its kind was made; afterwards its own time counts.
GUESS = {COMPILED: 75.0, EAGER: 20.0}


@dataclass(frozen=True)
class Row:
    """One measured contestant of one case."""

    case: Case
    name: str
    way: str
    timing: Timing
    fill: float

    @property
    def rate(self) -> float:
        """Real tokens per second of the best run."""
        return max(self.timing.rates)


@dataclass
class Session:
    """What is measured so far, and how much time is left."""

    device: torch.device
    quick: bool
    deadline: float
    compiles: bool
    loop: str
    ceiling: float = 0.0
    rows: list[Row] = field(default_factory=list)
    profiles: dict[str, Profile] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    failed_checks: int = 0
    _took: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def on_gpu(self) -> bool:
        """Whether the figures are a GPU's."""
        return self.device.type == "cuda"

    def add(self, case: Case, name: str, way: str, make: MakeLoop, profile: bool = False) -> None:
        """Measure one contestant, unless the time is up or it cannot run; then say so.

        `make` is handed what to divide the batch by: 1, and more where the memory is too small.
        """
        label = f"{case.key}: {name}, {way}"
        expected = self._took.get((case.key, way.split(",")[0]), GUESS[way.split(",")[0]] if self.on_gpu else 1.0)
        if time.monotonic() + expected > self.deadline:
            self.left_out.append(f"{label}: not measured, the time was up")
            return
        begin = time.monotonic()
        for divisor in (1, 2, 4):
            torch.compiler.reset()
            try:
                timing, fill = measure(
                    partial(make, divisor),
                    self.device,
                    warmup=BATCHES if self.on_gpu else 1,
                    runs=1 if self.quick else 3,
                    seconds=1.5 if self.on_gpu else 0.2,
                    before_close=partial(self._profile, case) if profile else None,
                )
                break
            except torch.OutOfMemoryError:
                self.left_out.append(f"{label}: 1/{divisor} of the batch does not fit into the memory")
            except Exception as error:  # one contestant that fails must not take the others' figures along
                self.left_out.append(f"{label}: {type(error).__name__}: {str(error).strip().splitlines()[0][:160]}")
                return
        else:
            return
        self._took[case.key, way.split(",")[0]] = time.monotonic() - begin
        self.rows.append(Row(case, name, way + (f", 1/{divisor} batch" if divisor > 1 else ""), timing, fill))
        print(f"{label}: {max(timing.rates):,.0f} tokens/s", flush=True)

    def _profile(self, case: Case, loop: TrainingLoop) -> None:
        self.profiles[case.key] = profiled(loop, self.device, steps=3)

    def best(self, case: Case, name: str) -> float:
        """Return the highest rate of a contestant on a case, NaN if it was not measured."""
        return max((row.rate for row in self.rows if row.case is case and row.name == name), default=math.nan)

    def mfu(self, case: Case, rate: float) -> float:
        """Return the share of the ceiling that `rate` is."""
        return rate * case.flops_per_token() / self.ceiling


def _correctness(session: Session) -> None:
    print("Against the reference on the CPU (relative distances):")
    for check in checks(session.device, session.compiles and not session.quick):
        print("  " + check.sentence(), flush=True)
        session.failed_checks += not check.passed


def _measure_all(session: Session, all_cases: list[Case]) -> None:
    """The most important first: where time runs out, the rest is left out and named."""
    device = session.device
    loop: Loop = "engine" if session.loop == "DeepSpeed" else "plain"
    chosen = all_cases[:1] if session.quick else all_cases

    def ours(case: Case, compiled: bool, *, checkpointing: bool = False, dropout: float = 0.0) -> MakeLoop:
        settings = Settings("bf16", loop, compiled, checkpointing)
        return partial(case.ours, settings, device, dropout)

    def padded(case: Case, compiled: bool | None) -> MakeLoop:
        return partial(case.peer, case.padded, device, compiled)

    def full(case: Case, compiled: bool | None) -> MakeLoop:
        return partial(case.peer, case.full_rows, device, compiled)

    for case in chosen:
        if session.compiles:
            session.add(case, OURS, COMPILED, ours(case, True), profile=True)
        session.add(case, OURS, EAGER, ours(case, False), profile=not session.compiles)
        session.add(case, PADDED, EAGER, padded(case, None))
        session.add(case, FULL, EAGER, full(case, None))
    for case in chosen if session.compiles else []:
        session.add(case, FULL, COMPILED, full(case, False))
        session.add(case, PADDED, COMPILED, padded(case, True))
    for case in [] if session.quick and session.on_gpu else chosen[:1]:
        session.add(case, OURS, f"{EAGER}, activation checkpointing", ours(case, False, checkpointing=True))
        session.add(case, OURS, f"{EAGER}, attention dropout 0.1", ours(case, False, dropout=0.1))


def _figures(session: Session, all_cases: list[Case]) -> dict[str, float]:
    found: dict[str, float] = {"on_gpu": float(session.on_gpu), "ceiling_tflops": session.ceiling / 1e12}
    for case in all_cases:
        main = {row.way: row for row in session.rows if row.case is case and row.name == OURS}
        best = main.get(COMPILED, main.get(EAGER))
        if best is None:
            continue
        found[f"tokens_per_second_{case.key}"] = best.rate
        found[f"mfu_{case.key}"] = session.mfu(case, best.rate)
        if best.timing.peak_gib is not None:
            found[f"peak_gib_{case.key}"] = best.timing.peak_gib
        if COMPILED in main and EAGER in main:
            found[f"eager_ratio_{case.key}"] = main[COMPILED].rate / main[EAGER].rate
        for name, key in ((PADDED, "transformers_ratio"), (FULL, "transformers_full_ratio")):
            found[f"{key}_{case.key}"] = best.rate / session.best(case, name)
    found["failed_checks"] = float(session.failed_checks)
    return {key: value for key, value in found.items() if not math.isnan(value)}


def _print(session: Session) -> None:
    rows = []
    for row in session.rows:
        gib = row.timing.peak_gib
        rows.append(
            (
                f"{row.case.key}: {row.name}",
                f"{row.rate:,.0f}",
                f"{session.mfu(row.case, row.rate):.1%}" if row.name == OURS else "",
                f"{gib:.1f}" if gib is not None else "",
                f"{row.fill:.1%}",
                f"{row.timing.warmup_seconds:.0f}",
                row.way,
            )
        )
    device = torch.cuda.get_device_name(session.device) if session.on_gpu else "CPU, tiny size: NOT figures of a GPU"
    title = (
        f"bf16 training on {device}; matrix products reach {session.ceiling / 1e12:,.1f} TFLOP/s; ours under "
        f"{session.loop}"
    )
    columns = ("contestant", "tokens/s", "MFU", "peak GiB", "real tokens", "start, s", "how")
    print_table(title, columns, rows, caption=machine())
    for key, profile in session.profiles.items():
        parts = [(name, f"{ms:.2f}", f"{ms / profile.total:.1%}", "kind") for name, ms in profile.kinds.items()]
        parts += [
            (name if len(name) <= 84 else name[:81] + "...", f"{ms:.2f}", f"{ms / profile.total:.1%}", "kernel")
            for name, ms in profile.kernels.items()
        ]
        case = next(row.case for row in session.rows if row.case.key == key)
        tokens = sum(one.tokens for one in case.micro_batches) / len(case.micro_batches)
        wall = 1000.0 * tokens / next(row.rate for row in session.rows if row.case is case and row.name == OURS)
        title = f"{key}: {profile.total:.1f} ms of kernels a step, which takes {wall:.1f} ms"
        print_table(title, ("what", "ms a step", "share", ""), parts)
    for sentence in session.left_out:
        print(f"left out: {sentence}")


def main() -> int:
    """Run the benchmark from the command line; the exit status is 1 if a check of correctness failed."""

    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--minutes", type=float, default=None, help=f"end within so many (default {MINUTES})")
        parser.add_argument("--compile", action="store_true", help="compile without CUDA too (it takes a minute)")

    options = arguments(__doc__.splitlines()[0], extra)
    begin = time.monotonic()
    minutes = options.minutes or (2.5 if options.quick else MINUTES)
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    problem = deepspeed_problem()
    if problem is not None:
        print(f"{problem}: ours is measured in a plain torch loop over the trainer's model, loss and optimiser.")
    if device.type != "cuda":
        print("There is no CUDA device here: everything runs at a tiny size on the CPU, and no figure is of a GPU.")
    alone = Alone()
    session = Session(
        device,
        options.quick,
        begin + 60.0 * minutes,
        compiles=options.compile or device.type == "cuda",
        loop="DeepSpeed" if problem is None else "a plain torch loop",
    )
    try:
        _correctness(session)
        session.ceiling = measured_peak(device, torch.bfloat16, seconds=3.0 if session.on_gpu else 0.3)
        all_cases = cases(device, alone)
        for case in all_cases:
            rate = case.product_rate(device, seconds=1.0 if session.on_gpu else 0.1)
            print(f"{case.key}: the MLP's first product reaches {rate / session.ceiling:.0%} of the ceiling")
        _measure_all(session, all_cases)
    finally:
        alone.close()
    _print(session)
    write_figures(_figures(session, all_cases), options.json)
    print(f"took {(time.monotonic() - begin) / 60.0:.1f} minutes")
    return 1 if session.failed_checks else 0


if __name__ == "__main__":
    sys.exit(main())
