"""Our configuration <-> config.json of Hugging Face's BERT and ModernBERT classes.

Pure functions on dictionaries: no file is touched and transformers is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conf.errors import InputError
from pretrain.models.config import EncoderConfig

_FULL, _SLIDING = "full_attention", "sliding_attention"


def check_exportable(config: EncoderConfig) -> None:
    """Raise InputError if no Hugging Face class computes what this model does."""
    if config.causal:
        raise InputError(
            "a causal model cannot be exported: Hugging Face's BERT and ModernBERT classes let every token see the "
            "whole sequence; set model.causal=false before training for a model that can"
        )
    if config.local_window is not None and config.architecture == "other":
        raise InputError(
            "local attention can be exported only in ModernBERT's form (norm=pre, positions=rope, activation=geglu, "
            f"token_types=0), but this model has norm={config.norm}, positions={config.positions}, "
            f"activation={config.activation}, token_types={config.token_types}"
        )
    if config.architecture == "other":
        raise InputError(
            f"no Hugging Face class holds a model with norm={config.norm}, positions={config.positions}, "
            f"activation={config.activation}, biases={str(config.biases).lower()}, token_types={config.token_types}; "
            "export takes BERT's form (post, learned, gelu, biases) or ModernBERT's (pre, rope, geglu, token_types=0)"
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
            "architectures": ["BertForPreTraining" if config.pooler else "BertForMaskedLM"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.attention_dropout,
            "type_vocab_size": max(config.token_types, 1),
            "layer_norm_eps": config.layer_norm_eps,
        }
    bases = {_FULL: config.rope_base, _SLIDING: config.local_rope_base or config.rope_base}
    window = {"local_attention": 2 * config.local_window} if config.local_window is not None else {}
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
        "layer_types": [_FULL if config.window(index) is None else _SLIDING for index in range(config.num_layers)],
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
        # The same said as transformers before 5 reads it.
        "global_attn_every_n_layers": config.global_every,
        "global_rope_theta": bases[_FULL],
        "local_rope_theta": bases[_SLIDING],
        **window,
        "bos_token_id": special_ids["cls"],
        "eos_token_id": special_ids["sep"],
        "cls_token_id": special_ids["cls"],
        "sep_token_id": special_ids["sep"],
    }


def config_from_huggingface(raw: Mapping[str, Any], where: str) -> tuple[EncoderConfig, int]:
    """config.json -> (our configuration, vocabulary size).

    RoBERTa's is read as BERT's would be; `huggingface_roberta.py` says what must be done to it before that.
    Raises InputError, naming `where` and the field, for a kind of model or an option that is not ours.
    """
    kind = raw.get("model_type")
    try:
        if kind in ("bert", "roberta"):
            _require(raw, where, {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False})
            return _bert_config(raw), int(raw["vocab_size"])
        if kind == "modernbert":
            _require(raw, where, {"hidden_activation": "gelu", "classifier_activation": "gelu", "decoder_bias": True})
            return _modern_config(raw, where), int(raw["vocab_size"])
    except KeyError as error:
        raise InputError(f"'{where}' lacks the field {error}, without which the model's shape is unknown") from error
    raise InputError(
        f"'{where}' has model_type {kind!r}, but only 'bert', 'roberta', 'modernbert', 'bart' and 'mbart' can be "
        "imported"
    )


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
    every, window = _local_layers(raw, layers, where)
    biases = {raw.get(name, False) for name in ("norm_bias", "attention_bias", "mlp_bias", "classifier_bias")}
    if len(biases) > 1:
        raise InputError(
            f"'{where}' sets norm_bias, attention_bias, mlp_bias and classifier_bias differently, but a model here has "
            "all or none of them"
        )
    rope_base = _rope_base(raw, _FULL, raw.get("global_rope_theta") or 160000.0, where)
    # Before transformers 5 a null here meant the base of the global layers.
    local_base = _rope_base(raw, _SLIDING, raw.get("local_rope_theta", 10000.0) or rope_base, where)
    dropout, attention_dropout = raw.get("mlp_dropout", 0.0), raw.get("attention_dropout", 0.0)
    return EncoderConfig(
        hidden_size=raw["hidden_size"],
        num_layers=layers,
        num_heads=raw["num_attention_heads"],
        intermediate_size=raw["intermediate_size"],
        biases=biases.pop(),
        max_positions=raw.get("max_position_embeddings", 8192),
        dropout=dropout,
        attention_dropout=attention_dropout,
        # Their class has one figure for the probabilities and the attention's output.
        attention_output_dropout=attention_dropout if attention_dropout != dropout else None,
        rope_base=rope_base,
        layer_norm_eps=raw.get("norm_eps", 1e-5),
        initializer_range=raw.get("initializer_range", 0.02),
        local_window=window,
        global_every=every,
        local_rope_base=local_base if window is not None and local_base != rope_base else None,
    )


def _local_layers(raw: Mapping[str, Any], layers: int, where: str) -> tuple[int, int | None]:
    """(every how many layers one is global, tokens to each side in the others or None where there is no other)."""
    every = raw.get("global_attn_every_n_layers", 3)
    types = raw.get("layer_types") or [_SLIDING if index % every else _FULL for index in range(layers)]
    if set(types) == {_FULL}:
        return 1, None
    for period in range(2, layers + 1):
        if list(types) == [_SLIDING if index % period else _FULL for index in range(layers)]:
            return period, int(raw.get("local_attention", 128)) // 2
    raise InputError(
        f"'{where}' has layer_types {list(types)}, but only models whose layer 0 and then every n-th is "
        f"'{_FULL}' and all others '{_SLIDING}' can be imported"
    )


def _rope_base(raw: Mapping[str, Any], kind: str, default: float, where: str) -> float:
    parameters = (raw.get("rope_parameters") or {}).get(kind) or {}
    if parameters.get("rope_type", "default") != "default":
        raise InputError(f"'{where}' has rope_type {parameters['rope_type']!r}, but only 'default' can be imported")
    return float(parameters.get("rope_theta", default))
