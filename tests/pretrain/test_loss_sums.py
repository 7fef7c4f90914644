import json

import pytest
import torch

from pretrain.loss_sums import LossSums


def added(*steps):
    """Sums after steps of (loss, weight of the targets)."""
    sums = LossSums()
    for loss, weight in steps:
        sums.add({"masked_lm": torch.tensor(loss)}, {"masked_lm": weight})
    return sums


def test_losses_are_means_over_the_targets_of_all_steps_and_ranks():
    sums = LossSums()
    sums.add({"masked_lm": torch.tensor(6.0), "sentence": torch.tensor(1.0)}, {"masked_lm": 4.0, "sentence": 0.0})
    sums.add({"masked_lm": torch.tensor(2.0), "sentence": torch.tensor(0.0)}, {"masked_lm": 12.0, "sentence": 0.0})
    assert sums.means(lambda values: [2 * value for value in values]) == {"masked_lm": 1.0, "sentence": 2.0}
    sums.clear()
    assert sums.means(lambda values: values) == {} == sums.state()


def test_sums_that_were_saved_go_on_to_the_bit_at_the_same_number_of_ranks():
    steps = [(0.1, 3.0), (0.2, 4.0), (0.3, 5.0)]
    states = json.loads(json.dumps([added(*steps[:2]).state(), added((7.0, 3.0), (8.0, 4.0)).state()]))
    resumed = LossSums()
    resumed.restore(states, rank=0, world_size=2)
    resumed.add({"masked_lm": torch.tensor(0.3)}, {"masked_lm": 5.0})
    assert resumed.state() == added(*steps).state()


@pytest.mark.parametrize("world_size", [1, 3])
def test_at_another_number_of_ranks_all_that_was_added_counts_once(world_size):
    states = [added((1.0, 3.0)).state(), added((2.0, 3.0)).state()]
    total = 0.0
    for rank in range(world_size):
        sums = LossSums()
        sums.restore(states, rank, world_size)
        ((part, weight),) = sums.state().values()
        assert weight == 3.0
        total += part
    assert total == 3.0
    empty = LossSums()
    empty.restore([], rank=0, world_size=world_size)
    assert empty.state() == {}
