"""The factor on the loss that keeps small fp16 gradients from vanishing, and how it follows overflows.

The rule of Micikevicius et al. (2018), section 3.2, with the constants of torch's GradScaler. A factor is a power of
two, so scaling and unscaling are exact. Must not import torch: whether a gradient overflowed is for the engine to say.
"""

import math


class LossScale:
    """`factor` for the next backward pass; tell `update` after each step whether its gradient was finite."""

    def __init__(self, initial: float, window: int) -> None:
        self.factor, self._window = initial, window
        self.clean_steps = 0

    def update(self, *, finite: bool) -> None:
        """Halve the factor after an overflow (never below 1); double it after `window` steps without one."""
        self.clean_steps = self.clean_steps + 1 if finite else 0
        if not finite:
            self.factor = max(1.0, self.factor / 2)
        elif self.clean_steps == self._window:
            self.factor, self.clean_steps = self.factor * 2, 0
            if math.isinf(self.factor):
                self.factor = 2.0**1023

    def restore(self, factor: float, clean_steps: int) -> None:
        """Go on from the `factor` and `clean_steps` of another scale."""
        self.factor, self.clean_steps = factor, clean_steps
