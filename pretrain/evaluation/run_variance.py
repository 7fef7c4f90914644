"""From one run's interval over sentences to one over sentences and further runs. Pure; must not import torch.

For corpus scores of which each run has a bootstrap of its own sentences and nothing else: BLEU and chrF. The variance
is the sum of that over sentences, taken from the first run's 95 % interval, and that between runs, var / runs; the mean
over runs has less of the former than one run, so the interval is rather too wide than too narrow. The degrees of
freedom are Welch's and Satterthwaite's, with infinitely many for the sentences.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from pretrain.evaluation.statistics import CONFIDENCE, Estimate
from pretrain.evaluation.translation_metrics import Difference

_TAIL = 0.5 + CONFIDENCE / 2


def score_over_runs(values: Sequence[float], low: float, high: float) -> Estimate:
    """The mean of a score over runs, with a 95 % interval.

    Args:
        values: one a run, of 0 to 100.
        low, high: the first run's 95 % interval over sentences; it is kept as it is where there is one run.
    """
    mean = float(np.mean(values))
    if len(values) == 1:
        return Estimate(mean, low, high)
    half = _half_width([_between(values)], [len(values)], (high - low) / 2)
    return Estimate(mean, max(0.0, mean - half), min(100.0, mean + half))


def difference_over_runs(baseline: Sequence[float], system: Sequence[float], first: Difference) -> Difference:
    """What a system gains over a baseline on the mean over runs of both, with interval and two-sided t test.

    Args:
        baseline, system: BLEU of each run; the runs are not paired.
        first: the difference of the first runs over resampled sentences, kept as it is where both have one run.
    """
    if len(baseline) == len(system) == 1:
        return first
    before, after = float(np.mean(baseline)), float(np.mean(system))
    groups = [values for values in (baseline, system) if len(values) > 1]
    parts, counts = [_between(values) for values in groups], [len(values) for values in groups]
    over_sentences = (first.high - first.low) / 2
    half = _half_width(parts, counts, over_sentences)
    total = sum(parts) + _variance(over_sentences)
    p_value = 1.0
    if total > 0:
        p_value = 2 * float(stdtr(_freedom(parts, counts, total), -abs(after - before) / math.sqrt(total)))
    gain = after - before
    signature = f"{first.signature}|seeds:{len(baseline)}+{len(system)}"
    return replace(
        first, baseline=before, system=after, low=gain - half, high=gain + half, p_value=p_value, signature=signature
    )


def _between(values: Sequence[float]) -> float:
    """The variance of the mean of several runs."""
    return float(np.var(values, ddof=1)) / len(values)


def _variance(half: float) -> float:
    """Of a normal estimate whose 95 % interval is so wide to either side."""
    return (half / float(ndtri(_TAIL))) ** 2


def _freedom(parts: Sequence[float], counts: Sequence[int], total: float) -> float:
    below = sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return total**2 / below if below > 0 else math.inf


def _half_width(parts: Sequence[float], counts: Sequence[int], over_sentences: float) -> float:
    total = sum(parts) + _variance(over_sentences)
    freedom = _freedom(parts, counts, total)
    quantile = ndtri(_TAIL) if math.isinf(freedom) else stdtrit(freedom, _TAIL)
    return float(quantile) * math.sqrt(total)
