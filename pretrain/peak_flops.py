"""How many FLOPs a device can do in a second: by its datasheet, or measured with one large matrix product.

An MFU is a share of this. Must not import torch.distributed or deepspeed.
"""

import re
import time

import torch

from pretrain.precision import Precision

# Dense matrix products in bf16 and fp16 with fp32 accumulation, FLOPs a second, without sparsity (datasheets often
# print twice that, "with sparsity"). The first pattern found in the device's name counts, so variants come first.
_DATASHEETS: tuple[tuple[str, float], ...] = (
    (r"\bGB200\b", 2500e12),  # NVIDIA GB200 NVL72: 360 PFLOPS FP16/BF16 with sparsity for 72 GPUs
    (r"\bB200\b", 2250e12),  # NVIDIA HGX B200: 36 PFLOPS with sparsity for 8 GPUs
    (r"\bGH200\b", 989e12),  # NVIDIA GH200 datasheet: 1,979 TFLOPS with sparsity
    (r"\bH200 NVL\b", 835e12),  # NVIDIA H200 datasheet: 1,671 with sparsity
    (r"\bH200\b", 989e12),  # NVIDIA H200 datasheet (SXM): 1,979 with sparsity
    (r"\bH100 NVL\b", 835e12),  # NVIDIA H100 datasheet: 1,671 with sparsity
    (r"\bH100 PCIe\b", 756e12),  # NVIDIA H100 datasheet (PCIe): 1,513 with sparsity
    (r"\bH[18]00\b", 989e12),  # NVIDIA H100 datasheet (SXM): 1,979 with sparsity; the H800 differs in its links
    (r"\bH20\b", 148e12),  # NVIDIA H20: 148
    (r"\bA[18]00\b", 312e12),  # NVIDIA A100 datasheet: 312; the A800 differs in its links
    (r"\bA40\b", 149.7e12),  # NVIDIA A40 datasheet: 149.7
    (r"\bA30\b", 165e12),  # NVIDIA A30 datasheet: 165
    (r"\bA10\b", 125e12),  # NVIDIA A10 datasheet: 125
    (r"\bL40S\b", 362e12),  # NVIDIA L40S datasheet: 362.05
    (r"\bL40\b", 181e12),  # NVIDIA L40 datasheet: 181.05
    (r"\bL4\b", 121e12),  # NVIDIA L4 datasheet: 242 with sparsity
    (r"\bRTX 6000 Ada\b", 364e12),  # NVIDIA RTX 6000 Ada datasheet: 1,457 FP8 with sparsity, a quarter of it
    (r"\bRTX A6000\b", 154.8e12),  # NVIDIA RTX A6000 datasheet: 309.7 with sparsity
    (r"\bRTX 4090\b", 165e12),  # NVIDIA Ada whitepaper, appendix A: 165.2 with fp32 accumulation
    (r"\bRTX 3090\b", 71e12),  # NVIDIA GA102 whitepaper, appendix A: 71 with fp32 accumulation
    (r"\bMI300X\b", 1307e12),  # AMD MI300X datasheet: 1,307.4
    (r"\bMI250X\b", 191.5e12),  # AMD MI250X datasheet: 383 for a card, which is two devices
)
# These have tensor cores for fp16 only.
_FP16_ONLY: tuple[tuple[str, float], ...] = (
    (r"\bV100\b", 125e12),  # NVIDIA V100 datasheet (SXM2): 125
    (r"\bT4\b", 65e12),  # NVIDIA T4 datasheet: 65
)
_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_SIDES = {"cuda": 8192, "cpu": 1024}


def known_peak(device_name: str, precision: Precision) -> float | None:
    """Return the datasheet's dense FLOPs a second of a device, as `torch.cuda.get_device_name` calls it.

    None for a device that is not in the table, and for fp32, whose rate depends on whether TF32 is allowed.
    """
    if precision == "fp32":
        return None
    for pattern, peak in _DATASHEETS if precision == "bf16" else (*_DATASHEETS, *_FP16_ONLY):
        if re.search(pattern, device_name):
            return peak
    return None


def measured_peak(device: torch.device, dtype: torch.dtype, *, seconds: float = 0.3, side: int | None = None) -> float:
    """Return FLOPs a second of the fastest of repeated square matrix products; takes about `seconds` (at least one).

    `side` is the matrices' number of rows (default: 8192 on CUDA, 1024 elsewhere). With as many threads as torch uses
    now: on a CPU the peak of this rank, with the other ranks at work beside it if all measure at the same time.
    """
    side = side or _SIDES.get(device.type, _SIDES["cpu"])
    left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    out = torch.empty(side, side, device=device, dtype=dtype)
    torch.matmul(left, right, out=out)  # chooses and loads its kernel
    best, start = float("inf"), time.perf_counter()
    while best == float("inf") or time.perf_counter() - start < seconds:
        _wait(device)
        began = time.perf_counter()
        torch.matmul(left, right, out=out)
        _wait(device)
        best = min(best, time.perf_counter() - began)
    return 2.0 * side**3 / best


def device_peak(device: torch.device, precision: Precision) -> tuple[float, str]:
    """Return a device's FLOPs a second in `precision` and where the figure is from: its datasheet, or a measurement."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        peak = known_peak(name, precision)
        if peak is not None:
            return peak, f"datasheet of {name}"
    return measured_peak(device, _TYPES[precision]), "measured matrix product"


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
