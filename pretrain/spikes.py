"""When a gradient's norm is a spike: a pure rule over the norms of the last accepted steps.

Must not import torch, the engine or the trainer.
"""

import math
from collections import deque
from collections.abc import Iterable

from conf.errors import InputError


class SpikeRule:
    """A norm is a spike if it lies more than `sigmas` standard deviations above the mean of the last accepted norms.

    The last `window` accepted norms count; until there are that many nothing is called a spike, for the first steps
    tell little of what is usual. Mean and deviation are those of the window itself (divided by n). A deviation below
    `LEAST_DEVIATION` of the mean counts as that much, lest rounding noise on equal norms be a spike.
    """

    LEAST_DEVIATION = 1e-3

    def __init__(self, sigmas: float, window: int = 128, recent: Iterable[float] = ()) -> None:
        if not (math.isfinite(sigmas) and sigmas > 0):
            raise InputError(f"a spike rule's sigmas must be above 0, but are {sigmas}.")
        if window < 2:
            raise InputError(f"a spike rule's window must be at least 2 norms, but is {window}.")
        self.sigmas, self.window = sigmas, window
        self._recent: deque[float] = deque(maxlen=window)
        self.restore(recent)

    @property
    def recent(self) -> list[float]:
        """The accepted norms that count, oldest first: all the state there is."""
        return list(self._recent)

    def restore(self, recent: Iterable[float]) -> None:
        """Go on from the `recent` norms of another rule; of more than the window the newest count."""
        self._recent = deque((float(norm) for norm in recent), maxlen=self.window)

    def limit(self) -> float:
        """Return the largest norm that is accepted now; infinity while fewer than `window` norms are known."""
        if len(self._recent) < self.window:
            return math.inf
        mean = math.fsum(self._recent) / self.window
        deviation = math.sqrt(math.fsum((norm - mean) ** 2 for norm in self._recent) / self.window)
        return mean + self.sigmas * max(deviation, self.LEAST_DEVIATION * mean)

    def judge(self, norm: float) -> str | None:
        """Return why a step of this gradient norm must not be made, or None; a norm that may is remembered.

        Raises ValueError for a norm that is not finite, which is for the engine to catch.
        """
        if not math.isfinite(norm):
            raise ValueError(f"a norm to judge must be finite, but is {norm}")
        limit = self.limit()
        if norm > limit:
            return f"gradient norm {norm:.4g} is beyond {self.sigmas:g} sigma of the last {self.window} ({limit:.4g})"
        self._recent.append(norm)
        return None
