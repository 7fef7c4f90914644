"""Kill a run with -9 again and again, resume it, and compare its end with an undisturbed run's, to the bit.

    python -m tests.integration.crash_run [kills=25] [seed=1] [steps=200]

A real run on two ranks that saves every other step. Before it starts, the seed decides of each kill: after which step,
how much later, whom it hits, and whether it waits for a save to be under way. Where a kill really hit is read off the
run directory afterwards: a half-written folder is there or it is not. Prints a Markdown table.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from pretrain.checkpoints import CheckpointFolder
from tests.helpers.ranks import REPOSITORY
from tests.helpers.shard_directory import sentences, write_shards

TIMEOUT = 300.0
EVERY = 2
_POLL_SECONDS = 0.0005
# The launcher's death must take its ranks along, and a rank's death the whole run.
_VICTIMS = ("all", "all", "launcher", "rank 0", "rank 1")


@dataclass(frozen=True)
class Plan:
    """One kill: once `step` is logged (-1: once the process is there) and `delay` seconds are over; of `in_save`, at
    the first moment from then on at which a save is under way."""

    step: int
    delay: float
    in_save: bool
    victim: str


@dataclass(frozen=True)
class Hit:
    """Where a kill hit: the last step logged, the phase, and the checkpoint from which the next session went on."""

    plan: Plan
    step: int
    phase: str
    resumed: int

    @property
    def in_save(self) -> bool:
        """Whether it interrupted a save."""
        return self.phase.startswith("in a save")


@dataclass(frozen=True)
class Outcome:
    """All kills of a run, and what of its end is not the undisturbed run's (of weights and moments, counts, losses)."""

    hits: list[Hit]
    differences: list[str]


