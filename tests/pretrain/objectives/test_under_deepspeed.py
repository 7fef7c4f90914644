"""Every objective trains under ZeRO as by plain torch, stage 3 included, where the output matrix is in pieces."""

import pytest

from tests.helpers.ranks import run_on_ranks
from tests.pretrain.objectives import deepspeed_cases

CASES = {(0, "fp32"): 1e-6, (3, "fp32"): 1e-6, (3, "bf16"): 2e-3}


@pytest.fixture(scope="module")
def runs():
    """(stage, precision) -> the weights of each objective's model that rank 0 of 2 returned."""
    results = run_on_ranks("tests.pretrain.objectives.deepspeed_cases:train_cases", 2, cases=list(CASES), timeout=240)
    return dict(zip(CASES, results[0], strict=True))


@pytest.mark.parametrize("name", deepspeed_cases.OBJECTIVES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "zero{}-{}".format(*case))
def test_every_objective_takes_the_updates_of_plain_torch(case, name, runs):
    expected, start = deepspeed_cases.train_plainly(name), dict(deepspeed_cases.model_of(name).named_parameters())
    assert sum(float((expected[key] - start[key].detach()).norm()) for key in expected) > 0.05
    for key, weight in expected.items():
        assert float((runs[case][name][key] - weight).abs().max()) < CASES[case], key
