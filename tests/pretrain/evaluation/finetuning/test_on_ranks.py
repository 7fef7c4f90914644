"""Fine-tuning on ranks is fine-tuning: same losses, outputs and weights as in one process, at every stage."""

import numpy as np
import pytest

from conf.errors import InputError
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.evaluation.finetuning.on_ranks import require_fitting
from pretrain.evaluation.finetuning.recipe import Recipe
from tests.helpers.ranks import run_on_ranks

from .rank_cases import tuned

SEVERAL = "tests.pretrain.evaluation.finetuning.rank_cases:several"
CASES = [
    {"kind": "classification"},
    {"kind": "regression", "batch_size": 5},
    {"kind": "choice", "epochs": 4, "patience": 1},
    {"kind": "span", "layer_factor": 2.0, "schedule": "slanted_triangular", "warmup": 0.0},
]


def assert_alike(found, expected):
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=2e-4)
    for name in ("dev", "more"):
        np.testing.assert_allclose(found["outputs"][name], expected["outputs"][name], atol=2e-4)
    assert found["best"] == expected["best"]
    np.testing.assert_allclose(found["metrics"], expected["metrics"], atol=1e-3)


FULL = pytest.mark.full


@pytest.mark.parametrize(
    ("stage", "cases"),
    [
        pytest.param(0, CASES, marks=FULL),
        (1, CASES[::2]),
        pytest.param(1, CASES[1::2], marks=FULL),
        pytest.param(2, CASES, marks=FULL),
        (3, CASES[:1]),
        pytest.param(3, CASES[1:], marks=FULL),
    ],
)
def test_two_ranks_learn_and_predict_what_one_process_does(stage, cases, tokenizer_folder):
    given = [{**case, "stage": stage} for case in cases]
    first, second = run_on_ranks(SEVERAL, 2, timeout=300.0, tokenizer=tokenizer_folder, cases=given)
    for case, found, other in zip(cases, first, second, strict=True):
        expected = tuned(None, tokenizer_folder, **case)
        assert_alike(found, expected)
        for name in ("dev", "more"):
            np.testing.assert_array_equal(found["outputs"][name], other["outputs"][name])
        for name, value in expected["weights"].items():
            np.testing.assert_allclose(found["weights"][name], value, atol=1e-3, err_msg=name)


@FULL
def test_a_rank_without_an_item_changes_nothing(tokenizer_folder):
    case = {"kind": "classification", "batch_size": 2, "epochs": 1}
    (found, _, _) = run_on_ranks(SEVERAL, 3, timeout=300.0, tokenizer=tokenizer_folder, cases=[{**case, "stage": 1}])
    assert_alike(found[0], tuned(None, tokenizer_folder, **case))


def test_options_that_exclude_each_other_are_refused_by_name():
    with pytest.raises(
        InputError, match=r"recipe.precision is fp32, but deepspeed.precision is bf16: leave that at auto"
    ):
        require_fitting(DeepSpeedOptions(precision="bf16"), Recipe())
    require_fitting(DeepSpeedOptions(), Recipe(precision="bf16"))
    plain = DeepSpeedOptions(precision="fp32")
    require_fitting(plain, Recipe())
    with pytest.raises(InputError, match=r"deepspeed.compile=true is not for fine-tuning"):
        require_fitting(DeepSpeedOptions(precision="fp32", compile=True), Recipe())
    with pytest.raises(InputError, match=r"recipe.gradual_unfreezing changes what is learned"):
        require_fitting(plain, Recipe(gradual_unfreezing=True))
