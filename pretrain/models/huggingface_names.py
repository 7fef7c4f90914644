"""Weights and configuration under our names <-> under those of Hugging Face's BERT and ModernBERT classes.

Pure functions on dictionaries: no file is touched and transformers is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from conf.errors import InputError
from pretrain.models.encoder import EncoderConfig, padded_vocab_size

# Rows of these beyond the vocabulary are padding, which Hugging Face models do not have.
_PADDED = ("encoder.embeddings.token.weight", "head.bias")
_HEAD_PREFIX = "head."
# What a checkpoint may hold beside the masked language model; any other name left over is an error.
_BERT_UNUSED = ("bert.pooler.", "cls.seq_relationship.", "bert.embeddings.position_ids", "cls.predictions.decoder.")
_MODERN_UNUSED = ("decoder.weight",)


def check_exportable(config: EncoderConfig) -> None:
    """Raise InputError if no Hugging Face class computes what this model does."""
    if config.architecture == "other":
        raise InputError(
            f"no Hugging Face class holds a model with norm={config.norm}, positions={config.positions}, "
            f"activation={config.activation}, biases={str(config.biases).lower()}, token_types={config.token_types}; "
            "export takes BERT's form (post, learned, gelu, biases) or ModernBERT's (pre, rope, geglu, token_types=0)"
        )


def _pairs(config: EncoderConfig) -> list[tuple[str, tuple[str, ...]]]:
    """(our name, their names): several of theirs are stacked along the first axis in ours."""
    return _bert_pairs(config) if config.architecture == "bert" else _modern_pairs(config)


def _with_bias(module: tuple[str, tuple[str, ...]], bias: bool) -> list[tuple[str, tuple[str, ...]]]:
    ours, theirs = module
    kinds = ("weight", "bias") if bias else ("weight",)
    return [(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs)) for kind in kinds]


def _bert_pairs(config: EncoderConfig) -> list[tuple[str, tuple[str, ...]]]:
    table = "bert.embeddings"
    pairs: list[tuple[str, tuple[str, ...]]] = [
        ("encoder.embeddings.token.weight", (f"{table}.word_embeddings.weight",)),
        ("encoder.embeddings.position.weight", (f"{table}.position_embeddings.weight",)),
    ]
    if config.token_types:
        pairs.append(("encoder.embeddings.token_type.weight", (f"{table}.token_type_embeddings.weight",)))
    modules: list[tuple[str, tuple[str, ...]]] = [("encoder.embeddings.norm", (f"{table}.LayerNorm",))]
    for index in range(config.num_layers):
        ours, theirs = f"encoder.layers.{index}", f"bert.encoder.layer.{index}"
        modules += [
            (f"{ours}.attention.qkv", tuple(f"{theirs}.attention.self.{x}" for x in ("query", "key", "value"))),
            (f"{ours}.attention.output", (f"{theirs}.attention.output.dense",)),
            (f"{ours}.attention_norm", (f"{theirs}.attention.output.LayerNorm",)),
            (f"{ours}.mlp.input", (f"{theirs}.intermediate.dense",)),
            (f"{ours}.mlp.output", (f"{theirs}.output.dense",)),
            (f"{ours}.mlp_norm", (f"{theirs}.output.LayerNorm",)),
        ]
    modules += [
        ("head.dense", ("cls.predictions.transform.dense",)),
        ("head.norm", ("cls.predictions.transform.LayerNorm",)),
    ]
    for module in modules:
        pairs += _with_bias(module, bias=True)
    return [*pairs, ("head.bias", ("cls.predictions.bias",))]


def _modern_pairs(config: EncoderConfig) -> list[tuple[str, tuple[str, ...]]]:
    modules: list[tuple[str, tuple[str, ...]]] = [("encoder.embeddings.norm", ("model.embeddings.norm",))]
    for index in range(config.num_layers):
        ours, theirs = f"encoder.layers.{index}", f"model.layers.{index}"
        modules += [(f"{ours}.attention_norm", (f"{theirs}.attn_norm",))] if index else []
        modules += [
            (f"{ours}.attention.qkv", (f"{theirs}.attn.Wqkv",)),
            (f"{ours}.attention.output", (f"{theirs}.attn.Wo",)),
            (f"{ours}.mlp_norm", (f"{theirs}.mlp_norm",)),
            (f"{ours}.mlp.input", (f"{theirs}.mlp.Wi",)),
            (f"{ours}.mlp.output", (f"{theirs}.mlp.Wo",)),
        ]
    modules += [
        ("encoder.final_norm", ("model.final_norm",)),
        ("head.dense", ("head.dense",)),
        ("head.norm", ("head.norm",)),
    ]
    pairs: list[tuple[str, tuple[str, ...]]] = [
        ("encoder.embeddings.token.weight", ("model.embeddings.tok_embeddings.weight",))
    ]
    for module in modules:
        pairs += _with_bias(module, config.biases)
    return [*pairs, ("head.bias", ("decoder.bias",))]


def to_huggingface(state: Mapping[str, Tensor], config: EncoderConfig, vocab_size: int) -> dict[str, Tensor]:
    """Our state_dict -> theirs, fp32, vocabulary trimmed; the tied output matrix is left out, their classes tie it.

    Raises InputError if no class of theirs holds the form.
    """
    check_exportable(config)
    tensors: dict[str, Tensor] = {}
    for ours, theirs in _pairs(config):
        tensor = state[ours].detach().to("cpu", torch.float32)
        if ours in _PADDED:
            tensor = tensor[:vocab_size]
        for name, part in zip(theirs, tensor.chunk(len(theirs)), strict=True):
            tensors[name] = part.clone(memory_format=torch.contiguous_format)
    if config.architecture == "bert" and not config.token_types:
        # RoBERTa-style models have no token types; BERT's class always adds one, so it adds nothing.
        tensors["bert.embeddings.token_type_embeddings.weight"] = torch.zeros(1, config.hidden_size)
    return tensors


def from_huggingface(
    tensors: Mapping[str, Tensor], config: EncoderConfig, vocab_size: int, where: str
) -> tuple[dict[str, Tensor], bool, list[str]]:
    """Their tensors -> (our state_dict, whether the masked-LM head was among them, names that found no use).

    The vocabulary is padded with zero rows as our models have them. A checkpoint without any head weight gives a state
    without `head.*`. Raises InputError, naming `where` and the tensor, for one that is missing, has another shape
    than the configuration says, or is unknown, and for an output matrix that is not the input embedding.
    """
    renamed = _canonical_names(tensors, config)
    pairs = _pairs(config)
    head_names = [name for ours, theirs in pairs if ours.startswith(_HEAD_PREFIX) for name in theirs]
    has_head = any(name in renamed for name in head_names)
    state: dict[str, Tensor] = {}
    used: set[str] = set()
    for ours, theirs in pairs:
        if ours.startswith(_HEAD_PREFIX) and not has_head:
            continue
        absent = [name for name in theirs if name not in renamed]
        if absent:
            raise InputError(f"the weights in '{where}' lack '{absent[0]}', which their config.json calls for")
        used.update(theirs)
        tensor = torch.cat([renamed[name].to(torch.float32) for name in theirs])
        if ours in _PADDED:
            if len(tensor) != vocab_size:
                raise InputError(
                    f"the weights in '{where}' have {len(tensor)} rows in '{theirs[0]}', but their config.json has "
                    f"vocab_size {vocab_size}"
                )
            padding = torch.zeros(padded_vocab_size(vocab_size) - vocab_size, *tensor.shape[1:])
            tensor = torch.cat([tensor, padding])
        state[ours] = tensor
    _check_tied(renamed, config, where)
    rest = sorted(set(renamed) - used)
    known = _BERT_UNUSED if config.architecture == "bert" else _MODERN_UNUSED
    unknown = [name for name in rest if not name.startswith(known)]
    if unknown:
        raise InputError(
            f"the weights in '{where}' hold '{unknown[0]}', which no part of a masked language model of this "
            "config.json is called; import takes BertForMaskedLM, BertForPreTraining, BertModel or their ModernBERT kin"
        )
    return state, has_head, rest


def _canonical_names(tensors: Mapping[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Names as the masked-LM class writes them: old LayerNorm names, the bare encoder's missing prefix."""
    if config.architecture == "bert":
        prefix, roots, others = "bert.", ("embeddings.", "encoder.", "pooler."), "cls."
    else:
        prefix, roots, others = "model.", ("embeddings.", "layers.", "final_norm."), "head."
    bare = not any(name.startswith(prefix) for name in tensors)
    renamed = {}
    for name, tensor in tensors.items():
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if bare and name.startswith(roots) and not name.startswith(others):
            name = prefix + name
        renamed[name] = tensor
    if "cls.predictions.decoder.bias" in renamed:
        renamed.setdefault("cls.predictions.bias", renamed["cls.predictions.decoder.bias"])
    return renamed


