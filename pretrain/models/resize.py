"""Weights and optimiser state of one vocabulary -> those of a larger one, for tokens that were added to a tokenizer.

Pure functions on dictionaries of tensors under the names of a language model's `state_dict()`, which are the same for
all kinds where they matter here: no file, no model and no tokenizer is touched.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from conf.errors import InputError
from pretrain.models.config import ConvSeq2SeqConfig, ModelConfig
from pretrain.models.conv_seq2seq import output_deviation, vocabulary_shapes
from pretrain.models.encoder import padded_vocab_size
from pretrain.models.initialization import truncated_normal_

# Tensors with one row a token of the (padded) vocabulary; in most models these two are all there are.
EMBEDDING, OUTPUT_BIAS = "encoder.embeddings.token.weight", "head.bias"
_DIRECTION, _GAIN = "head.direction", "head.gain"  # of an output matrix of its own, weight-normalised


def resize_weights(
    weights: Mapping[str, Tensor],
    config: ModelConfig,
    old_vocab_size: int,
    new_vocab_size: int,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """All weights, those of the vocabulary with `new_vocab_size` rows; `weights` is left as it is.

    Rows of old tokens keep their values. A new token starts as in a new model: its embedding from the published
    distribution (drawn on the CPU from `generator`, a CPU generator), its output bias at 0. Rows that pad the
    vocabulary are 0. Other tensors are passed on, not copied.
    Raises InputError for a smaller vocabulary, or weights that are not of `old_vocab_size`.
    """
    _check_growth(old_vocab_size, new_vocab_size)
    resized = dict(weights)
    names = _shapes(config, old_vocab_size)
    for name in sorted(names):
        if name not in weights:
            raise InputError(f"the weights lack '{name}', so their vocabulary cannot be resized")
        resized[name] = _grown(name, weights[name], old_vocab_size, new_vocab_size)
    new = slice(old_vocab_size, new_vocab_size)
    if not isinstance(config, ConvSeq2SeqConfig):
        truncated_normal_(resized[EMBEDDING][new], config.initializer_range, generator)
        return resized
    for name in sorted(name for name in names if name.endswith("token.weight")):
        resized[name][new].normal_(0.0, config.initializer_range, generator=generator)
    if _DIRECTION in names:
        resized[_DIRECTION][new].normal_(0.0, output_deviation(config), generator=generator)
        resized[_GAIN][new] = torch.linalg.vector_norm(resized[_DIRECTION][new], dim=1)
    return resized


def resize_optimizer_state(
    state: Mapping[str, Tensor], config: ModelConfig, old_vocab_size: int, new_vocab_size: int
) -> dict[str, Tensor]:
    """The optimiser's tensors (key "<state>/<parameter>") for the larger vocabulary; a new token's are 0.

    Numbers that belong to a whole parameter (such as a count of updates) stay. Raises InputError for a smaller
    vocabulary, and for a state that is not made of one number an element (such as a preconditioner), which cannot be
    extended.
    """
    _check_growth(old_vocab_size, new_vocab_size)
    resized = dict(state)
    shapes = _shapes(config, old_vocab_size)
    for key, value in state.items():
        parameter = key.partition("/")[2]
        if parameter not in shapes or value.dim() == 0:
            continue
        if tuple(value.shape) != shapes[parameter]:
            raise InputError(
                f"the optimiser's state '{key}' of shape {list(value.shape)} has not one number for each weight, so it "
                "cannot be extended to a larger vocabulary; start with a fresh optimiser"
            )
        resized[key] = _grown(key, value, old_vocab_size, new_vocab_size)
    return resized


def _shapes(config: ModelConfig, vocab_size: int) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors with one row a token, by name."""
    rows = padded_vocab_size(vocab_size)
    if isinstance(config, ConvSeq2SeqConfig):
        return vocabulary_shapes(config, rows)
    return {EMBEDDING: (rows, config.hidden_size), OUTPUT_BIAS: (rows,)}


def _check_growth(old: int, new: int) -> None:
    if new < old:
        raise InputError(
            f"a vocabulary can only grow, but the new one has {new} entries and the model's has {old}: ids of the "
            "tokens that are left would change their meaning; train a new model for a smaller vocabulary"
        )


def _grown(name: str, tensor: Tensor, old: int, new: int) -> Tensor:
    """A copy with the padded rows of the new vocabulary, 0 from row `old` on."""
    if len(tensor) != padded_vocab_size(old):
        raise InputError(
            f"'{name}' has {len(tensor)} rows, but a vocabulary of {old} has {padded_vocab_size(old)} with padding; "
            "give the vocabulary size that the weights were made for"
        )
    grown = tensor.new_zeros(padded_vocab_size(new), *tensor.shape[1:])
    grown[:old] = tensor[:old]
    return grown
