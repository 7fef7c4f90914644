"""Our encoder-decoder <-> config.json and weights of Hugging Face's BART and mBART classes.

Pure functions on dictionaries: no file is touched and transformers is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from conf.errors import InputError
from pretrain.models.config import Seq2SeqConfig
from pretrain.models.huggingface_names import Pairs, to_our_names, to_their_names, with_bias
from pretrain.models.positions import SinusoidalPositions

# Their tables give position p the row p + 2; no token ever looks the first two rows up.
POSITION_OFFSET = 2
_SIDES = ("encoder", "decoder")
_EMBEDDING, _BIAS = "model.shared.weight", "final_logits_bias"
# Names under which a checkpoint may hold the shared embedding again, or alone.
_TIED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")


def check_seq2seq_exportable(config: Seq2SeqConfig) -> None:
    """Raise InputError if no Hugging Face class computes what this encoder-decoder does."""
    if config.architecture == "other":
        raise InputError(
            f"no Hugging Face class holds an encoder-decoder with activation={config.activation}, "
            f"biases={str(config.biases).lower()}, layer_norm_eps={config.layer_norm_eps:g}; export takes BART's form "
            "(norm=post) and mBART's (norm=pre), both with activation=gelu, biases=true and layer_norm_eps=1e-5"
        )


def seq2seq_config_to_huggingface(
    config: Seq2SeqConfig, vocab_size: int, special_ids: Mapping[str, int]
) -> dict[str, Any]:
    """What goes into config.json. `special_ids` has "pad", "cls" and "sep": a target begins with [CLS], ends at [SEP].

    Raises InputError if no class of theirs holds the form.
    """
    check_seq2seq_exportable(config)
    name = "Bart" if config.architecture == "bart" else "MBart"
    sides = {
        f"{side}_{field}": value
        for side, layers in zip(_SIDES, (config.num_encoder_layers, config.num_decoder_layers), strict=True)
        for field, value in (
            ("layers", layers),
            ("attention_heads", config.num_heads),
            ("ffn_dim", config.intermediate_size),
        )
    }
    return {
        "architectures": [f"{name}ForConditionalGeneration"],
        "model_type": config.architecture,
        "is_encoder_decoder": True,
        "vocab_size": vocab_size,
        "d_model": config.hidden_size,
        **sides,
        "max_position_embeddings": config.max_positions,
        "scale_embedding": config.scale_embeddings,
        "activation_function": "gelu",
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": 0.0,
        "init_std": config.initializer_range,
        "pad_token_id": special_ids["pad"],
        "bos_token_id": special_ids["cls"],
        "eos_token_id": special_ids["sep"],
        "decoder_start_token_id": special_ids["cls"],
        # Their default would end every text of full length by their own vocabulary's id.
        "forced_eos_token_id": None,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def seq2seq_config_from_huggingface(raw: Mapping[str, Any], where: str) -> tuple[Seq2SeqConfig, int]:
    """config.json of BART or mBART -> (our configuration, vocabulary size).

    Dropout between the halves of the MLP and layer drop, which act in training only, have no place in ours.
    Raises InputError, naming `where` and the field, for an option that is not ours.
    """
    for field, value in (("activation_function", "gelu"), ("is_encoder_decoder", True), ("tie_word_embeddings", True)):
        if raw.get(field, value) != value:
            raise InputError(f"'{where}' has {field} {raw[field]!r}, but only {value!r} can be imported")
    try:
        for field in ("ffn_dim", "attention_heads"):
            sides = [raw[f"{side}_{field}"] for side in _SIDES]
            if sides[0] != sides[1]:
                raise InputError(
                    f"'{where}' has encoder_{field} {sides[0]} and decoder_{field} {sides[1]}, but only a model whose "
                    "sides are alike can be imported"
                )
        config = Seq2SeqConfig(
            hidden_size=raw["d_model"],
            num_encoder_layers=raw["encoder_layers"],
            num_decoder_layers=raw["decoder_layers"],
            num_heads=raw["encoder_attention_heads"],
            intermediate_size=raw["encoder_ffn_dim"],
            norm="post" if raw["model_type"] == "bart" else "pre",
            scale_embeddings=raw.get("scale_embedding", False),
            max_positions=raw.get("max_position_embeddings", 1024),
            dropout=raw.get("dropout", 0.1),
            attention_dropout=raw.get("attention_dropout", 0.0),
            initializer_range=raw.get("init_std", 0.02),
        )
        return config, int(raw["vocab_size"])
    except KeyError as error:
        raise InputError(f"'{where}' lacks the field {error}, without which the model's shape is unknown") from error


def _pairs(config: Seq2SeqConfig) -> Pairs:
    pairs: Pairs = [("encoder.embeddings.token.weight", (_EMBEDDING,))]
    modules: Pairs = []
    for side, layers in zip(_SIDES, (config.num_encoder_layers, config.num_decoder_layers), strict=True):
        pairs.append((f"{side}.embeddings.position.weight", (f"model.{side}.embed_positions.weight",)))
        modules.append((f"{side}.embeddings.norm", (f"model.{side}.layernorm_embedding",)))
        for index in range(layers):
            ours, theirs = f"{side}.layers.{index}", f"model.{side}.layers.{index}"
            modules += [
                (f"{ours}.attention.qkv", tuple(f"{theirs}.self_attn.{x}_proj" for x in "qkv")),
                (f"{ours}.attention.output", (f"{theirs}.self_attn.out_proj",)),
                (f"{ours}.attention_norm", (f"{theirs}.self_attn_layer_norm",)),
                (f"{ours}.mlp.input", (f"{theirs}.fc1",)),
                (f"{ours}.mlp.output", (f"{theirs}.fc2",)),
                (f"{ours}.mlp_norm", (f"{theirs}.final_layer_norm",)),
            ]
            if side == "decoder":
                modules += [
                    (f"{ours}.cross.query", (f"{theirs}.encoder_attn.q_proj",)),
                    (f"{ours}.cross.key_value", tuple(f"{theirs}.encoder_attn.{x}_proj" for x in "kv")),
                    (f"{ours}.cross.output", (f"{theirs}.encoder_attn.out_proj",)),
                    (f"{ours}.cross_norm", (f"{theirs}.encoder_attn_layer_norm",)),
                ]
        if config.norm == "pre":
            modules.append((f"{side}.final_norm", (f"model.{side}.layer_norm",)))
    for module in modules:
        pairs += with_bias(module, bias=True)
    return [*pairs, ("head.bias", (_BIAS,))]


def seq2seq_to_huggingface(
    state: Mapping[str, Tensor],
    config: Seq2SeqConfig,
    vocab_size: int,
    languages: tuple[int | None, int | None] = (None, None),
) -> dict[str, Tensor]:
    """Our state_dict -> theirs, fp32, vocabulary trimmed; what their classes tie is there once.

    `languages` are the ids of source and target, where the model has languages: their classes have no place for an
    embedding of a language, so that of each side is added to all of its positions, and the export is of that direction.
    Sinusoidal positions become a table. Raises InputError if no class of theirs holds the form.
    """
    check_seq2seq_exportable(config)
    ours = dict(state)
    for side, language in zip(_SIDES, languages, strict=True):
        if config.positions == "sinusoidal":
            table = SinusoidalPositions(config.hidden_size, config.max_positions)(torch.arange(config.max_positions))
        else:
            table = state[f"{side}.embeddings.position.weight"].detach().to("cpu", torch.float32)
        if language is not None:
            table = table + state[f"{side}.embeddings.language.weight"][language].detach().to("cpu", torch.float32)
        offset = torch.zeros(POSITION_OFFSET, config.hidden_size)
        ours[f"{side}.embeddings.position.weight"] = torch.cat([offset, table])
    tensors = to_their_names(ours, _pairs(config), vocab_size)
    tensors[_BIAS] = tensors[_BIAS][None]
    return tensors


def seq2seq_from_huggingface(
    tensors: Mapping[str, Tensor], config: Seq2SeqConfig, vocab_size: int, where: str
) -> dict[str, Tensor]:
    """Their tensors -> our state_dict, with the vocabulary padded with zero rows as our models have them.

    A checkpoint of the bare model (BartModel) has no output bias: it is 0, as in their class. Raises InputError, naming
    `where` and the tensor, for one that is missing, has another shape than the configuration says, or is unknown, and
    for an embedding or output matrix that is not the shared one.
    """
    bare = not any(name.startswith("model.") for name in tensors)
    renamed = {
        f"model.{name}" if bare and name.startswith(("shared.", "encoder.", "decoder.")) else name: tensor
        for name, tensor in tensors.items()
    }
    tied = [name for name in (_EMBEDDING, *_TIED) if name in renamed]
    for name in tied[1:]:
        if not torch.equal(renamed[name], renamed[tied[0]]):
            raise InputError(
                f"the weights in '{where}' have a matrix '{name}' of its own; only models whose embeddings and output "
                "matrix are one can be imported"
            )
    if tied:
        renamed[_EMBEDDING] = renamed[tied[0]]
    renamed[_BIAS] = renamed[_BIAS].flatten() if _BIAS in renamed else torch.zeros(vocab_size)
    for side in _SIDES:
        name = f"model.{side}.embed_positions.weight"
        if name in renamed:
            if len(renamed[name]) != config.max_positions + POSITION_OFFSET:
                raise InputError(
                    f"the weights in '{where}' have {len(renamed[name])} rows in '{name}', but their config.json has "
                    f"max_position_embeddings {config.max_positions}, to which {POSITION_OFFSET} are added"
                )
            renamed[name] = renamed[name][POSITION_OFFSET:]
    pairs = _pairs(config)
    state = to_our_names(renamed, pairs, vocab_size, where)
    unknown = sorted(set(renamed) - {name for _, theirs in pairs for name in theirs} - set(_TIED))
    if unknown:
        raise InputError(
            f"the weights in '{where}' hold '{unknown[0]}', which no part of an encoder-decoder of this config.json is "
            "called; import takes BartForConditionalGeneration, BartModel or their mBART kin"
        )
    return state
