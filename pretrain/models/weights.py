"""Files of weights -> tensors -> a model that fits them, or one sentence that says what does not.

Weights are read from safetensors or by torch's weights-only loader, never by an unpickler that can run code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from conf.errors import InputError
from conf.files import sha256_file
from pretrain.models.config import EncoderConfig, ModelConfig
from pretrain.models.language_model import LanguageModel, make_model

SAFETENSORS, SAFETENSORS_INDEX, TORCH_BIN = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"


def weights_file(folder: Path) -> Path:
    """The file that holds a folder's weights or lists their files. Raises InputError if there is none."""
    for name in (SAFETENSORS, SAFETENSORS_INDEX, TORCH_BIN):
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"'{folder}' has no weights: expected {SAFETENSORS}, {SAFETENSORS_INDEX} or {TORCH_BIN}")


def fingerprint_weights(folder: Path) -> str:
    """ "sha256:" and the hash of the weights file; of several, the hash of their hashes in the order of their names."""
    path = weights_file(folder)
    if path.name != SAFETENSORS_INDEX:
        return f"sha256:{sha256_file(path)}"
    hashes = "".join(sha256_file(shard) for shard in _shards(path))
    return f"sha256:{hashlib.sha256(hashes.encode()).hexdigest()}"


def read_weights(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    """All tensors of a folder, and the file they are in (or that lists their files).

    Raises InputError if there is none, it is damaged, or it could not be read without running code.
    """
    path = weights_file(folder)
    if path.name == SAFETENSORS_INDEX:
        tensors: dict[str, Tensor] = {}
        for shard in _shards(path):
            tensors |= read_safetensors(shard)
        return path, tensors
    return path, read_safetensors(path) if path.name == SAFETENSORS else _read_bin(path)


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Tensors of one safetensors file. Raises InputError if it is missing or damaged."""
    try:
        return load_file(path)
    except FileNotFoundError:
        raise InputError(f"'{path}' is missing; copy the whole folder again") from None
    except SafetensorError as error:
        raise InputError(f"'{path}' is damaged or no safetensors file: {error}") from error


def _shards(index: Path) -> list[Path]:
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        if not all(isinstance(name, str) for name in names):
            raise ValueError("a file's name must be text")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputError(f"'{index}' does not list files of weights in its field 'weight_map'") from error
    # Only the name: an index must not lead out of its folder.
    return [index.parent / Path(name).name for name in sorted(names)]


def _read_bin(path: Path) -> dict[str, Tensor]:
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of a damaged file torch lets through whatever its parsers run into
        raise InputError(
            f"'{path}' is damaged or holds more than tensors, which is not loaded because it could run code; "
            "convert it to safetensors where you trust it"
        ) from error
    if not isinstance(loaded, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in loaded.items()):
        raise InputError(f"'{path}' must hold a dictionary of tensors, but holds something else")
    return dict(loaded)


def model_from_state(
    config: ModelConfig, vocab_size: int, state: Mapping[str, Tensor], where: str, partial: bool = False
) -> LanguageModel:
    """A model on the CPU in evaluation mode with the weights of `state`, copied.

    An encoder has a sentence head if `state` has one. With `partial`, tensors that `state` lacks are initialised from
    torch's global generator. Raises InputError, naming `where` and the tensor, if names or shapes are not those of the
    model.
    """
    sentences = any(name.startswith("sentence_head.") for name in state)
    if isinstance(config, EncoderConfig):
        config = replace(config, pooler=sentences)
    if partial:
        model = make_model(config, vocab_size, sentences)
    else:
        with torch.device("meta"):  # initial weights that are overwritten at once cost seconds in a large model
            model = make_model(config, vocab_size, sentences)
    own = model.state_dict()
    missing = [] if partial else sorted(set(own) - set(state))
    unknown = sorted(set(state) - set(own))
    if missing or unknown:
        problem = f"lack '{missing[0]}'" if missing else f"hold '{unknown[0]}'"
        raise InputError(f"the weights in '{where}' {problem}: they are not those of the model its configuration names")
    for name, tensor in state.items():
        if tensor.shape != own[name].shape:
            raise InputError(
                f"the weights in '{where}' are of another model shape: '{name}' is {list(tensor.shape)}, but the "
                f"configuration beside it says {list(own[name].shape)}"
            )
    if not partial:
        model.to_empty(device="cpu")
    model.load_state_dict(state, strict=not partial)
    return model.eval()
