"""The stages of a run: which data and which batch sizes it uses over which share of its budget.

One stage is a plain run. Several are a length curriculum (each stage names its own shards) or a batch-size warm-up
(the same shards: their order goes on where the stage before stopped). Pure, but for `entries`, which reads what a run
wrote of its stages. Must not import torch or open a shard.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.checks import as_yaml, suggestion
from conf.errors import InputError

Data = str | list[str] | dict[str, float]
_KEYS = ("share", "data", "sampling_exponent", "global_batch_size", "micro_batch_size")


@dataclass(frozen=True)
class StagePlan:
    """One stage, until the share `end` of the budget (the last one: to the end, end = 1). A plain run's has no name."""

    number: int
    name: str
    end: float
    data: Data
    global_batch_size: int
    micro_batch_size: int
    sampling_exponent: float | None = None


def plan(
    stages: Mapping[str, Mapping[str, Any]] | None,
    data: Data | None,
    global_batch_size: int,
    micro_batch_size: int,
    sampling_exponent: float | None = None,
) -> list[StagePlan]:
    """Return the stages that the option `stages` describes, by name and in their order; null means one stage. What an
    entry leaves out is taken from the options of the whole run.

    Raises InputError naming the stage for an unknown key, a number out of its range, no data, or shares that do not
    add up to 1.
    """
    if stages is None:
        if data is None:
            raise InputError("option 'data' must be given: add data=SHARDS to the command line")
        return [StagePlan(0, "", 1.0, data, global_batch_size, micro_batch_size, sampling_exponent)]
    if not isinstance(stages, Mapping) or not stages:
        raise InputError(f"stages must be null or name -> mapping with {', '.join(_KEYS)}, but is {as_yaml(stages)}.")
    made: list[StagePlan] = []
    end = 0.0
    for number, (name, entry) in enumerate(stages.items()):
        if not isinstance(entry, Mapping):
            raise InputError(f"stages.{name} must be a mapping with {', '.join(_KEYS)}, but is {as_yaml(entry)}.")
        for key in entry:
            if key not in _KEYS:
                raise InputError(f"stages.{name} has no option '{key}': {suggestion(str(key), _KEYS)}")
        share = entry.get("share")
        if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
            raise InputError(f"stages.{name}.share must be a share of the budget in (0, 1], but is {as_yaml(share)}.")
        sizes = {"global_batch_size": global_batch_size, "micro_batch_size": micro_batch_size}
        for size in sizes:
            value = entry.get(size, sizes[size])
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"stages.{name}.{size} must be a whole number above 0, but is {as_yaml(value)}.")
            sizes[size] = value
        own_data = entry.get("data", data)
        if own_data is None:
            raise InputError(f"stages.{name} has no data: give stages.{name}.data, or data for all stages without any.")
        exponent = entry.get("sampling_exponent", sampling_exponent)
        if exponent is not None and (not isinstance(exponent, int | float) or isinstance(exponent, bool)):
            raise InputError(f"stages.{name}.sampling_exponent must be a number or null, but is {as_yaml(exponent)}.")
        end += share
        made.append(StagePlan(number, str(name), end, own_data, **sizes, sampling_exponent=exponent))
    if abs(end - 1.0) > 1e-6:
        raise InputError(f"the shares of the stages must add up to 1, but add up to {end:g}.")
    return made


def check_ranks(stages: Sequence[StagePlan], world_size: int) -> None:
    """Raise InputError unless every stage's global batch is a whole number of micro-batches on every rank."""
    for stage in stages:
        if stage.global_batch_size % (stage.micro_batch_size * world_size):
            where = f"stages.{stage.name}" if stage.name else "trainer"
            raise InputError(
                f"{where}.global_batch_size must be a multiple of {where}.micro_batch_size * ranks = "
                f"{stage.micro_batch_size} * {world_size}, but is {stage.global_batch_size}."
            )


def stage_at(ends: Sequence[float], position: float, total: float) -> int:
    """Return the number of the stage that the batch at `position` of `total` belongs to, given the stages' ends."""
    # A boundary such as 0.9 * 10 is not a whole number in floating point: a millionth of a unit is no step.
    return next((i for i, end in enumerate(ends[:-1]) if position < end * total - 1e-6), len(ends) - 1)


@dataclass(frozen=True)
class StageEntry:
    """That a run entered (or, resumed, re-entered) a stage: the steps before it, and its data's rows used by then.

    `ranks` and `micro_batch_size` say how its batches were dealt out in that session.
    """

    step: int
    stage: int
    first_sample: int
    ranks: int | None = None
    micro_batch_size: int | None = None


def entries(run_dir: str | Path) -> list[StageEntry]:
    """Return the stage entries that a run wrote to its metrics.jsonl, oldest first."""
    found = []
    path = Path(run_dir) / "metrics.jsonl"
    if not path.is_file():
        raise InputError(f"'{run_dir}' must be the directory of a run, but has no {path.name}.")
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if '"first_sample"' in line and line.endswith("\n"):
                record = json.loads(line)
                found.append(StageEntry(**record))
    return found


def place_of_step(found: Sequence[StageEntry], step: int, batch_sizes: Sequence[int]) -> tuple[StageEntry, int]:
    """Return (entry of its stage, first sample of its data) of the batch of step `step` (from 1, as metrics count).

    `found` are a run's stage entries, `batch_sizes` the stages' global batch sizes.
    """
    before = [entry for entry in found if entry.step < step]
    if not before:
        raise InputError(f"step must be a step of the run, from 1 on, but is {step}.")
    last = before[-1]
    return last, last.first_sample + (step - 1 - last.step) * batch_sizes[last.stage]
