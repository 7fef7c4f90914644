"""Learning curves: one score a training-set size, and the area under them. Pure functions; must not import torch."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from conf.errors import InputError


def area_weights(sizes: Sequence[int]) -> NDArray[np.float64]:
    """The weight of each size's score in the area under the curve, summing to 1.

    The trapezoid rule over log2(size), divided by the range: what WinoGrande's published evaluator computes (Sakaguchi
    et al. 2020), whose five sizes give .125312 .250554 .250571 .249446 .124116. The area is in the unit of the score:
    that of a curve of one value is this value.

    Raises:
        InputError: fewer than two sizes, or sizes that do not rise.
    """
    if len(sizes) < 2:
        raise InputError(f"a learning curve needs at least 2 sizes, but has {len(sizes)}: {list(sizes)}")
    if sizes[0] < 1 or any(one >= other for one, other in itertools.pairwise(sizes)):
        raise InputError(f"the sizes of a learning curve must rise from at least 1, but are {list(sizes)}")
    steps = np.diff(np.log2(np.asarray(sizes, dtype=np.float64)))
    weights = np.zeros(len(sizes))
    weights[:-1] += steps / 2
    weights[1:] += steps / 2
    return weights / steps.sum()


def subset(count: int, size: int, seed: int) -> list[int]:
    """The numbers of `size` out of `count` training items, in their order.

    For one seed the smaller sets are parts of the larger ones; another seed draws others, so that the spread over
    seeds holds that over training sets.

    Raises:
        InputError: there are not so many items.
    """
    if not 1 <= size <= count:
        raise InputError(f"a training set of {size} items was asked for, but there are {count}: ask for fewer")
    # A stream of its own: the loop's generator takes the bare seed.
    drawn = np.random.default_rng([seed, 1]).permutation(count)[:size]
    return sorted(drawn.tolist())
