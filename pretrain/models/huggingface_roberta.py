"""RoBERTa checkpoints as BERT's: the same model under other names, with positions that begin further on.

Pure functions on dictionaries, for the import alone: an export is under BERT's name. transformers is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from conf.errors import InputError

_PREFIXES = (
    ("roberta.", "bert."),
    ("lm_head.dense.", "cls.predictions.transform.dense."),
    ("lm_head.layer_norm.", "cls.predictions.transform.LayerNorm."),
    ("lm_head.decoder.", "cls.predictions.decoder."),
    ("lm_head.bias", "cls.predictions.bias"),
)
_POSITIONS = "embeddings.position_embeddings.weight"


def roberta_as_bert(
    raw: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """RoBERTa's config.json and weights -> those of the BERT model that computes the same (Liu et al. 2019).

    RoBERTa gives a sequence's first token the position `pad_token_id` + 1; the rows of its position table before that
    one are never looked up by a token and are left out.
    Raises InputError, naming `where`, if the position table does not have the rows that config.json says.
    """
    skipped = int(raw.get("pad_token_id", 1)) + 1
    rows = int(raw.get("max_position_embeddings", 512))
    renamed = {_renamed(name): tensor for name, tensor in tensors.items()}
    for name in [name for name in renamed if name.endswith(_POSITIONS)]:
        if len(renamed[name]) != rows or rows <= skipped:
            raise InputError(
                f"the weights in '{where}' have {len(renamed[name])} rows in '{name}', but their config.json has "
                f"max_position_embeddings {rows} and pad_token_id {skipped - 1}"
            )
        renamed[name] = renamed[name][skipped:]
    config = {
        **raw,
        "model_type": "bert",
        "max_position_embeddings": rows - skipped,
        "type_vocab_size": raw.get("type_vocab_size", 2),
    }
    return config, renamed


def _renamed(name: str) -> str:
    for theirs, bert in _PREFIXES:
        if name.startswith(theirs):
            return bert + name.removeprefix(theirs)
    return name
