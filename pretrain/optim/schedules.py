"""Learning-rate schedules: pure functions from where the run is in its budget to a factor on the peak rate.

`position` is how much of the budget was used before the update about to be made, `size` how much this update uses and
`total` the whole budget, all in the budget's own unit: optimiser steps (then size is 1), tokens or hours. Options that
are lengths (`warmup`, `decay`) are in that unit too; the others are shares. Warm-up looks at the end of the update
(position + size), so that the first update uses the first warm-up value and not 0; a decay looks at its beginning
(position), so that it starts from the peak. Nothing is remembered: a resumed run continues on the same curve. Beyond
`total` a factor stays at its last value. Must not import torch.
"""

import math
from typing import Literal

from conf.errors import InputError

First = Literal["warm", "zero"]


def constant(position: float, size: float, total: float, /, *, warmup: float = 0.0, first: First = "warm") -> float:
    """Warm up, then stay at 1."""
    _check(total, warmup, first)
    return _warmup(position, size, warmup, first)


def linear(
    position: float,
    size: float,
    total: float,
    /,
    *,
    warmup: float = 0.0,
    final: float = 0.0,
    first: First = "warm",
    decay_from: Literal["warmup", "start"] = "warmup",
) -> float:
    """Warm up, then fall in a line to `final` at `total`.

    The line starts from 1 at the end of the warm-up (the form of transformers and of most papers), or with
    decay_from="start" from 1 at position 0, so that the factor steps down from 1 to 1 - warmup / total (for final=0)
    where the warm-up ends: BERT's released optimization.py does that, with first="zero".
    """
    _check(total, warmup, first, final)
    if decay_from not in ("warmup", "start"):
        raise InputError(f"schedule.decay_from must be 'warmup' or 'start', but is {decay_from!r}.")
    if position < warmup:
        return _warmup(position, size, warmup, first)
    start = warmup if decay_from == "warmup" else 0.0
    return 1.0 - (1.0 - final) * _share(position, start, total)


def cosine(
    position: float,
    size: float,
    total: float,
    /,
    *,
    warmup: float = 0.0,
    final: float = 0.0,
    first: First = "warm",
) -> float:
    """Warm up, then fall along half a cosine to `final` at `total` (Loshchilov and Hutter, 2017)."""
    _check(total, warmup, first, final)
    if position < warmup:
        return _warmup(position, size, warmup, first)
    return _along_cosine(1.0, final, _share(position, warmup, total))


def inverse_sqrt(position: float, size: float, total: float, /, *, warmup: float, first: First = "warm") -> float:
    """Warm up, then fall as sqrt(warmup / position) (Vaswani et al., 2017, scaled to a peak of 1).

    The shape does not depend on `total`. As in fairseq and transformers, position counts what was used before the
    update; the paper's formula counts the update itself too, one step later.
    """
    _check(total, warmup, first)
    if warmup == 0:
        raise InputError("schedule.warmup of inverse_sqrt must be above 0: the rate falls from the end of the warm-up.")
    if position < warmup:
        return _warmup(position, size, warmup, first)
    return math.sqrt(warmup / position)


def wsd(
    position: float,
    size: float,
    total: float,
    /,
    *,
    decay: float,
    warmup: float = 0.0,
    final: float = 0.0,
    first: First = "warm",
) -> float:
    """Warm up, stay at 1, then decay over the last `decay` as 1 - sqrt(t / T) to `final` (Hägele et al., 2024).

    t and T are counted within the decay.
    """
    _check(total, warmup, first, final)
    if not 0.0 <= decay <= total - warmup:
        raise InputError(
            f"schedule.decay must be between 0 and the budget less the warm-up = {total - warmup:g} (in the budget's "
            f"unit), but is {decay:g}."
        )
    start = total - decay
    if position < start or decay == 0:
        return _warmup(position, size, warmup, first)
    return 1.0 - (1.0 - final) * math.sqrt(_share(position, start, total))


