"""Is what a device computes what the CPU's reference computes? Logits and gradients, before anything is timed.

The reference is the attention written as a loop over sequences, in fp32 on the CPU. fp32 must agree to 1e-5; for bf16
the band is measured: twice as far from the reference as the CPU is when it computes the reference in bf16. Must not
import Hydra or DeepSpeed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from benchmarks import synthetic
from pretrain.data.batching import Batch
from pretrain.models.attention import Kernel
from pretrain.models.config import EncoderConfig
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.objectives import DataFacts
from pretrain.objectives.masked_lm import MaskedLM

FP32_LIMIT = 1e-5
BF16_BAND = 2.0
VOCABULARY, ROW_LENGTH, ROWS = 1000, 128, 4
# Initial weights of deviation 0.1 instead of 0.02: attention then prefers some tokens, and a wrong mask shows.
SMALL = EncoderConfig(hidden_size=128, num_layers=4, num_heads=2, intermediate_size=256, initializer_range=0.1)
MODELS = {
    "BERT": replace(SMALL, norm="post", positions="learned", activation="gelu", biases=True, token_types=2),
    "local and global layers": replace(SMALL, local_window=8, global_every=3, local_rope_base=1000.0),
    "causal": replace(SMALL, causal=True),
}


@dataclass(frozen=True)
class Check:
    """One comparison: a relative error that must be at most `limit`; `problem` if it could not be computed."""

    name: str
    error: float
    limit: float
    problem: str = ""

    @property
    def passed(self) -> bool:
        """Whether the device computes the same."""
        return not self.problem and self.error <= self.limit

    def sentence(self) -> str:
        """One line for people."""
        if self.problem:
            return f"FAILED  {self.name}: {self.problem}"
        return f"{'ok' if self.passed else 'FAILED':7} {self.name}: {self.error:.1e}, limit {self.limit:.1e}"


@dataclass(frozen=True)
class Result:
    """Logits at the targets [C, V] and the gradient of the loss, all parameters one after another, on the CPU."""

    logits: Tensor
    gradient: Tensor

    def distances(self, other: Result) -> tuple[float, float]:
        """Relative distances of logits and gradient from those of `other`, as vectors."""
        return _distance(self.logits, other.logits), _distance(self.gradient, other.gradient)


def _distance(found: Tensor, expected: Tensor) -> float:
    return float(torch.linalg.vector_norm(found - expected) / torch.linalg.vector_norm(expected))


def compute(
    model: MaskedLanguageModel, batch: Batch, device: torch.device, dtype: torch.dtype, compiled: bool = False
) -> Result:
    """Forward and backward pass of the masked-LM loss, in `dtype` by autocast where that is not fp32."""
    model, here = copy.deepcopy(model).to(device), batch.to(device)
    objective = _objective()
    loss_of = torch.compile(objective.loss) if compiled else objective.loss
    with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
        with torch.no_grad():
            logits = model(here.input_ids, here.position_ids, here.layout, here.target_positions)
        loss_of(model, here)["masked_lm"].backward()
    gradients = [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    return Result(logits.float().cpu(), torch.cat(gradients).float().cpu())


def checks(device: torch.device, compiled: bool) -> Iterator[Check]:
    """Compare all models, kernels and precisions that `device` has.

    `compiled` compares, for BERT and with local layers, the compiled step in bf16 with the first kernel too.
    """
    batch = _batch()
    for name, config in MODELS.items():
        torch.manual_seed(0)
        reference = MaskedLanguageModel(replace(config, attention_kernel="reference"), VOCABULARY)
        cpu = torch.device("cpu")
        expected = compute(reference, batch, cpu, torch.float32)
        half = compute(reference, batch, cpu, torch.bfloat16).distances(expected)
        for kernel, dtype in _kernels(device):
            limits = (FP32_LIMIT, FP32_LIMIT) if dtype == torch.float32 else tuple(BF16_BAND * error for error in half)
            model = MaskedLanguageModel(replace(config, attention_kernel=kernel), VOCABULARY)
            model.load_state_dict(reference.state_dict())
            label = f"{name}, {kernel}, {str(dtype).removeprefix('torch.')}"
            yield from _compare(label, partial(compute, model, batch, device, dtype), expected, limits)
            if dtype == torch.float32:
                continue
            yield _isolation(f"{label}, change by another document", model, batch, device)
            if compiled and name != "causal" and (kernel, dtype) == _compiled(device):
                run = partial(compute, model, batch, device, dtype, compiled=True)
                yield from _compare(f"{label}, compiled", run, expected, limits)
                torch.compiler.reset()


def _compare(label: str, run: Callable[[], Result], expected: Result, limits: tuple[float, ...]) -> Iterator[Check]:
    try:
        errors = run().distances(expected)
    except Exception as error:  # a kernel that fails is a finding, and the rest is still worth knowing
        yield Check(label, float("nan"), limits[0], f"{type(error).__name__}: {str(error).splitlines()[0]}")
        return
    for what, distance, limit in zip(("logits", "gradient"), errors, limits, strict=True):
        yield Check(f"{label}, {what}", distance, limit)


@torch.no_grad()
def _isolation(label: str, model: MaskedLanguageModel, batch: Batch, device: torch.device) -> Check:
    """Change the first document of every row; the logits of all others must stay (1e-6)."""
    starts, ends = batch.layout.cu_seqlens[:-1], batch.layout.cu_seqlens[1:]
    first = starts % ROW_LENGTH == 0
    changed = batch.input_ids.clone()
    for begin, end in zip(starts[first].tolist(), ends[first].tolist(), strict=True):
        changed[begin:end] = changed[begin:end].roll(1)
    others = (changed == batch.input_ids)[batch.target_positions] & (batch.weights > 0)
    for begin, end in zip(starts[first].tolist(), ends[first].tolist(), strict=True):
        others &= (batch.target_positions < begin) | (batch.target_positions >= end)
    model = copy.deepcopy(model).to(device).eval()
    found = []
    try:
        for ids in (batch.input_ids, changed):
            here = replace(batch, input_ids=ids).to(device)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                logits = model(here.input_ids, here.position_ids, here.layout, here.target_positions)
            found.append(logits.float().cpu()[others])
    except Exception as error:  # as above
        return Check(label, float("nan"), 1e-6, f"{type(error).__name__}: {str(error).splitlines()[0]}")
    return Check(label, float((found[0] - found[1]).abs().max()), 1e-6)


def _kernels(device: torch.device) -> list[tuple[Kernel, torch.dtype]]:
    if device.type == "cuda":
        return [("sdpa", torch.float32), ("varlen", torch.bfloat16), ("sdpa", torch.bfloat16)]
    return [("sdpa", torch.float32), ("matmul", torch.float32), ("matmul", torch.bfloat16)]


def _compiled(device: torch.device) -> tuple[Kernel, torch.dtype]:
    return next(pair for pair in _kernels(device) if pair[1] == torch.bfloat16)


def _objective() -> MaskedLM:
    return MaskedLM(DataFacts(VOCABULARY, synthetic.SPECIAL_IDS, ROW_LENGTH))


def _batch() -> Batch:
    rows = synthetic.make("paragraphs", ROWS * ROW_LENGTH * 2, ROW_LENGTH, VOCABULARY).rows
    # Rows of several documents first: a row that is one document says nothing of keeping documents apart.
    several = rows.segments.max(axis=1).argsort()[::-1]
    rows = replace(rows, input_ids=rows.input_ids[several], segments=rows.segments[several])
    rows = replace(rows, input_ids=rows.input_ids[:ROWS], segments=rows.segments[:ROWS])
    return synthetic.micro_batches(rows, _objective(), ROWS)[0].batch
