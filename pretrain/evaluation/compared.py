"""What a comparison of two evaluations found, row by row; `comparison.json` holds it.

Must not import torch, or scipy: the report reads these rows back and needs no test of its own.
"""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["better", "worse", "equivalent", "undecided"]


@dataclass(frozen=True)
class Side:
    """One of the two: a name that tells it from the other, its folder, whose scores they are, what was evaluated."""

    name: str
    path: str
    model: str
    checkpoint: str


@dataclass(frozen=True)
class ComparedRow:
    """One task and metric.

    `difference` is second less first, with a 95 % interval `low` to `high`; `test` names what gave `p`; `p_corrected`
    is Holm's over all rows. `detectable` is the smallest difference that is found here in 4 of 5 repetitions;
    `equivalence_p` is that of two one-sided tests at the margin, corrected as `equivalence_p_corrected`. `runs` are
    those of first and second, `groups` the groups of items.
    """

    task: str
    metric: str
    n: int
    groups: int
    runs: tuple[int, int]
    first: float
    second: float
    difference: float
    low: float
    high: float
    test: str
    p: float
    detectable: float
    equivalence_p: float
    p_corrected: float = 1.0
    equivalence_p_corrected: float = 1.0
    verdict: Verdict = "undecided"


@dataclass(frozen=True)
class TwoCompared:
    """The whole comparison."""

    first: Side
    second: Side
    margin: float
    rows: tuple[ComparedRow, ...]
    notes: tuple[str, ...]
