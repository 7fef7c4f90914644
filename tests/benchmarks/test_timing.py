"""`products_share` counts matrix products and nothing else."""

import pytest
import torch

from benchmarks.timing import products_share


class Loop:
    """A loop of one operation."""

    fill = 1.0

    def __init__(self, operation) -> None:
        self._operation, self._inputs = operation, torch.ones(4, 256, 256)

    def step(self) -> int:
        self._operation(self._inputs)
        return 1

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "product", [lambda x: torch.bmm(x, x), lambda x: x[0] @ x[1], lambda x: torch.addmm(x[0], x[1], x[2])]
)
def test_a_loop_of_products_is_mostly_products(product):
    assert products_share(Loop(product), 3) > 0.5


def test_a_loop_without_products_has_no_share_of_them():
    assert products_share(Loop(torch.exp), 3) == 0.0