def one_cycle(
    position: float,
    size: float,
    total: float,
    /,
    *,
    rise: float = 0.3,
    start: float = 0.04,
    final: float = 4e-6,
) -> float:
    """Rise from `start` to 1 over a share `rise` of the budget, then fall to `final`, both along half a cosine.

    Smith and Topin (2018) in the form of torch's OneCycleLR (two phases), whose defaults these are: div_factor is
    1 / start, final_div_factor start / final. The peak is the last update of the rise and `final` the last of all.
    The paper also lowers the momentum while the rate is high; this moves the rate alone.
    """
    _check(total)
    _check_shares(rise=rise, start=start, final=final)
    peak = max(0.0, rise * total - size)
    if position <= peak or peak >= total - size:
        return _along_cosine(start, 1.0, _share(position, 0.0, peak))
    return _along_cosine(1.0, final, _share(position, peak, total - size))


def slanted_triangular(
    position: float, size: float, total: float, /, *, rise: float = 0.1, ratio: float = 32.0
) -> float:
    """Rise in a line over a share `rise` of the budget, then fall in a line (ULMFiT: Howard and Ruder, 2018).

    With cut = the rise in whole updates, p = t / cut before it and 1 - (t - cut) / (cut (1 / rise - 1)) after it, the
    factor is (1 + p (ratio - 1)) / ratio: it starts from and ends near 1 / ratio. Where the paper's formula has no
    sense: a budget whose rise is less than one update (cut = 0) has no rise, and falls over the whole budget; p never
    goes below 0, which rounding cut down would bring about before the end.
    """
    _check(total)
    _check_shares(rise=rise)
    if not 1.0 <= ratio < math.inf:
        raise InputError(f"schedule.ratio (peak rate / lowest rate) must be at least 1, but is {ratio}.")
    # Not floor(total / size * rise): 0.1 * 30 is 3.0000000000000004 but 0.7 * 10 is 6.999999999999999.
    cut = math.floor(round(total * rise / size, 9)) * size if size > 0 else total * rise
    if position < cut:
        p = position / cut
    elif cut > 0:
        p = 1.0 if rise == 1.0 else 1.0 - (position - cut) / (cut * (1.0 / rise - 1.0))
    else:
        p = 1.0 - position / total
    return (1.0 + min(1.0, max(0.0, p)) * (ratio - 1.0)) / ratio


def _warmup(position: float, size: float, warmup: float, first: First) -> float:
    """Rise in a line to 1: size / warmup at the first update and 1 at the last (first="zero": one update later)."""
    if warmup == 0:
        return 1.0
    return min(1.0, (position if first == "zero" else position + size) / warmup)


def _share(position: float, start: float, end: float) -> float:
    """Return how much of the way from `start` to `end` is behind `position`: 0 up to start, 1 from end on."""
    if position >= end:
        return 1.0
    return max(0.0, (position - start) / (end - start))


def _along_cosine(at_first: float, at_last: float, share: float) -> float:
    """Go from one value to another along half a cosine."""
    return at_last + (at_first - at_last) * 0.5 * (1.0 + math.cos(math.pi * share))


def _check(total: float, warmup: float = 0.0, first: First = "warm", final: float = 0.0) -> None:
    if not total > 0.0:
        raise InputError(f"the budget of the schedule must be above 0, but is {total}.")
    if not 0.0 <= warmup <= total:
        raise InputError(
            f"schedule.warmup must be between 0 and the budget = {total:g} (in the budget's unit: steps, tokens or "
            f"hours), but is {warmup:g}."
        )
    if first not in ("warm", "zero"):
        raise InputError(f"schedule.first must be 'warm' or 'zero', but is {first!r}.")
    _check_shares(final=final)


def _check_shares(**shares: float) -> None:
    for name, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise InputError(f"schedule.{name} is a share, between 0 and 1, but is {share}.")