def _check_tied(tensors: Mapping[str, Tensor], config: EncoderConfig, where: str) -> None:
    output, embedding = (
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight")
        if config.architecture == "bert"
        else ("decoder.weight", "model.embeddings.tok_embeddings.weight")
    )
    if output in tensors and not torch.equal(tensors[output], tensors[embedding]):
        raise InputError(
            f"the weights in '{where}' have an output matrix '{output}' of its own; only models whose output matrix is "
            "the input embedding can be imported"
        )


def config_to_huggingface(config: EncoderConfig, vocab_size: int, special_ids: Mapping[str, int]) -> dict[str, Any]:
    """What goes into config.json. `special_ids` has "pad", "cls" and "sep".

    Raises InputError if no class of theirs holds the form.
    """
    check_exportable(config)
    shared = {
        "vocab_size": vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
        "max_position_embeddings": config.max_positions,
        "initializer_range": config.initializer_range,
        "pad_token_id": special_ids["pad"],
        "tie_word_embeddings": True,
        "dtype": "float32",
    }
    if config.architecture == "bert":
        return shared | {
            "architectures": ["BertForMaskedLM"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.attention_dropout,
            "type_vocab_size": max(config.token_types, 1),
            "layer_norm_eps": config.layer_norm_eps,
        }
    rope = {"rope_type": "default", "rope_theta": config.rope_base}
    return shared | {
        "architectures": ["ModernBertForMaskedLM"],
        "model_type": "modernbert",
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
        "norm_eps": config.layer_norm_eps,
        "norm_bias": config.biases,
        "attention_bias": config.biases,
        "mlp_bias": config.biases,
        "classifier_bias": config.biases,
        "decoder_bias": True,
        "embedding_dropout": config.dropout,
        "mlp_dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "layer_types": ["full_attention"] * config.num_layers,
        "rope_parameters": {"full_attention": rope, "sliding_attention": rope},
        # The same said as transformers before 5 reads it.
        "global_attn_every_n_layers": 1,
        "global_rope_theta": config.rope_base,
        "local_rope_theta": config.rope_base,
        "bos_token_id": special_ids["cls"],
        "eos_token_id": special_ids["sep"],
        "cls_token_id": special_ids["cls"],
        "sep_token_id": special_ids["sep"],
    }


def config_from_huggingface(raw: Mapping[str, Any], where: str) -> tuple[EncoderConfig, int]:
    """config.json -> (our configuration, vocabulary size).

    Raises InputError, naming `where` and the field, for a kind of model or an option that is not ours.
    """
    kind = raw.get("model_type")
    try:
        if kind == "bert":
            _require(raw, where, {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False})
            return _bert_config(raw), int(raw["vocab_size"])
        if kind == "modernbert":
            _require(raw, where, {"hidden_activation": "gelu", "classifier_activation": "gelu", "decoder_bias": True})
            return _modern_config(raw, where), int(raw["vocab_size"])
    except KeyError as error:
        raise InputError(f"'{where}' lacks the field {error}, without which the model's shape is unknown") from error
    raise InputError(f"'{where}' has model_type {kind!r}, but only 'bert' and 'modernbert' can be imported")


def _require(raw: Mapping[str, Any], where: str, expected: Mapping[str, Any]) -> None:
    for field, value in expected.items():
        if raw.get(field, value) != value:
            raise InputError(f"'{where}' has {field} {raw[field]!r}, but only {value!r} can be imported")


def _bert_config(raw: Mapping[str, Any]) -> EncoderConfig:
    return EncoderConfig(
        hidden_size=raw["hidden_size"],
        num_layers=raw["num_hidden_layers"],
        num_heads=raw["num_attention_heads"],
        intermediate_size=raw["intermediate_size"],
        norm="post",
        positions="learned",
        activation="gelu",
        biases=True,
        token_types=raw.get("type_vocab_size", 2),
        max_positions=raw.get("max_position_embeddings", 512),
        dropout=raw.get("hidden_dropout_prob", 0.1),
        attention_dropout=raw.get("attention_probs_dropout_prob", 0.1),
        layer_norm_eps=raw.get("layer_norm_eps", 1e-12),
        initializer_range=raw.get("initializer_range", 0.02),
    )


def _modern_config(raw: Mapping[str, Any], where: str) -> EncoderConfig:
    layers = raw["num_hidden_layers"]
    every = raw.get("global_attn_every_n_layers", 3)
    types = raw.get("layer_types") or ["sliding" if index % every else "full_attention" for index in range(layers)]
    if set(types) != {"full_attention"}:
        raise InputError(
            f"'{where}' has layers with sliding-window attention, but only models with full attention in every layer "
            "can be imported"
        )
    biases = {raw.get(name, False) for name in ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias")}
    if len(biases) > 1:
        raise InputError(
            f"'{where}' sets norm_bias, attention_bias, mlp_bias and classifier_bias differently, but a model here has "
            "all or none of them"
        )
    rope = (raw.get("rope_parameters") or {}).get("full_attention", {})
    if rope.get("rope_type", "default") != "default":
        raise InputError(f"'{where}' has rope_type {rope['rope_type']!r}, but only 'default' can be imported")
    return EncoderConfig(
        hidden_size=raw["hidden_size"],
        num_layers=layers,
        num_heads=raw["num_attention_heads"],
        intermediate_size=raw["intermediate_size"],
        biases=biases.pop(),
        max_positions=raw.get("max_position_embeddings", 8192),
        dropout=raw.get("mlp_dropout", 0.0),
        attention_dropout=raw.get("attention_dropout", 0.0),
        rope_base=float(rope.get("rope_theta", raw.get("global_rope_theta", 160000.0))),
        layer_norm_eps=raw.get("norm_eps", 1e-5),
        initializer_range=raw.get("initializer_range", 0.02),
    )
