"""A model in evaluation mode for a while. Must import nothing of the project."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and back into the one it was in, also where the work inside fails."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
