"""Which gap can be seen on a set at all: a smaller one says nothing. Pure functions; must not import torch.

Either from a comparison that was made, by the spread of its paired differences, or planned from the number of items
alone. "Seen" is a two-sided test at 5 % that finds the difference in 80 % of repetitions.
"""

import numpy as np
from scipy.special import betaincinv, nctdtrinc, ndtri, stdtrit

POWER = 0.8
LEVEL = 0.05


def detectable_difference(error: float, freedom: float, power: float = POWER, level: float = LEVEL) -> float:
    """The smallest true difference that a t test of this standard error finds with `power`.

    That at which the noncentral t distribution leaves 1 - power below the critical value; for many degrees of freedom
    (1.960 + 0.842) standard errors.

    Args:
        error: the standard error of the paired difference, over items and, with several runs, over runs.
        freedom: its degrees of freedom.
        power: the share of repetitions in which the difference is found.
        level: of the two-sided test.
    """
    critical = float(stdtrit(freedom, 1 - level / 2))
    return float(nctdtrinc(freedom, 1 - power, critical)) * error


def planned_difference(
    n: int, accuracy: float, agreement: float | None = None, power: float = POWER, level: float = LEVEL
) -> float | None:
    """The smallest difference of two accuracies that McNemar's test finds on n independent items, before any is scored.

    By Connor (1987): with q the share of items that one system alone has right, n d^2 must reach
    (z sqrt(q) + z' sqrt(q - d^2))^2, z and z' the normal quantiles of level and power.

    Args:
        n: items.
        accuracy: the mean of both systems'.
        agreement: share of the items that both have right or both have wrong; None if they are right independently of
            each other, a^2 + (1 - a)^2. Real systems agree more often, and then see smaller gaps.
        power: see `detectable_difference`.
        level: see there.

    Returns:
        None where no difference can be found: even if all disagreement were in one direction, it is too little.

    Raises:
        ValueError: fewer than 1 item, or an agreement that two systems of this accuracy cannot have.
    """
    least = 1 - 2 * min(accuracy, 1 - accuracy)
    shared = accuracy**2 + (1 - accuracy) ** 2 if agreement is None else agreement
    if n < 1 or not 0.0 <= accuracy <= 1.0 or not least - 1e-12 <= shared <= 1.0:
        raise ValueError(
            f"{n} items with accuracy {accuracy} and agreement {shared} cannot be: an agreement must lie between "
            f"{least:.3f} and 1"
        )
    apart = max(0.0, 1 - shared)
    critical, wanted = float(ndtri(1 - level / 2)), float(ndtri(power))
    if n < critical**2:
        return None
    # The larger root of the equation, squared.
    gap = apart**0.5 * (critical * n**0.5 + wanted * (n - critical**2 + wanted**2) ** 0.5) / (n + wanted**2)
    return float(gap) if 0.0 < gap <= apart else None


def least_one_sided(groups: int, power: float = POWER, level: float = LEVEL) -> float | None:
    """The smallest difference that shows where the two have not differed yet: the share d of groups won by one alone.

    An exact sign test needs k groups, all in one direction, with 2 / 2^k below the level; so many must turn up among
    `groups` with `power`: the binomial tail of d, inverted.

    Returns:
        None where there are fewer than k groups: no result of this test can be significant.
    """
    needed = int(np.floor(np.log2(2 / level))) + 1
    if groups < needed:
        return None
    return float(betaincinv(needed, groups - needed + 1, power))
