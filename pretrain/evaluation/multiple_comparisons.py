"""Several tests in one table: of twenty true nulls one is below 5 %. Pure functions; must not import torch."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Corrected p values [tests], in the order given: the chance of even one false finding stays below the level.

    Holm (1979): the smallest p is multiplied by the number of tests, the next by one less and so on; no corrected value
    is below that of a smaller p, none above 1. It holds however the tests depend on each other, as do the parts of a
    task and the whole.

    Args:
        p_values: [tests], each in [0, 1]; may be empty.

    Raises:
        ValueError: a value that is no probability.
    """
    given = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if not ((given >= 0.0) & (given <= 1.0)).all():
        raise ValueError(f"p values must lie between 0 and 1, but are {given.tolist()}")
    order = np.argsort(given, kind="stable")
    stepped = np.minimum(1.0, np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1)))
    corrected = np.empty_like(stepped)
    corrected[order] = stepped
    return corrected
