"""The encoder of a fine-tuned model as a folder that a further fine-tuning starts from, and poolers of such folders.

Intermediate-task training (STILTs: Phang et al. 2018): fine-tune on one task, take the encoder, fine-tune it on
another. The folder is one of Hugging Face without a masked-LM head, which was not trained along; in BERT's form the
classifier's dense layer goes along as the pooler that it is. `finetuning.json` says what run it is of.
"""

import copy
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from conf.files import atomic_write_bytes, atomic_write_text, fsync_directory
from pretrain.evaluation.finetuning.heads import TaskModel, TextModel
from pretrain.evaluation.runs import hash_of
from pretrain.models.encoder import Encoder
from pretrain.models.huggingface import CONFIG, export_folder
from pretrain.models.load import LoadedModel
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.models.weights import SAFETENSORS, read_safetensors, read_weights

IDENTITY = "finetuning.json"
_HEADS = ("cls.", "head.", "decoder.", "bert.pooler.")
_POOLER = "pooler.dense."


def save_encoder(
    tuned: TaskModel, origin: LoadedModel[MaskedLanguageModel], folder: Path, identity: Mapping[str, Any]
) -> None:
    """Write a tuned encoder with the tokenizer of the checkpoint it came from; an earlier folder is replaced.

    Args:
        tuned: the model.
        origin: the checkpoint.
        folder: where to; it is there whole or not at all.
        identity: all that the weights depend on, as plain JSON values.

    Raises:
        InputError: no Hugging Face class holds the model.
    """
    model = copy.deepcopy(origin.model)
    model.encoder.load_state_dict(tuned.encoder.state_dict(), strict=False)  # the tuned one has no pooler
    temporary = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(temporary, ignore_errors=True)
    export_folder(model, origin.tokenizer_path, temporary)
    tensors = {
        name: tensor
        for name, tensor in read_safetensors(temporary / SAFETENSORS).items()
        if not name.startswith(_HEADS)
    }
    config = json.loads((temporary / CONFIG).read_text(encoding="utf-8"))
    if isinstance(tuned, TextModel) and not tuned.modern:
        for kind, parameter in tuned.dense.named_parameters():
            tensors[f"bert.{_POOLER}{kind}"] = parameter.detach().to(torch.float32).contiguous()
    config["architectures"] = ["BertModel" if config["model_type"] == "bert" else "ModernBertModel"]
    atomic_write_bytes(temporary / CONFIG, (json.dumps(config, indent=2) + "\n").encode())
    atomic_write_bytes(temporary / SAFETENSORS, save(tensors, metadata={"format": "pt"}))
    record = {"key": hash_of(identity), "identity": identity}
    atomic_write_text(temporary / IDENTITY, json.dumps(record, ensure_ascii=False) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    fsync_directory(folder.parent)


def holds_encoder(folder: Path, identity: Mapping[str, Any]) -> bool:
    """Whether a folder is there and was saved by the run of this identity, not by one of another recipe or data set."""
    try:
        record = json.loads((folder / IDENTITY).read_text(encoding="utf-8"))
        return bool(record["key"] == hash_of(identity))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def with_pooler(encoder: Encoder, checkpoint: Path) -> Encoder:
    """The encoder, or a copy with the pooler that its Hugging Face folder holds and that importing left out.

    Masked-LM models have no use for a pooler without a sentence head, but BERT's classifiers start from it.
    """
    if encoder.pooler is not None or not (checkpoint / CONFIG).is_file() or encoder.config.architecture != "bert":
        return encoder
    _, tensors = read_weights(checkpoint)
    found = {name.rpartition(".")[2]: tensor for name, tensor in tensors.items() if _POOLER in name}
    size = encoder.config.hidden_size
    if set(found) != {"weight", "bias"} or found["weight"].shape != (size, size):
        return encoder
    copied = copy.deepcopy(encoder)
    copied.pooler = nn.Linear(size, size)
    copied.pooler.load_state_dict({kind: tensor.to(torch.float32) for kind, tensor in found.items()})
    return copied
