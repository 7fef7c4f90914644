"""Where a training step's time goes on its device, kernel by kernel. Must not import the project's packages."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.timing import TrainingLoop, wait

# The first pattern found in a kernel's name decides; a GPU's kernels, then a CPU's operators.
_KINDS: tuple[tuple[str, str], ...] = (
    ("fused element-wise (compiled)", r"^triton_(?!tem)"),
    ("attention", r"flash|fmha|attention|varlen|sdpa"),
    (
        "matrix products",
        r"^triton_tem|gemm|nvjet|cutlass|cublas|xmma|wgmma|splitk|aten::(addmm|mm|bmm|linear|matmul)|mkldnn",
    ),
    ("optimiser and clipping", r"multi_tensor|adam|foreach|lpnorm|norm_cleanup"),
    ("embedding gradient", r"embedding|index_(put|add)|sort|radix|compute_grad_weight|krn_"),
    ("copies", r"memcpy|memset|copy_|to_copy"),
    ("communication", r"nccl|all_?reduce|all_?gather"),
    ("norms and softmax", r"layer_?norm|softmax"),
    ("element-wise", r"elementwise|reduce|aten::"),
)


@dataclass(frozen=True)
class Profile:
    """Milliseconds a step by kind of kernel, and of the longest kernels by name; `total` is their sum."""

    kinds: Mapping[str, float]
    kernels: Mapping[str, float]
    total: float


def kind_of(name: str) -> str:
    """Return what sort of work a kernel does, by its name."""
    return next((kind for kind, pattern in _KINDS if re.search(pattern, name, re.IGNORECASE)), "other")


def profiled(loop: TrainingLoop, device: torch.device, steps: int, longest: int = 12) -> Profile:
    """Profile `steps` steps of a loop that is warm."""
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    wait(device)
    with profile(activities=activities) as recorded:
        for _ in range(steps):
            loop.step()
        wait(device)
    found: dict[str, float] = {}
    for event in recorded.key_averages():
        # On a GPU only what ran there counts: not the operators that started it, nor the marks around groups of them.
        there = (event.device_type != torch.autograd.DeviceType.CPU) == on_gpu
        micros = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        if there and micros > 0 and not getattr(event, "is_user_annotation", False):
            found[event.key] = found.get(event.key, 0.0) + micros / 1000.0 / steps
    kinds: dict[str, float] = {}
    for name, milliseconds in found.items():
        kinds[kind_of(name)] = kinds.get(kind_of(name), 0.0) + milliseconds
    return Profile(_falling(kinds), dict(list(_falling(found).items())[:longest]), sum(found.values()))


def _falling(times: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(times.items(), key=lambda item: -item[1]))
