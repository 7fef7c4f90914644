"""Output matrix and cross-entropy in one: the logits are made in chunks and never all there. Knows no objective.

Logits of [targets, vocabulary], their probabilities and their gradient would be the largest tensors of a small encoder
by far. Here a chunk of rows gets its logits, its losses and its gradients in one go (in the forward pass, since the
loss is a sum that backward can only scale), and is forgotten.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn

from pretrain.models.encoder_decoder import EncoderDecoder
from pretrain.models.masked_lm import MaskedLanguageModel

# Logits held at once: 16 MiB of bf16 on a CPU, 128 on a GPU. Smaller chunks cost speed, since each adds to the gradient
# of the whole matrix; larger ones bring none.
CPU_CHUNK_ELEMENTS = 1 << 23
GPU_CHUNK_ELEMENTS = 1 << 26
# Logits in fp32 at once on a CPU: 1 MiB stays in its cache.
CPU_PIECE_ELEMENTS = 1 << 18


def output_layer(model: nn.Module) -> tuple[Tensor, Tensor, int]:
    """The output matrix [V or more, H], the output bias and the size V of the vocabulary of a language model."""
    if isinstance(model, EncoderDecoder):
        return model.output_matrix(), cast(Tensor, cast(nn.Module, model.head).bias), model.vocab_size
    known = cast(MaskedLanguageModel, model)
    return known.encoder.embeddings.token.weight, known.head.bias, known.vocab_size


@torch.compiler.disable  # graph capture would unroll the chunks; what surrounds the call is still compiled
def linear_cross_entropy(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    vocab_size: int,
    labels: Tensor,
    weights: Tensor,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Sum over slots of weight * -log softmax(states @ weight.T + bias)[label], a scalar in fp32.

    With `label_smoothing` e the target is (1 - e) * the label + e * the uniform distribution over the vocabulary
    (Szegedy et al. 2016, section 7; as torch's cross_entropy has it).

    states [C, H], weight [V', H] and bias [V'] of which the first `vocab_size` rows count, labels int64 [C] below that,
    weights fp32 [C]. The matrices are multiplied in autocast's type where it is on, else in that of the states; losses
    are fp32, and so are the sums over chunks that make the gradient of `weight` and `bias`. It can be differentiated
    once. 0, with gradients of 0, where all weights are 0.
    """
    device = states.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
    needed = torch.is_grad_enabled()
    with torch.autocast(device, enabled=False):
        loss: Tensor = _LinearCrossEntropy.apply(
            states, weight, bias, vocab_size, labels, weights, dtype, needed, label_smoothing
        )
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    """Saves gradients, not activations: the backward pass only scales them, and needs no weight."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        vocab_size: int,
        labels: Tensor,
        weights: Tensor,
        dtype: torch.dtype,
        needed: bool,
        label_smoothing: float,
    ) -> Tensor:
        inputs, matrix, shift = states.to(dtype), weight[:vocab_size].to(dtype), bias[:vocab_size].to(dtype)
        count = len(inputs)
        losses = torch.empty(count, dtype=torch.float32, device=states.device)
        if needed:
            states_gradient = torch.empty_like(inputs)
            weight_gradient = torch.zeros(weight.shape, dtype=torch.float32, device=states.device)
            bias_gradient = torch.zeros(bias.shape, dtype=torch.float32, device=states.device)
        for part in _chunks(count, vocab_size, states.is_cuda):
            # [c, V]: logits, which become their gradient in place
            chunk = torch.addmm(shift, inputs[part], matrix.t())
            losses[part] = _losses_and_gradient_(chunk, labels[part], weights[part], label_smoothing)
            if needed:
                torch.mm(chunk, matrix, out=states_gradient[part])
                _add_product_(weight_gradient[:vocab_size], chunk, inputs[part])
                bias_gradient[:vocab_size] += chunk.sum(dim=0, dtype=torch.float32)
        if needed:
            ctx.save_for_backward(states_gradient, weight_gradient, bias_gradient)
            ctx.dtypes = (states.dtype, weight.dtype, bias.dtype)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (
            (gradient.float() * grad_outputs[0]).to(dtype)
            for gradient, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return (*scaled, None, None, None, None, None, None)


def _chunks(count: int, vocab_size: int, on_gpu: bool) -> list[slice]:
    """Slices of nearly equal length over `count` rows, each with a bounded number of logits."""
    most = max(1, (GPU_CHUNK_ELEMENTS if on_gpu else CPU_CHUNK_ELEMENTS) // vocab_size)
    number = -(-count // most)
    borders = [count * i // number for i in range(number + 1)] if number else [0]
    return [slice(begin, end) for begin, end in pairwise(borders)]


def _losses_and_gradient_(logits: Tensor, labels: Tensor, weights: Tensor, smoothing: float) -> Tensor:
    """Return the weighted losses fp32 [c] of logits [c, V], and leave the logits' gradient in their place."""
    losses = torch.empty(len(labels), dtype=torch.float32, device=logits.device)
    rows = len(labels) if logits.is_cuda else max(1, CPU_PIECE_ELEMENTS // logits.shape[1])
    for start in range(0, len(labels), max(rows, 1)):
        part = slice(start, start + rows)
        label, weight = labels[part, None], weights[part, None]
        scores = logits[part].float() if logits.dtype != torch.float32 else logits[part]
        # What the target distribution gives: the label's logit, and with smoothing a share of the mean of all.
        target = scores.gather(1, label)
        if smoothing:
            target = (1.0 - smoothing) * target + smoothing * scores.mean(dim=1, keepdim=True)
        largest = scores.amax(dim=1, keepdim=True)
        exponentials = scores.sub_(largest).exp_()
        total = exponentials.sum(dim=1, keepdim=True)
        losses[part] = ((total.log() + largest - target) * weight).squeeze(1)
        # d loss / d logits = weight * (softmax - the target distribution)
        exponentials.mul_(weight / total).scatter_add_(1, label, -(1.0 - smoothing) * weight)
        if smoothing:
            exponentials.sub_(weight * (smoothing / scores.shape[1]))
        if exponentials.dtype != logits.dtype:
            logits[part] = exponentials
    return losses


def _add_product_(total: Tensor, chunk: Tensor, inputs: Tensor) -> None:
    """Add chunk.T @ inputs to the fp32 `total`, in place."""
    if chunk.dtype == torch.float32:
        total.addmm_(chunk.t(), inputs)
    elif chunk.is_cuda:
        total += torch.mm(chunk.t(), inputs, out_dtype=torch.float32)
    else:
        total += torch.mm(chunk.t(), inputs)
