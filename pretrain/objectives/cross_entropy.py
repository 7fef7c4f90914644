"""Weighted cross-entropy over a large vocabulary, in pieces that stay in a CPU's cache. Imports torch only.

Plain `cross_entropy` writes several fp32 matrices of [targets, vocabulary]; for a small encoder that costs as much as
its layers. Here each piece of rows becomes fp32, gives its losses and its gradient at once, and is forgotten.
"""

from typing import Any

import torch

CHUNK_ELEMENTS = 1 << 18  # 1 MiB of fp32


class _WeightedCrossEntropy(torch.autograd.Function):
    """Saves the gradient instead of the probabilities: the backward pass only scales it."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        needs_gradient = ctx.needs_input_grad[0]
        gradient = torch.empty_like(logits) if needs_gradient else None
        losses = torch.empty(len(labels), dtype=torch.float32, device=logits.device)
        rows = max(1, CHUNK_ELEMENTS // logits.shape[1])
        for start in range(0, len(labels), rows):
            part = slice(start, start + rows)
            label, weight = labels[part, None], weights[part, None]
            scores = logits[part].to(torch.float32, copy=True)
            target = scores.gather(1, label)
            largest = scores.amax(dim=1, keepdim=True)
            exponentials = scores.sub_(largest).exp_()
            total = exponentials.sum(dim=1, keepdim=True)
            losses[part] = ((total.log() + largest - target) * weight).squeeze(1)
            if gradient is not None:
                # d loss / d logits = weight * (softmax - one at the label)
                exponentials.mul_(weight / total).scatter_add_(1, label, -weight)
                gradient[part] = exponentials
        if gradient is not None:
            ctx.save_for_backward(gradient)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_outputs[0].to(gradient.dtype), None, None


def weighted_cross_entropy(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Sum over slots of weight * -log softmax(logits)[label], a scalar computed in fp32.

    logits [C, V] of any floating type, labels int64 [C], weights fp32 [C]; the gradient has the type of the logits.
    It can be differentiated once. 0, and gradients of 0, where all weights are 0.
    """
    loss: torch.Tensor = _WeightedCrossEntropy.apply(logits, labels, weights)
    return loss
