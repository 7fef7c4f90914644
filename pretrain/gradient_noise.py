"""The simple gradient noise scale: how many samples a batch may hold before more of them stop helping.

McCandlish et al. (2018), "An Empirical Model of Large-Batch Training", section 2.2 and appendix A.1. With G the true
gradient and Sigma the covariance of one sample's gradient, a mean over B samples has E|G_B|^2 = |G|^2 + tr(Sigma) / B.
Two batch sizes give two equations. Pure; must not import torch.
"""

from dataclasses import dataclass

from conf.errors import InputError


@dataclass(frozen=True)
class NoiseEstimate:
    """Unbiased estimates of |G|^2 and tr(Sigma) from one step. Noisy: either may come out below 0."""

    gradient_squared: float
    trace: float


def estimate_noise(
    small_norm_squared: float, small_batch: float, big_norm_squared: float, big_batch: float
) -> NoiseEstimate:
    """Return the estimates from squared norms of MEAN gradients over a small and a big batch.

    |G|^2 = (B |G_B|^2 - b |G_b|^2) / (B - b) and tr(Sigma) = (|G_b|^2 - |G_B|^2) / (1 / b - 1 / B). The small norm is
    better the mean over several small batches (the ranks' or micro-batches' own gradients, say), of which the big one
    may be made. A batch is counted in whatever a sample is: rows, or target tokens. Raises InputError unless
    0 < small_batch < big_batch.
    """
    if not 0.0 < small_batch < big_batch:
        raise InputError(
            f"the noise scale compares a small batch with a bigger one, but got {small_batch:g} and {big_batch:g}: it "
            "needs at least two ranks or two micro-batches a step."
        )
    return NoiseEstimate(
        gradient_squared=(big_batch * big_norm_squared - small_batch * small_norm_squared) / (big_batch - small_batch),
        trace=(small_norm_squared - big_norm_squared) / (1.0 / small_batch - 1.0 / big_batch),
    )


class NoiseScale:
    """The scale B_simple = tr(Sigma) / |G|^2, in samples, from running means of both over steps.

    A ratio of means and not a mean of ratios, which would be biased (appendix A.1). `decay` is the weight of what was
    before: 0.99 looks back over about 100 steps.
    """

    def __init__(self, decay: float = 0.99) -> None:
        if not 0.0 <= decay < 1.0:
            raise InputError(f"the decay of the noise scale must be in [0, 1), but is {decay}.")
        self._decay = decay
        self._gradient_squared = self._trace = self._weight = 0.0

    def update(self, estimate: NoiseEstimate) -> None:
        """Take in the estimates of one step."""
        keep = self._decay
        self._gradient_squared = keep * self._gradient_squared + (1.0 - keep) * estimate.gradient_squared
        self._trace = keep * self._trace + (1.0 - keep) * estimate.trace
        self._weight = keep * self._weight + (1.0 - keep)

    @property
    def mean(self) -> NoiseEstimate | None:
        """The running means, corrected for their start at 0; None before the first step."""
        if self._weight == 0.0:
            return None
        return NoiseEstimate(self._gradient_squared / self._weight, self._trace / self._weight)

    @property
    def value(self) -> float | None:
        """B_simple in samples; None while noise hides it (a mean of |G|^2 or tr(Sigma) that is not above 0)."""
        mean = self.mean
        if mean is None or mean.gradient_squared <= 0.0 or mean.trace <= 0.0:
            return None
        return mean.trace / mean.gradient_squared
