"""A run goes on at any ZeRO stage and number of ranks: its state to the bit, its next losses within 1e-6."""

import pytest

from tests.integration.elastic_cases import STAGES, Layout, matrix, table


def check(worlds, path):
    found = matrix(worlds, path)
    layouts = [Layout(world, stage) for world in worlds for stage in STAGES]
    assert found.keys() == {(source, target) for source in layouts for target in layouts}
    assert all(equal and away < 1e-6 for equal, away in found.values()), "\n" + table(found)


# In `make test`, test_parity.py loads the states of 2 ranks at every stage, test_deepspeed_faults.py those of 1 rank
# and of 2 at the other number, and a command of docs/ those of 1 rank at every stage.
@pytest.mark.full
@pytest.mark.timeout(3600)
def test_every_pair_of_stages_and_1_2_or_4_ranks(tmp_path):
    check((1, 2, 4), tmp_path)
