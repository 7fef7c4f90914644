"""Every objective trains under ZeRO as by plain torch, stage 3 included, where the output matrix is in pieces."""

import pytest

from tests.helpers.ranks import run_on_ranks
from tests.pretrain.objectives import deepspeed_cases


@pytest.mark.parametrize(("stage", "precision", "limit"), [(0, "fp32", 1e-6), (3, "fp32", 1e-6), (3, "bf16", 2e-3)])
def test_every_objective_takes_the_updates_of_plain_torch(stage, precision, limit):
    results = run_on_ranks(
        "tests.pretrain.objectives.deepspeed_cases:train", 2, stage=stage, precision=precision, timeout=240
    )[0]
    for name in deepspeed_cases.OBJECTIVES:
        expected, start = deepspeed_cases.train_plainly(name), dict(deepspeed_cases.model_of(name).named_parameters())
        moved = sum(float((expected[key] - start[key].detach()).norm()) for key in expected)
        assert moved > 0.05
        for key, weight in expected.items():
            assert float((results[name][key] - weight).abs().max()) < limit, (name, key)
