"""Activation checkpointing under every ZeRO stage: the same weights after two steps, to the bit, with dropout."""

import pytest

from tests.helpers.ranks import run_on_ranks

CASES = [("modern", 0, "fp32"), ("bert", 1, "bf16"), ("modern", 2, "bf16"), ("bert", 3, "bf16")]


@pytest.mark.full  # test_engine_steps.py has it for the engine, test_recomputation.py for the models
def test_recomputing_changes_no_weight_at_any_stage():
    (first, _) = run_on_ranks("tests.pretrain.models.recomputation_cases:differences", ranks=2, cases=CASES)
    assert dict(zip(CASES, first, strict=True)) == {case: [] for case in CASES}
