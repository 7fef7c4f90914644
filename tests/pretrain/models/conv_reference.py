"""The convolutional encoder-decoder a second time, for one pair at a time: torch's own convolution over a sentence,
torch's own weight normalisation, no packing, no mask, no kernel. It shares nothing with the model but its weights."""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from pretrain.models.conv_config import ConvSeq2SeqConfig

HALF = 0.5**0.5
State = Mapping[str, Tensor]


def normed(state: State, name: str) -> Tensor:
    return torch._weight_norm(state[f"{name}.direction"], state[f"{name}.gain"][:, None], 0)


def linear(state: State, name: str, x: Tensor) -> Tensor:
    return x @ normed(state, name).T + state[f"{name}.bias"]


def convolve(state: State, name: str, x: Tensor, kernel: int, left: int, right: int) -> Tensor:
    """[n, inputs] -> [n, width]."""
    weight = normed(state, name)
    weight = weight.view(len(weight), kernel, -1).transpose(1, 2)
    padded = torch.cat((x.new_zeros(left, x.shape[1]), x, x.new_zeros(right, x.shape[1])))
    out = F.conv1d(padded.T[None], weight, state[f"{name}.bias"])[0].T
    first, second = out.chunk(2, dim=1)
    return first * torch.sigmoid(second)


def embed(state: State, side: str, ids: Sequence[int], positions: Sequence[int], language: int | None) -> Tensor:
    table = state.get(f"{side}.embeddings.token.weight", state["encoder.embeddings.token.weight"])
    found = table[list(ids)] + state[f"{side}.embeddings.position.weight"][list(positions)]
    return found if language is None else found + state[f"{side}.embeddings.language.weight"][language]


def residual(state: State, name: str, x: Tensor) -> Tensor:
    return linear(state, f"{name}.residual", x) if f"{name}.residual.bias" in state else x


def logits(
    state: State,
    config: ConvSeq2SeqConfig,
    source: Sequence[int],
    target: Sequence[int],
    *,
    positions: Sequence[int] | None = None,
    languages: tuple[int | None, int | None] = (None, None),
    hidden: Sequence[int] = (),
    gradient_factor: float | None = None,
    vocab_size: int = 75,
) -> Tensor:
    """[n, vocab_size] for one pair. `hidden`: places of the source that the decoder does not see."""
    e = embed(state, "encoder", source, range(len(source)), languages[0])
    x = linear(state, "encoder.embeddings.projection", e)
    for number, (_, kernel) in enumerate(config.encoder_convolutions):
        name = f"encoder.layers.{number}"
        found = convolve(state, f"{name}.convolution.linear", x, kernel, (kernel - 1) // 2, kernel // 2)
        x = (found + residual(state, name, x)) * HALF
    z = linear(state, "encoder.output", x)
    if gradient_factor is not None:
        z = z * gradient_factor + (z * (1 - gradient_factor)).detach()
    values = (z + e) * HALF
    seen = [place for place in range(len(source)) if place not in hidden]

    g = embed(state, "decoder", target, range(len(target)) if positions is None else positions, languages[1])
    x = linear(state, "decoder.embeddings.projection", g)
    for number, (_, kernel) in enumerate(config.decoder_convolutions):
        name = f"decoder.layers.{number}"
        h = convolve(state, f"{name}.convolution.linear", x, kernel, kernel - 1, 0)
        query = (linear(state, f"{name}.attention.query", h) + g) * HALF
        read = (query @ z[seen].T).softmax(1) @ values[seen] * len(seen) ** 0.5
        h = (linear(state, f"{name}.attention.output", read) + h) * HALF
        x = (h + residual(state, name, x)) * HALF
    states = linear(state, "decoder.output", x)
    if config.share_embeddings:
        matrix = state["encoder.embeddings.token.weight"][:vocab_size]
    else:  # without the rows of zeros that pad the vocabulary, which torch cannot normalise
        matrix = torch._weight_norm(state["head.direction"][:vocab_size], state["head.gain"][:vocab_size, None], 0)
    return states @ matrix.T + state["head.bias"][:vocab_size]
