"""In which precision a device computes well: bf16 where its hardware has it, else what comes closest.

A CPU without bf16 instructions multiplies matrices in bf16 some fifty to a hundred times slower than in fp32, without a
word. Must not import torch.distributed, deepspeed or Hydra.
"""

import logging
from typing import Literal

import torch

Precision = Literal["fp32", "bf16", "fp16"]

logger = logging.getLogger(__name__)


def computes_bf16(device_type: str) -> bool:
    """Whether this machine's devices of a type ("cpu", "cuda") have instructions for bf16."""
    if device_type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    # What torch itself asks before it hands a bf16 product to oneDNN and not to a loop over numbers.
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def choose_precision(device_type: str, *, has_bf16: bool) -> Precision:
    """Return what `precision: auto` means: bf16 where the hardware has it, else fp16 on CUDA and fp32 on a CPU."""
    if has_bf16:
        return "bf16"
    return "fp16" if device_type == "cuda" else "fp32"


def resolve_precision(asked: Precision | Literal["auto"], device_type: str) -> Precision:
    """Return the precision that `asked` means on this machine's devices of a type ("cpu", "cuda")."""
    return choose_precision(device_type, has_bf16=computes_bf16(device_type)) if asked == "auto" else asked


def warn_of_slow_bf16(asked: str, device_type: str) -> None:
    """Log a warning where bf16 is asked for by name and the hardware has no instructions for it."""
    if asked == "bf16" and not computes_bf16(device_type):
        instead = choose_precision(device_type, has_bf16=False)
        logger.warning(
            "this %s has no instructions for bf16, which makes it many times slower than %s: set precision to %s",
            "CPU" if device_type == "cpu" else "GPU",
            instead,
            instead,
        )
