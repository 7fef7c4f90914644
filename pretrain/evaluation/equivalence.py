"""Are two systems the same but for a margin: "not significant" is not "equal". Pure functions; must not import torch.

Two one-sided t tests (Schuirmann 1987): one that the difference is above -margin, one that it is below +margin. Both
must hold, so the p is the larger of the two. The margin is stated before the numbers are seen.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit  # scipy.stats takes half a second to import, for the same figures

LEVEL = 0.05


@dataclass(frozen=True)
class Equivalence:
    """Second less first: equivalent at 5 % with a `p` below that, which is when [low, high], of 90 %, is within it."""

    difference: float
    low: float
    high: float
    p: float
    freedom: float
    margin: float


def tost(difference: float, error: float, freedom: float, margin: float) -> float:
    """The p of two one-sided t tests.

    Args:
        difference: what was measured.
        error: its standard error; without any the answer is certain, 0 within the margin, else 1.
        freedom: the degrees of freedom of that error.
        margin: the largest difference that counts as none, above 0.

    Raises:
        ValueError: the margin is not above 0, or the error is below 0.
    """
    if not margin > 0.0 or not error >= 0.0:
        raise ValueError(f"a margin above 0 and an error from 0 are needed, but they are {margin} and {error}")
    if error == 0.0:
        return 0.0 if abs(difference) < margin else 1.0
    above = stdtr(freedom, -(difference + margin) / error)
    below = stdtr(freedom, (difference - margin) / error)
    return float(max(above, below))


def tost_without_spread(difference: float, groups: int, margin: float, reach: float = 1.0) -> float:
    """The p where every group of items shows the same difference, mostly none, so that there is no standard error.

    If the true difference were the margin, at least margin / reach of all groups would show one: the chance that none
    of G does is (1 - margin / reach)^G.

    Args:
        difference: what was measured.
        groups: how many groups of items there are.
        margin: see `tost`.
        reach: the largest difference that the metric can have.
    """
    if not margin > 0.0:
        raise ValueError(f"a margin above 0 is needed, but it is {margin}")
    return max(0.0, 1 - margin / reach) ** groups if abs(difference) < margin else 1.0


def tost_welch(first: ArrayLike, second: ArrayLike, margin: float) -> Equivalence:
    """Equivalence of two sets of runs that have nothing to do with each other, with Welch's degrees of freedom.

    Args:
        first: [runs] of one system, at least 2, for example one score a seed.
        second: [runs] of the other, not necessarily as many.
        margin: see `tost`.

    Raises:
        ValueError: fewer than 2 runs, or a margin not above 0.
    """
    one, other = _runs(first), _runs(second)
    parts = [values.var(ddof=1) / len(values) for values in (one, other)]
    total = float(sum(parts))
    freedom = float(len(one) + len(other) - 2)
    if total > 0.0:
        weighted = sum(part**2 / (len(values) - 1) for part, values in zip(parts, (one, other), strict=True))
        freedom = float(total**2 / weighted)
    difference, error = float(other.mean() - one.mean()), total**0.5
    half = float(stdtrit(freedom, 1 - LEVEL)) * error
    p = tost(difference, error, freedom, margin)
    return Equivalence(difference, difference - half, difference + half, p, freedom, margin)


def _runs(values: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or len(found) < 2:
        raise ValueError(f"a spread over runs needs a list of at least 2, but this has shape {found.shape}")
    return found
