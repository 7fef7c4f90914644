"""Go on from any ZeRO stage and number of ranks at any other: real checkpoint files, real DeepSpeed, gloo ranks.

What the ranks of `test_elastic` and `print_elastic` run, and the matrix they make of it.
"""

from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from pretrain.checkpoints import CheckpointFolder, Keep, RunState
from pretrain.distributed import Group
from pretrain.engine_state import FullState
from tests.helpers.ranks import run_on_ranks
from tests.integration.parity_cases import Case, build, take_step

STAGES, STEPS, FURTHER = (0, 1, 2, 3), 3, 2


class Layout(NamedTuple):
    """How a run is spread out."""

    world: int
    stage: int

    def __str__(self) -> str:
        return f"ZeRO {self.stage} on {self.world}"


class Outcome(NamedTuple):
    """What came of going on: weights and moments equal to the bit once loaded, and the next losses."""

    equal: bool
    losses: list[float]


def save_states(group: Group, path: str) -> dict[int, list[float]]:
    """Train at each stage, save, and train on; return the further losses by stage."""
    found = {}
    for stage in STAGES:
        engine = build(group, Case(stage))
        for step in range(STEPS):
            take_step(group, engine, 1, step)
        full = engine.full_state()
        if group.ranks.is_main:
            state = RunState(STEPS, 0, 0, 0.0, full.updates, {}, 0, "", "", {})
            folder = CheckpointFolder(Path(path) / str(Layout(group.ranks.world_size, stage)))
            folder.save(state, full.weights, full.optimizer, Keep())
        found[stage] = [take_step(group, engine, 1, STEPS + further)["loss"] for further in range(FURTHER)]
        engine.close()
    return found


def go_on(group: Group, path: str, sources: list[Layout]) -> dict[tuple[Layout, int], Outcome]:
    """Load each source's checkpoint at each stage and train on."""
    found = {}
    for source, stage in product(sources, STAGES):
        checkpoint = CheckpointFolder(Path(path) / str(source)).last_good()
        assert checkpoint is not None
        weights, optimizer = checkpoint.weights(), checkpoint.optimizer()
        engine = build(group, Case(stage), weights)
        engine.load_optimizer_state(FullState({}, optimizer, checkpoint.state.updates))
        loaded = engine.full_state()
        equal = not group.ranks.is_main or (
            loaded.updates == checkpoint.state.updates
            and same(loaded.weights, weights)
            and same(loaded.optimizer, optimizer)
        )
        losses = [take_step(group, engine, 1, STEPS + further)["loss"] for further in range(FURTHER)]
        engine.close()
        found[source, stage] = Outcome(equal, losses)
    return found


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    """Whether two sets of tensors are equal to the bit."""
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def matrix(worlds: tuple[int, ...], path: Path) -> dict[tuple[Layout, Layout], tuple[bool, float]]:
    """Return, for each (source, target), whether the state came through to the bit, and the largest relative
    difference of the next losses."""
    expected, found = {}, {}
    module = "tests.integration.elastic_cases"
    for world in worlds:
        losses = run_on_ranks(f"{module}:save_states", world, timeout=600.0, path=str(path))[0]
        expected.update({Layout(world, stage): losses[stage] for stage in STAGES})
    for world in worlds:
        results: Any = run_on_ranks(f"{module}:go_on", world, timeout=1800.0, path=str(path), sources=list(expected))
        for (source, stage), outcome in results[0].items():
            away = max(abs(ours / theirs - 1) for ours, theirs in zip(outcome.losses, expected[source], strict=True))
            found[source, Layout(world, stage)] = outcome.equal, away
    return found


def table(found: dict[tuple[Layout, Layout], tuple[bool, float]]) -> str:
    """Return the matrix as a Markdown table."""
    targets = list(dict.fromkeys(target for _, target in found))
    lines = [["saved by \\ goes on at", *map(str, targets)], ["---"] * (len(targets) + 1)]
    for source in dict.fromkeys(source for source, _ in found):
        cells = [found[source, target] for target in targets]
        lines.append([str(source), *(f"{away:.0e}" if equal else "STATE DIFFERS" for equal, away in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
