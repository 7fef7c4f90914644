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


OPTIMIZERS = {
    "odd": {"saved_by": LAYOUTS[:5], "loaded_by": LAYOUTS[:4] + LAYOUTS[6:]},
    "whole": {"saved_by": LAYOUTS[:1], "loaded_by": LAYOUTS[:1]},
}
CALLS = {
    "skips": ("engine_cases:skipped_steps", {"cases": SKIPS}),
    "growing": ("engine_cases:growing_batches", {"stages": STAGES}),
    "scaled": ("engine_cases:loss_scaling", {"stages": STAGES}),
    "recomputed": ("engine_cases:recomputed", {"stages": STAGES}),
    "compiled": ("engine_cases:compiled", {"cases": [{}, *({"stage": s, "compile": True} for s in STAGES)]}),
    **{name: ("engine_cases:any_optimizer", {"name": name, **layouts}) for name, layouts in OPTIMIZERS.items()},
}


@pytest.fixture(scope="module")
def found():
    """What both ranks returned, by rank, then by call."""
    return run_on_ranks("tests.integration.engine_cases:run_all", 2, timeout=500.0, calls=CALLS)


@pytest.mark.parametrize("number", range(len(SKIPS)), ids=lambda number: str(SKIPS[number]))
def test_a_skipped_step_changes_nothing_and_the_run_goes_on_as_if_it_had_never_been(number, found):
    kind = SKIPS[number]["kind"]
    for rank in (0, 1):
        skip = found[rank]["skips"][number]
        assert skip["skipped"] == ("refused by the test" if kind == "judge" else "non-finite gradient")
        assert math.isfinite(skip["norm of bad"]) == (kind == "judge")
        assert skip["good"] == [None] * 4
        assert skip["unchanged"] and skip["as if never seen"] and all(skip["losses"])
        assert skip["norms"][0] == skip["norms"][1]
    assert found[0]["skips"][number]["updates"] == 4


def test_any_number_of_micro_batches_a_step_equals_whole_batches_in_a_plain_loop(found):
    expected = engine_cases.plain_growing_batches(world=2)
    for run in found[0]["growing"]:
        for ours, theirs in zip(run["figures"], expected["figures"], strict=True):
            assert ours == pytest.approx(theirs, rel=1e-6)
        for name, weight in expected["weights"].items():
            assert float((run["weights"][name] - weight).abs().max()) < 1e-6


def test_loss_scaling_is_exact_and_an_overflow_is_a_skipped_step_that_halves_the_scale(found):
    for run in found[0]["scaled"]:
        assert run["reasons"][0] == "non-finite gradient"
        assert run["reasons"].count(None) == 4
        assert set(run["reasons"]) == {"non-finite gradient", None}
        assert run["same"] == [True, True]
        assert run["norms"][0] == run["norms"][1]
        assert run["resumed"] == run["scale"] == float(run["kept"]["loss_scale/"])


@pytest.mark.parametrize(
    ("name", "state"),
    [("odd", "speed/first.weight"), ("odd", "product/first.bias"), ("whole", "factors[1]/first.weight")],
)
def test_state_of_any_optimizer_comes_through_to_the_bit(name, state, found):
    for run in found[0][name]:
        assert run["same"]
        assert run["worst"] < 1e-7
        assert state in run["names"]


def test_a_compiled_model_computes_the_same_at_every_stage(found):
    plain, *compiled = found[0]["compiled"]
    for run in compiled:
        assert run["figures"] == pytest.approx(plain["figures"], rel=1e-5)
        assert plain["graphs"] == 0 < run["graphs"]


def test_recomputed_activations_change_no_bit_and_cost_a_second_forward_pass(found):
    for same, (plain, recomputed) in found[0]["recomputed"]:
        assert same
        assert recomputed == 2 * plain
