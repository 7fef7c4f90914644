"""The faults of DeepSpeed 0.19 that would make a run wrong, slow to start or impossible: one test each.

A test shows that the engine is right where DeepSpeed used plainly would not be, or that our way around is in place.
Where DeepSpeed's own behaviour is asserted beside it, a newer version that mends it says so here.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from conf.errors import InputError
from pretrain.deepspeed_options import DeepSpeedOptions
from tests.helpers.ranks import REPOSITORY, run_on_ranks
from tests.integration import engine_cases, fault_cases

STAGES = [0, 1, 2, 3]


NORMS = [{"stage": stage, "precision": precision} for precision in ("fp32", "bf16") for stage in STAGES]
NORMS += [{"stage": stage, "offload_optimizer": True} for stage in (1, 2, 3)]
PARTS = [{"stage": stage} for stage in STAGES] + [{"stage": s, "offload_optimizer": True} for s in (1, 2, 3)]
SAVES = {f"saved {stage}": ("fault_cases:save", {"options": {"stage": stage}}) for stage in STAGES}
ON_1 = {
    "first updates": ("fault_cases:first_updates", {}),
    "misspelt key": ("fault_cases:misspelt_key", {}),
    "omegaconf": ("fault_cases:options_of_omegaconf", {}),
    "norms": ("fault_cases:norms", {"layouts": NORMS}),
    **SAVES,
}
ON_2 = {
    "norms": ("fault_cases:norms", {"layouts": NORMS}),
    "unequal counts": ("fault_cases:unequal_counts", {"stages": STAGES}),
    "partly used": ("fault_cases:partly_used", {"cases": PARTS}),
    "untested": ("fault_cases:untested_optimizer", {"stages": STAGES}),
    **SAVES,
}


def loads(saved):
    """Calls that load what was saved at each stage, in the same stage again."""
    arguments = {stage: {"options": {"stage": stage}, "state": saved[f"saved {stage}"]} for stage in STAGES}
    return {f"loaded {stage}": ("fault_cases:load", arguments[stage]) for stage in STAGES}


@pytest.fixture(scope="module")
def found():
    """What rank 0 returned, by the number of ranks, then by call; each loads what the other number saved."""
    run = "tests.integration.engine_cases:run_all"
    two = run_on_ranks(run, 2, timeout=500.0, calls=ON_2)[0]
    one = run_on_ranks(run, 1, timeout=500.0, calls=ON_1 | loads(two))[0]
    return {1: one, 2: two | run_on_ranks(run, 2, timeout=500.0, calls=loads(one))[0]}


def same_state(one, other):
    assert one.weights and one.optimizer
    return engine_cases.same(one, other)


def test_fault_bf16_at_stage_0_starts_adam_at_a_counter_of_1(found):
    """So the first update would be a quarter short. Ours is that of stage 1."""
    zero, one = found[1]["first updates"]["states"]
    assert found[1]["first updates"]["deepspeed starts at"] == 1.0
    assert zero.updates == one.updates == 1
    for name, weight in one.weights.items():
        assert float((zero.weights[name] - weight).abs().max()) < 1e-6


def test_fault_a_misspelt_top_level_key_passes_in_silence(found):
    """And the run goes on without it. We refuse the key and name the nearest."""
    assert found[1]["misspelt key"]
    with pytest.raises(InputError, match=r"gradient_predivide_facto.*'gradient_predivide_factor'"):
        DeepSpeedOptions(other={"gradient_predivide_facto": 2.0})
    with pytest.raises(InputError, match=r"gradient_cliping"):
        DeepSpeedOptions(other={"gradient_cliping": 1.0})


def test_fault_omegaconf_containers_are_refused(found):
    """Options that come from Hydra unconverted become plain values."""
    assert found[1]["omegaconf"]


@pytest.mark.parametrize("where", ["zero", "other"])
def test_fault_the_value_auto_ends_in_a_type_error(where):
    key = {"zero": "reduce_scatter", "other": "prescale_gradients"}[where]
    with pytest.raises(InputError, match=rf"deepspeed.{where}.{key} must be a value, but is 'auto'"):
        DeepSpeedOptions(**{where: {key: "auto"}})


def test_fault_the_global_gradient_norm_is_none_at_stage_0(found):
    """And of another type at each of the others. Ours is one number, the same in every layout."""
    for ranks in (1, 2):
        norms = found[ranks]["norms"]
        assert all(type(norm) is float for norm in norms)
        fp32, bf16 = norms[:4] + norms[8:], norms[4:8]
        assert fp32 == pytest.approx([fp32[0]] * 7, rel=1e-6)
        assert bf16 == pytest.approx([fp32[0]] * 4, rel=1e-2)


def test_fault_micro_batches_and_ranks_are_averaged_whatever_they_hold(found):
    """Counts of 1, 3, 2 and 0: the gradient is that of the six points together."""
    expected = fault_cases.plain_unequal_counts()
    for moments in found[2]["unequal counts"]:
        for name, moment in expected.items():
            assert torch.allclose(moments[name], moment, rtol=1e-5, atol=1e-7)


def test_fault_init_and_the_cpu_optimizer_build_ops_for_minutes(tmp_path: Path):
    """Communication and the CPU's Adam would be compiled first, and fail without a compiler. Nothing is built here."""
    extensions, empty = tmp_path / "extensions", tmp_path / "bin"
    empty.mkdir()
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    environment |= {"TORCH_EXTENSIONS_DIR": str(extensions), "PATH": str(empty), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.fault_cases"],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert not extensions.exists() or not list(extensions.rglob("*"))
    assert done.stdout == ""  # DeepSpeed logs to standard output, which is for what a command prints


@pytest.mark.parametrize("stage", STAGES)
def test_fault_a_checkpoint_of_another_world_size_does_not_load(stage, found):
    """At stages 1 to 3, not even as an elastic checkpoint. Ours goes from 2 ranks to 1 and from 1 to 2."""
    for source, target in ((2, 1), (1, 2)):
        assert same_state(found[source][f"saved {stage}"], found[target][f"loaded {stage}"])


def test_fault_only_the_first_parameter_group_is_linked_to_its_state(found):
    """After the first step, at stages 1 and 2. Ours has the moments of both groups, as at stage 0."""
    zero = found[2]["saved 0"]
    assert {name.partition("/")[2] for name in zero.optimizer} == set(zero.weights)
    for state in (found[2]["saved 1"], found[2]["saved 2"]):
        assert state.optimizer.keys() == zero.optimizer.keys()
        for name, moment in zero.optimizer.items():
            assert float(moment.abs().max()) > 0
            assert torch.allclose(state.optimizer[name], moment, rtol=1e-5, atol=1e-8)


def test_fault_stage_3_cannot_set_the_state_of_a_parameter_that_the_ranks_do_not_divide(found):
    """Such as 5 x 7 on 2 ranks: it forgets its own padding. Ours sets it."""
    saved = found[1]["saved 3"]
    assert any(weight.numel() % 2 for weight in saved.weights.values())
    assert same_state(saved, found[2]["loaded 3"])


def test_fault_a_parameter_without_a_gradient_is_updated_by_its_last_one(found):
    """At stage 3 and with the optimiser on the CPU; and what came before the last micro-batch may be lost."""
    expected = fault_cases.plain_partly_used(world=2)
    for weights in found[2]["partly used"]:
        for name, weight in expected.items():
            assert float((weights[name] - weight).abs().max()) < 1e-6, name


def test_fault_optimizers_it_does_not_know_are_refused_under_zero(found):
    assert found[2]["untested"] == [True] * 4


def test_fault_a_second_engine_in_one_process_finds_the_first_ones_group():
    """Unless DeepSpeed itself destroys it, which `Group.close` has it do."""
    code = "from tests.integration.fault_cases import two_groups_in_one_process as f; print(*f())"
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = done.stdout.split()
    assert first == second
