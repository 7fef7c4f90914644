"""What `auto` means is decided by the hardware, and bf16 by name on hardware without it is said."""

import logging
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from conf.errors import InputError
from pretrain import precision
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.precision import choose_precision, computes_bf16, resolve_precision, warn_of_slow_bf16
from pretrain.run import _with_precision
from tests.helpers.ranks import run_on_ranks


def test_auto_is_bf16_where_the_hardware_has_it_else_fp16_on_cuda_and_fp32_on_a_cpu():
    assert choose_precision("cpu", has_bf16=True) == choose_precision("cuda", has_bf16=True) == "bf16"
    assert choose_precision("cpu", has_bf16=False) == "fp32"
    assert choose_precision("cuda", has_bf16=False) == "fp16"


def test_a_cpu_is_asked_for_its_instructions():
    """oneDNN multiplies bf16 from AVX512 (BW, VL, DQ) on; the kernel's list of flags is the other witness."""
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.exists() else set()
    if "avx512bw" in flags or "avx_ne_convert" in flags:
        assert computes_bf16("cpu")
    elif "avx2" in flags:
        assert not computes_bf16("cpu")


@pytest.mark.parametrize("has_bf16", [True, False])
def test_what_is_asked_for_by_name_is_kept_and_slow_bf16_is_said(has_bf16, monkeypatch, caplog):
    monkeypatch.setattr(precision, "computes_bf16", lambda device_type: has_bf16)
    with caplog.at_level(logging.WARNING):
        assert resolve_precision("fp32", "cpu") == "fp32"
        assert resolve_precision("auto", "cpu") == ("bf16" if has_bf16 else "fp32")
        assert resolve_precision("bf16", "cpu") == "bf16"
        warn_of_slow_bf16("fp32", "cpu")
        assert not caplog.records
        warn_of_slow_bf16("bf16", "cpu")
    said = [record.getMessage() for record in caplog.records]
    assert said == (
        []
        if has_bf16
        else [
            "this CPU has no instructions for bf16, which makes it many times slower than fp32: set precision to fp32"
        ]
    )


def test_options_on_a_device_are_resolved_and_judged_again(monkeypatch):
    monkeypatch.setattr(precision, "computes_bf16", lambda device_type: False)
    options = DeepSpeedOptions(initial_loss_scale=1024.0)
    on_gpu = options.on_device("cuda")
    assert (on_gpu.precision, on_gpu.scales_loss, on_gpu.initial_loss_scale) == ("fp16", True, 1024.0)
    with pytest.raises(InputError, match=r"initial_loss_scale=1024 is for loss scaling.*precision=fp32"):
        options.on_device("cpu")
    assert DeepSpeedOptions().on_device("cpu").precision == "fp32"


def run_on_mixed_hardware(group):
    """Run on each rank, of which the second alone has bf16."""
    precision.computes_bf16 = lambda device_type: group.ranks.rank == 1
    found = {name: _with_precision(_options(name), group).deepspeed.precision for name in ("fp32", "bf16")}
    with pytest.raises(InputError) as caught:
        _with_precision(_options("auto"), group)
    return {**found, "auto": str(caught.value)}


def _options(name):
    return OmegaConf.create({"deepspeed": {"precision": name}})


def test_ranks_of_differing_hardware_do_not_train_in_differing_precisions():
    first, second = run_on_ranks("tests.pretrain.test_precision:run_on_mixed_hardware", ranks=2)
    assert first == second
    assert first.pop("auto") == (
        "deepspeed.precision=auto is fp32 on rank 0 and bf16 on rank 1, whose hardware differs: set "
        "deepspeed.precision to what both can compute"
    )
    assert first == {"fp32": "fp32", "bf16": "bf16"}
