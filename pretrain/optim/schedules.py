"""Learning-rate schedules: pure functions from the optimiser step to a factor on the peak rate.

`step` counts from 0 and names the update about to be made, so that the first update uses the first warm-up value
1 / warmup_steps and not 0, and a resumed run continues on the same curve. Must not import torch.
"""

import math

from conf.errors import InputError


def _warmup(step: int, warmup_steps: int) -> float:
    """Rise linearly from 1 / warmup_steps to 1 (at step warmup_steps - 1)."""
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps > 0 else 1.0


def _decayed_share(step: int, start: int, total_steps: int) -> float:
    """Return how much of the decay from `start` to `total_steps` has passed: 0 at start, 1 at the end."""
    return min(1.0, max(0.0, (step - start) / max(1, total_steps - start)))


def _check(total_steps: int, warmup_steps: int, final: float) -> None:
    if warmup_steps < 0 or warmup_steps > total_steps:
        raise InputError(
            f"schedule.warmup_steps must be between 0 and schedule.total_steps = {total_steps}, but is {warmup_steps}."
        )
    if not 0.0 <= final <= 1.0:
        raise InputError(f"schedule.final is a share of the peak rate, between 0 and 1, but is {final}.")


def constant(step: int, *, warmup_steps: int = 0) -> float:
    """Warm up, then stay at 1."""
    return _warmup(step, warmup_steps)


def linear(step: int, *, total_steps: int, warmup_steps: int = 0, final: float = 0.0) -> float:
    """Warm up, then fall in a line to `final` at `total_steps` (BERT's shape)."""
    _check(total_steps, warmup_steps, final)
    if step < warmup_steps:
        return _warmup(step, warmup_steps)
    return 1.0 - (1.0 - final) * _decayed_share(step, warmup_steps, total_steps)


def cosine(step: int, *, total_steps: int, warmup_steps: int = 0, final: float = 0.0) -> float:
    """Warm up, then fall along half a cosine to `final` at `total_steps` (Loshchilov and Hutter, 2017)."""
    _check(total_steps, warmup_steps, final)
    if step < warmup_steps:
        return _warmup(step, warmup_steps)
    share = _decayed_share(step, warmup_steps, total_steps)
    return final + (1.0 - final) * 0.5 * (1.0 + math.cos(math.pi * share))


def inverse_sqrt(step: int, *, warmup_steps: int) -> float:
    """Warm up, then fall as sqrt(warmup_steps / updates made) (Vaswani et al., 2017, scaled to a peak of 1)."""
    if warmup_steps < 1:
        raise InputError(f"schedule.warmup_steps of inverse_sqrt must be at least 1, but is {warmup_steps}.")
    if step < warmup_steps:
        return _warmup(step, warmup_steps)
    return math.sqrt(warmup_steps / (step + 1))


def wsd(step: int, *, total_steps: int, decay_steps: int, warmup_steps: int = 0, final: float = 0.0) -> float:
    """Warm up, stay at 1, then decay over the last `decay_steps` as 1 - sqrt(t / T) (Hägele et al., 2024).

    t and T are counted within the decay.
    """
    _check(total_steps, warmup_steps, final)
    if not 0 <= decay_steps <= total_steps - warmup_steps:
        raise InputError(
            f"schedule.decay_steps must be between 0 and total_steps - warmup_steps = "
            f"{total_steps - warmup_steps}, but is {decay_steps}."
        )
    start = total_steps - decay_steps
    if step < start or decay_steps == 0:
        return _warmup(step, warmup_steps)
    return 1.0 - (1.0 - final) * math.sqrt(_decayed_share(step, start, total_steps))
