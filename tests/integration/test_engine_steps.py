"""Steps of the engine on 2 ranks: skipped ones, growing ones, scaled ones; optimisers of all kinds; compiled models."""

import math

import pytest

from tests.helpers.ranks import run_on_ranks
from tests.integration import engine_cases

STAGES = [0, 1, 2, 3]
OFFLOADED = [{"stage": stage, "offload_optimizer": True} for stage in (1, 2, 3)]
LAYOUTS = [{"stage": stage} for stage in STAGES] + OFFLOADED
SKIPS = [
    {"options": options, "accumulation": accumulation, "kind": kind}
    for options in LAYOUTS
    for accumulation in (1, 2)
    for kind in ("nan", "judge")
] + [{"options": {"stage": 1}, "accumulation": 1, "kind": "inf"}]


def on_two_ranks(function, **arguments):
    return run_on_ranks(f"tests.integration.engine_cases:{function}", 2, **arguments)


@pytest.fixture(scope="module")
def skips():
    return on_two_ranks("skipped_steps", cases=SKIPS)


@pytest.mark.parametrize("number", range(len(SKIPS)), ids=lambda number: str(SKIPS[number]))
def test_a_skipped_step_changes_nothing_and_the_run_goes_on_as_if_it_had_never_been(number, skips):
    kind = SKIPS[number]["kind"]
    for rank in (0, 1):
        found = skips[rank][number]
        assert found["skipped"] == ("refused by the test" if kind == "judge" else "non-finite gradient")
        assert math.isfinite(found["norm of bad"]) == (kind == "judge")
        assert found["good"] == [None] * 4
        assert found["unchanged"] and found["as if never seen"] and all(found["losses"])
        assert found["norms"][0] == found["norms"][1]
    assert skips[0][number]["updates"] == 4


def test_any_number_of_micro_batches_a_step_equals_whole_batches_in_a_plain_loop():
    expected = engine_cases.plain_growing_batches(world=2)
    for found in on_two_ranks("growing_batches", stages=STAGES)[0]:
        for ours, theirs in zip(found["figures"], expected["figures"], strict=True):
            assert ours == pytest.approx(theirs, rel=1e-6)
        for name, weight in expected["weights"].items():
            assert float((found["weights"][name] - weight).abs().max()) < 1e-6


def test_loss_scaling_is_exact_and_an_overflow_is_a_skipped_step_that_halves_the_scale():
    for found in on_two_ranks("loss_scaling", stages=STAGES)[0]:
        assert found["reasons"][0] == "non-finite gradient"
        skipped = sum(reason is not None for reason in found["reasons"])
        assert found["reasons"] == ["non-finite gradient"] * skipped + [None] * 4 or found["reasons"].count(None) == 4
        assert found["same"] == [True, True]
        assert found["norms"][0] == found["norms"][1]
        assert found["resumed"] == found["scale"] == float(found["kept"]["loss_scale/"])


@pytest.mark.parametrize(
    ("name", "saved_by", "loaded_by"),
    [("odd", LAYOUTS[:5], LAYOUTS[:4] + LAYOUTS[6:]), ("whole", LAYOUTS[:1], LAYOUTS[:1])],
    ids=["elements and numbers", "whole matrices"],
)
def test_state_of_any_optimizer_comes_through_to_the_bit(name, saved_by, loaded_by):
    for found in on_two_ranks("any_optimizer", name=name, saved_by=saved_by, loaded_by=loaded_by)[0]:
        assert found["same"]
        assert found["worst"] < 1e-7
        expected = "speed/first.weight" if name == "odd" else "factors[1]/first.weight"
        assert expected in found["names"]


def test_a_compiled_model_computes_the_same_at_every_stage():
    plain, *compiled = on_two_ranks("compiled", cases=[{}, *({"stage": s, "compile": True} for s in STAGES)])[0]
    for figures in compiled:
        assert figures == pytest.approx(plain, rel=1e-5)


def test_recomputed_activations_change_no_bit_and_cost_a_second_forward_pass():
    for same, (plain, recomputed) in on_two_ranks("recomputed", stages=STAGES)[0]:
        assert same
        assert recomputed == 2 * plain
