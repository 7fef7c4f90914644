"""`benchmarks.gpu` runs through on any machine; without CUDA at a tiny size, and it says so."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_correctness
from benchmarks.gpu_cases import TINY, Case, published
from benchmarks.gpu_profile import kind_of
from pretrain.models.config import EncoderConfig
from pretrain.models.masked_lm import MaskedLanguageModel

REPOSITORY = Path(__file__).resolve().parents[2]
# What the machine with a GPU may not have.
ABSENT = ("deepspeed", "hydra", "omegaconf", "antlr4", "datasets", "apache_beam", "accelerate")
BARE = f"""
import runpy, sys
sys.modules |= dict.fromkeys({ABSENT!r})
runpy.run_module("benchmarks.gpu", run_name="__main__")
"""


@pytest.mark.parametrize(
    "bare",
    [
        pytest.param(False, id="with DeepSpeed", marks=pytest.mark.full),  # a command of docs/benchmarks.md
        pytest.param(True, id="with torch and transformers alone", marks=pytest.mark.full),
    ],
)
def test_runs_through_and_writes_its_figures(tmp_path: Path, bare: bool) -> None:
    command = [sys.executable, *(["-c", BARE] if bare else ["-m", "benchmarks.gpu"])]
    done = subprocess.run(
        [*command, "--quick", "--json", str(tmp_path / "gpu.json")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    figures = json.loads((tmp_path / "gpu.json").read_text())
    shape = "base_512" if torch.cuda.is_available() else "tiny_64"
    assert figures["failed_checks"] == 0.0
    for key in ("mfu", "tokens_per_second", "transformers_ratio", "transformers_full_ratio"):
        assert math.isfinite(figures[f"{key}_{shape}"]) and figures[f"{key}_{shape}"] > 0.0
    assert ("a plain torch loop" in done.stdout) == bare
    if not torch.cuda.is_available():
        assert "no figure is of a GPU" in done.stdout
        assert figures["on_gpu"] == 0.0
        assert not [key for key in figures if "base" in key or "large" in key]
        assert "left out" not in done.stdout


def test_a_wrong_window_and_a_wrong_mask_are_found() -> None:
    batch = gpu_correctness._batch()
    cpu = torch.device("cpu")

    def result(config: EncoderConfig) -> gpu_correctness.Result:
        torch.manual_seed(0)
        model = MaskedLanguageModel(config, gpu_correctness.VOCABULARY)
        return gpu_correctness.compute(model, batch, cpu, torch.float32)

    right = gpu_correctness.MODELS["local and global layers"]
    expected = result(right)
    assert max(result(right).distances(expected)) == 0.0
    for wrong in (replace(right, local_window=9), replace(right, causal=True)):
        # Farther off than bf16's band, which is at most 0.03.
        assert min(result(wrong).distances(expected)) > 0.03


def test_a_kernel_that_fails_is_a_failed_check() -> None:
    (check,) = gpu_correctness._compare("varlen", lambda: 1 / 0, None, (1.0, 1.0))  # type: ignore[arg-type]
    assert not check.passed
    assert check.sentence() == "FAILED  varlen: ZeroDivisionError: division by zero"
    assert not gpu_correctness.Check("logits", math.nan, 1.0).passed


def test_shapes_are_the_published_ones_with_a_kernel_that_varlen_can_serve() -> None:
    base, large = published("bert_base"), published("bert_large")
    assert (base.num_layers, base.hidden_size, large.num_layers, large.hidden_size) == (12, 768, 24, 1024)
    assert base.attention_dropout == large.attention_dropout == 0.0
    # 6 FLOPs for each of the 7.1 million numbers of 11 layers and a quarter of the last (of which 15 % of the tokens
    # need all but queries, keys and values), and at 15 % for the head's 24 million: 0.50e9; and attention.
    flops = Case("base_128", base, 128, 4, "paragraphs").flops_per_token()
    assert 5.0e8 < flops < 5.3e8


def test_contestants_get_the_same_number_of_tokens_a_step() -> None:
    case = Case("tiny", TINY, 64, 16, "paragraphs", vocab_size=1000)
    ours = sum(one.tokens for one in case.micro_batches) / len(case.micro_batches)
    padded, full = case.padded(), case.full_rows()
    assert sum(one.tokens for one in padded) / len(padded) == pytest.approx(ours, rel=0.1)
    assert sum(one.tokens for one in full) / len(full) == pytest.approx(ours, rel=0.05)
    assert len(case.padded(2)) == pytest.approx(2 * len(padded), abs=1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", "matrix products"),
        ("void pytorch_flash::flash_fwd_kernel<...>", "attention"),
        ("triton_per_fused_native_layer_norm_3", "fused element-wise (compiled)"),
        ("triton_tem_fused_mm_2", "matrix products"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<...>", "optimiser and clipping"),
        ("Memcpy DtoD (Device -> Device)", "copies"),
        ("void at::native::vectorized_elementwise_kernel<4, ...>", "element-wise"),
        ("void cunn_SoftMaxForward<...>", "norms and softmax"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication"),
    ],
)
def test_kernels_are_told_apart_by_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind
