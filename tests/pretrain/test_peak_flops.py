import pytest
import torch

from pretrain.peak_flops import device_peak, known_peak, measured_peak


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A100-PCIE-40GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835e12),
        ("NVIDIA H200", 989e12),
        ("NVIDIA GH200 480GB", 989e12),
        ("NVIDIA H20", 148e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA GB200", 2500e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA A10G", None),
        ("NVIDIA GeForce RTX 4090", 165e12),
        ("NVIDIA RTX 6000 Ada Generation", 364e12),
        ("Tesla V100-SXM2-32GB", None),
        ("Some Other Device", None),
    ],
)
def test_a_device_is_known_by_its_name(name, peak):
    assert known_peak(name, "bf16") == peak


def test_tensor_cores_without_bf16_count_in_fp16_only_and_fp32_is_never_known():
    assert known_peak("Tesla V100-SXM2-32GB", "fp16") == 125e12
    assert known_peak("Tesla T4", "fp16") == 65e12
    assert known_peak("NVIDIA H100 80GB HBM3", "fp16") == 989e12
    assert known_peak("NVIDIA H100 80GB HBM3", "fp32") is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_measured_peak_is_a_rate_this_machine_reaches(dtype):
    peak = measured_peak(torch.device("cpu"), dtype, seconds=0.05, side=256)
    assert 1e8 < peak < 1e15  # from a very busy core to what no CPU reaches


def test_a_cpu_is_measured():
    peak, source = device_peak(torch.device("cpu"), "fp32")
    assert peak > 1e8 and source == "measured matrix product"
