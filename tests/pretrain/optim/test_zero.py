"""Our optimisers inside the engine, on 2 ranks, at every ZeRO stage that may hold them."""

import pytest

from tests.helpers.ranks import run_on_ranks

ELEMENTWISE = ["adamw", "uncorrected", "adabound", "nesterov"]
WHOLE = ["lamb", "stable_adamw"]
LAYOUTS = [{"stage": 0}, {"stage": 1}, {"stage": 2}, {"stage": 3}, {"stage": 2, "offload_optimizer": True}]


@pytest.fixture(scope="module")
def states():
    cases = [(name, layout) for name in ELEMENTWISE for layout in LAYOUTS] + [(name, {"stage": 0}) for name in WHOLE]
    found = run_on_ranks("tests.pretrain.optim.zero_cases:train", 2, cases=cases, steps=4)[0]
    return {(name, str(layout)): state for (name, layout), state in zip(cases, found, strict=True)}


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("layout", LAYOUTS[1:], ids=str)
def test_an_optimizer_of_single_elements_does_the_same_at_every_stage(states, name, layout):
    expected = states[name, str({"stage": 0})]
    found = states[name, str(layout)]
    assert found.keys() == expected.keys() and any(key.startswith(("exp_avg_sq/", "momentum_buffer/")) for key in found)
    for key, value in expected.items():
        assert float((found[key] - value).abs().max()) < 1e-6, key


@pytest.mark.parametrize("name", WHOLE)
def test_an_optimizer_of_whole_parameters_keeps_state_that_checkpoints_carry(states, name):
    state = states[name, str({"stage": 0})]
    assert {key.split("/")[0] for key in state if "/" in key} >= {"exp_avg", "exp_avg_sq"}


def test_an_optimizer_of_whole_parameters_is_refused_where_zero_cuts_them():
    said = run_on_ranks("tests.pretrain.optim.zero_cases:refusals", 1, names=WHOLE, stages=[1, 2, 3])[0]
    assert len(said) == 6 and all("needs whole parameters" in sentence for sentence in said)