def draw(kills: int, seed: int, steps: int) -> list[Plan]:
    """Draw the kills, spread over the whole run; half of them wait for a save, one in eight hits a process that
    starts."""
    generator = random.Random(seed)
    at = sorted(generator.randrange(steps - 5 * EVERY) for _ in range(kills))
    kinds = ["save"] * ((kills + 1) // 2) + ["start"] * (kills // 8)
    kinds += ["any"] * (kills - len(kinds))
    generator.shuffle(kinds)
    longest = {"save": 0.02, "start": 8.0, "any": 0.3}  # seconds
    plans = []
    for step, kind in zip(at, kinds, strict=True):
        # While a save is under way only rank 0 writes: rank 1's death would let it finish.
        victim = generator.choice(_VICTIMS[:-1] if kind == "save" else _VICTIMS)
        delay = generator.uniform(0, longest[kind])
        plans.append(Plan(-1 if kind == "start" else step, delay, kind == "save", victim))
    return plans


def crash(kills: int, seed: int, steps: int, folder: Path) -> Outcome:
    """Make the undisturbed run and the one that is killed, in `folder`. Raises AssertionError if a run fails."""
    shards = write_shards(folder / "shards", sentences(500))
    undisturbed, run_dir = folder / "undisturbed", folder / "run"
    _finish(shards, undisturbed, steps, folder / "undisturbed.log")
    where = []
    for number, plan in enumerate(draw(kills, seed, steps)):
        where.append((plan, *_session(shards, run_dir, steps, plan, folder / f"session{number}.log")))
    _finish(shards, run_dir, steps, folder / f"session{kills}.log")
    resumed = [_resumed_from(folder / f"session{number}.log") for number in range(kills + 1)]
    # A session that was killed before it read a checkpoint went on from nothing; the one after tells where it stands.
    following = [next(found for found in resumed[number + 1 :] if found is not None) for number in range(kills)]
    hits = [Hit(plan, step, phase, found) for (plan, step, phase), found in zip(where, following, strict=True)]
    expected, found = _end(undisturbed), _end(run_dir)
    return Outcome(hits, [name for name in expected if found[name] != expected[name]])


def table(outcome: Outcome) -> str:
    """Return where each kill hit, as a Markdown table."""
    lines = ["| kill | whom | last step logged | where it hit | went on from step |", "| --- | --- | --- | --- | --- |"]
    for number, hit in enumerate(outcome.hits, start=1):
        lines.append(f"| {number} | {hit.plan.victim} | {hit.step} | {hit.phase} | {hit.resumed} |")
    return "\n".join(lines)


def _command(shards: Path, run_dir: Path, steps: int) -> list[str]:
    return [
        *(sys.executable, "-m", "pretrain", "experiment=tiny", "ranks=2", f"data={shards}", f"run_dir={run_dir}"),
        *(f"trainer.max_steps={steps}", "trainer.log_every=1", f"trainer.checkpoint_every={EVERY}"),
        *("trainer.validation_every=0", "model.dropout=0.1"),
    ]


def _start(shards: Path, run_dir: Path, steps: int, log: Path) -> subprocess.Popen[bytes]:
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE") and not k.startswith("SLURM")}
    with log.open("wb") as handle:
        return subprocess.Popen(
            _command(shards, run_dir, steps),
            cwd=REPOSITORY,
            env=clean | {"OMP_NUM_THREADS": "1"},
            stdout=handle,
            stderr=handle,
        )


def _finish(shards: Path, run_dir: Path, steps: int, log: Path) -> None:
    process = _start(shards, run_dir, steps, log)
    assert process.wait(TIMEOUT) == 0, log.read_text()


def _session(shards: Path, run_dir: Path, steps: int, plan: Plan, log: Path) -> tuple[int, str]:
    """Run until the kill; return the last step logged and where it hit."""
    before, stale, trace = _identity(run_dir), _half_written(run_dir), _trace(run_dir)
    process = _start(shards, run_dir, steps, log)
    deadline = time.monotonic() + TIMEOUT

    def wait_until(condition: bool) -> bool:
        assert process.poll() is None, f"the run ended before it could be killed:\n{log.read_text()}"
        assert time.monotonic() < deadline, f"nothing to kill within {TIMEOUT} s:\n{log.read_text()}"
        time.sleep(_POLL_SECONDS)
        return condition

    # What an earlier session logged is no sign of this one: resuming rewrites the file.
    while plan.step >= 0 and not wait_until(_identity(run_dir) not in (None, before) and _last(run_dir) >= plan.step):
        pass
    family = _family(process)  # before the last look, for it takes longer than a small save
    if plan.in_save:
        while not wait_until(bool(_half_written(run_dir) - stale)):
            pass
    time.sleep(plan.delay)
    while plan.in_save and not wait_until(bool(_half_written(run_dir) - stale)):
        pass
    _kill(process, family if plan.step >= 0 else _family(process), plan.victim)
    found = _trace(run_dir)
    if found is not None and found != trace:
        return _last(run_dir), found[0]
    return _last(run_dir), "between saves" if "attention kernel" in log.read_text() else "before the first step"


def _family(process: subprocess.Popen[bytes]) -> dict[str, psutil.Process]:
    """Return the launcher and the ranks (those there are) by name."""
    family = {"launcher": psutil.Process(process.pid)}
    for child in family["launcher"].children(recursive=True):
        try:
            rank = child.environ().get("RANK")
        except psutil.NoSuchProcess:
            continue
        family[f"rank {rank}" if rank is not None else f"process {child.pid}"] = child
    return family


def _kill(process: subprocess.Popen[bytes], family: dict[str, psutil.Process], victim: str) -> None:
    """Kill with -9; end only once all processes of the run are gone."""
    # Very early there are no ranks yet.
    for name in family if victim == "all" or victim not in family else [victim]:
        try:
            family[name].send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.wait(TIMEOUT)
    _, alive = psutil.wait_procs(list(family.values()), timeout=TIMEOUT)
    assert not alive, f"still there {TIMEOUT} s after {victim} was killed: {alive}"


def _identity(run_dir: Path) -> int | None:
    try:
        return (run_dir / "metrics.jsonl").stat().st_ino
    except FileNotFoundError:
        return None


def _last(run_dir: Path) -> int:
    """The last step logged; 0 if none."""
    try:
        lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return 0
    return max((json.loads(line)["step"] for line in lines if line.endswith("\n")), default=0)


def _half_written(run_dir: Path) -> set[tuple[str, int]]:
    """Names and times of the folders being written: what a kill left stays until the next save, and is not one."""
    found = set()
    for path in (run_dir / "checkpoints").glob(".step-*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
            found.add((path.name, path.stat().st_mtime_ns))
    return found


def _trace(run_dir: Path) -> tuple[str, int] | None:
    """What a kill inside a save left behind: what it means, and when it was made; None if there is nothing."""
    folder = CheckpointFolder(run_dir)
    for half in folder.path.glob(".step-*.tmp"):
        written = [path for path in half.iterdir() if path.stat().st_size]
        file = max(written, key=lambda path: path.stat().st_mtime_ns).name if written else "nothing yet"
        return f"in a save of step {int(half.name[6:14])} ({file} written)", half.stat().st_mtime_ns
    steps, pointer = folder.steps(), folder.path / "latest"
    if steps and (not pointer.is_file() or pointer.read_text() != steps[-1].name):
        step = int(steps[-1].name[5:])
        return f"in a save of step {step} (renamed, not yet the latest)", steps[-1].stat().st_mtime_ns
    for old in folder.path.glob(".step-*.old"):
        return "in a save (removing an old checkpoint)", old.stat().st_mtime_ns
    return None


def _resumed_from(log: Path) -> int | None:
    found = re.search(r"resumed \S*step-(\d+)", log.read_text())
    if found:
        return int(found.group(1))
    return 0 if "attention kernel" in log.read_text() else None


def _end(run_dir: Path) -> dict[str, object]:
    """What must be equal: every byte of the last checkpoint's tensors, the counts, and every line's loss."""
    checkpoint = CheckpointFolder(run_dir).last_good()
    assert checkpoint is not None
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    state = checkpoint.state
    return {
        "files": state.files,
        "counts": (state.step, state.samples, state.tokens, state.updates, state.consumed),
        "losses": [(line["step"], line["loss"], line["gradient_norm"]) for line in lines if "loss" in line],
    }


def main() -> None:
    """Make the run that the arguments ask for and print its table; end with 1 if it is not what was promised."""
    chosen = {"kills": 25, "seed": 1, "steps": 200}
    chosen |= {name: int(value) for name, value in (argument.split("=") for argument in sys.argv[1:])}
    with tempfile.TemporaryDirectory() as folder:
        outcome = crash(chosen["kills"], chosen["seed"], chosen["steps"], Path(folder))
    inside = sum(hit.in_save for hit in outcome.hits)
    print(table(outcome))
    ending = f"differ in {' and '.join(outcome.differences)}" if outcome.differences else "are equal to the bit"
    print(
        f"\n{len(outcome.hits)} kills by seed {chosen['seed']}, {inside} of them inside a save. Its end and that of "
        f"the undisturbed run (weights, moments, counts, every loss) {ending}."
    )
    if outcome.differences or 3 * inside < len(outcome.hits):
        sys.exit(1)


if __name__ == "__main__":
    main()
