"""One training, many layouts: ranks, accumulation, ZeRO stages and a plain torch loop give the same numbers.

fp32, dropout 0, Adam's eps 1e-6, an encoder without biases (the gradient of a key bias is zero in truth, and Adam
makes something of its rounding noise).
"""

import pytest
import torch

from tests.helpers.ranks import run_on_ranks
from tests.helpers.shard_directory import sentences, write_shards
from tests.integration import parity_cases

STEPS = 10
ONE_RANK = [(0, "fp32", 1), (1, "fp32", 1), (1, "fp32", 2), (3, "fp32", 2), (0, "bf16", 1), (1, "bf16", 1)]
TWO_RANKS = [(0, "fp32", 1), (1, "fp32", 1), (1, "fp32", 2), (2, "fp32", 1), (2, "fp32", 2), (3, "fp32", 1)]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("parity") / "shards", sentences(300))


@pytest.fixture(scope="module")
def runs(shards):
    """(ranks, stage, precision, accumulation) -> what rank 0 returned."""
    found = {}
    for ranks, cases in ((1, ONE_RANK), (2, TWO_RANKS)):
        results = run_on_ranks(
            "tests.integration.parity_cases:run_cases", ranks, shards=str(shards), cases=cases, steps=STEPS
        )
        found.update({(ranks, *case): result for case, result in zip(cases, results[0], strict=True)})
    return found


@pytest.fixture(scope="module")
def reference(shards):
    torch.set_num_threads(1)
    return parity_cases.plain_torch(shards, STEPS)


def distance(ours, theirs):
    """Relative distance of two sets of tensors, taken as one vector."""
    assert ours.keys() == theirs.keys()
    difference = sum(float((ours[name].double() - theirs[name].double()).square().sum()) for name in theirs)
    return (difference / sum(float(theirs[name].double().square().sum()) for name in theirs)) ** 0.5


def gradients(state):
    """Adam's first moment after one step is (1 - beta_1) times the clipped gradient."""
    scale = 1 - parity_cases.BETAS[0]
    return {
        name.removeprefix("exp_avg/"): moment / scale
        for name, moment in state.optimizer.items()
        if name.startswith("exp_avg/")
    }


FP32 = [(1, *case) for case in ONE_RANK if case[1] == "fp32"] + [(2, *case) for case in TWO_RANKS]


@pytest.mark.parametrize("layout", FP32, ids=lambda layout: "ranks{}-zero{}-{}-accumulation{}".format(*layout))
def test_every_layout_equals_a_plain_torch_loop(layout, runs, reference):
    run = runs[layout]
    for ours, theirs in zip(run["figures"], reference["figures"], strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-6 if ours is run["figures"][0] else 1e-5)
        assert ours["norm"] == pytest.approx(theirs["norm"], rel=1e-5)
    assert reference["figures"][0]["norm"] > parity_cases.CLIP  # so clipping is part of the comparison
    assert distance(gradients(run["first"]), reference["gradients"]) < 1e-6
    weights = run["last"].weights
    assert max(float((weights[name] - reference["weights"][name]).abs().max()) for name in weights) < 1e-5


def test_the_first_bf16_update_is_as_large_at_stage_0_as_at_stage_1(runs):
    """DeepSpeed's own bf16 mode lets Adam start at a counter of 1 there, and the first update is a quarter short."""
    stage_0, stage_1 = (runs[1, stage, "bf16", 1]["first"] for stage in (0, 1))
    assert stage_0.updates == stage_1.updates == 1
    assert distance(stage_0.weights, stage_1.weights) < 1e-6


def test_bf16_follows_fp32_within_its_band(runs):
    for bf16, fp32 in zip(runs[1, 1, "bf16", 1]["figures"], runs[1, 1, "fp32", 1]["figures"], strict=True):
        assert bf16["loss"] == pytest.approx(fp32["loss"], rel=5e-3)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_state_loads_at_any_stage_and_world_size_to_the_bit(ranks, shards, runs):
    saved = runs[2, 1, "fp32", 1]["last"]
    stages = [0, 1, 2, 3]
    results = run_on_ranks(
        "tests.integration.parity_cases:load_and_go_on",
        ranks,
        shards=str(shards),
        state=saved,
        stages=stages,
        step=STEPS,
    )[0]
    for result in results:
        loaded = result["loaded"]
        assert loaded.updates == saved.updates == STEPS
        assert all(torch.equal(loaded.weights[name], saved.weights[name]) for name in saved.weights)
        assert all(torch.equal(loaded.optimizer[name], saved.optimizer[name]) for name in saved.optimizer)
        assert result["figures"]["loss"] == pytest.approx(results[0]["figures"]["loss"], rel=1e-6)
        assert distance(result["next"].weights, results[0]["next"].weights) < 1e-7
