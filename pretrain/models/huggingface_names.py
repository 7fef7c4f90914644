"""Weights under our names <-> under those of Hugging Face's BERT and ModernBERT classes.

Pure functions on dictionaries: no file is touched and transformers is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from conf.errors import InputError
from pretrain.models.encoder import EncoderConfig, padded_vocab_size
from pretrain.models.huggingface_config import check_exportable

# (our name, their names): several of theirs are stacked along the first axis in ours.
Pairs = list[tuple[str, tuple[str, ...]]]

# Rows of these beyond the vocabulary are padding, which Hugging Face models do not have.
_PADDED = ("encoder.embeddings.token.weight", "head.bias")
_HEAD_PREFIX = "head."
# What a checkpoint may hold beside the parts that are taken over; any other name left over is an error.
_BERT_UNUSED = ("bert.pooler.", "cls.seq_relationship.", "bert.embeddings.position_ids", "cls.predictions.decoder.")
_MODERN_UNUSED = ("decoder.weight",)
# BERT's sentence head and the pooler below it: both or neither are taken over.
_SENTENCE_MODULES = (
    ("encoder.pooler", "bert.pooler.dense"),
    ("sentence_head.dense", "cls.seq_relationship"),
)


def _pairs(config: EncoderConfig) -> Pairs:
    if config.architecture != "bert":
        return _modern_pairs(config)
    sentence = [pair for ours, theirs in _SENTENCE_MODULES for pair in with_bias((ours, (theirs,)), bias=True)]
    return _bert_pairs(config) + (sentence if config.pooler else [])


def with_bias(module: tuple[str, tuple[str, ...]], bias: bool) -> Pairs:
    """Names of a module, ours and theirs -> those of its weight and, with `bias`, of its bias."""
    ours, theirs = module
    kinds = ("weight", "bias") if bias else ("weight",)
    return [(f"{ours}.{kind}", tuple(f"{name}.{kind}" for name in theirs)) for kind in kinds]


def _bert_pairs(config: EncoderConfig) -> Pairs:
    table = "bert.embeddings"
    pairs: Pairs = [
        ("encoder.embeddings.token.weight", (f"{table}.word_embeddings.weight",)),
        ("encoder.embeddings.position.weight", (f"{table}.position_embeddings.weight",)),
    ]
    if config.token_types:
        pairs.append(("encoder.embeddings.token_type.weight", (f"{table}.token_type_embeddings.weight",)))
    modules: Pairs = [("encoder.embeddings.norm", (f"{table}.LayerNorm",))]
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
        pairs += with_bias(module, bias=True)
    return [*pairs, ("head.bias", ("cls.predictions.bias",))]


def _modern_pairs(config: EncoderConfig) -> Pairs:
    modules: Pairs = [("encoder.embeddings.norm", ("model.embeddings.norm",))]
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
    pairs: Pairs = [("encoder.embeddings.token.weight", ("model.embeddings.tok_embeddings.weight",))]
    for module in modules:
        pairs += with_bias(module, config.biases)
    return [*pairs, ("head.bias", ("decoder.bias",))]


def to_their_names(state: Mapping[str, Tensor], pairs: Pairs, vocab_size: int) -> dict[str, Tensor]:
    """Our tensors -> theirs, fp32 copies on the CPU, without the rows that pad the vocabulary."""
    tensors: dict[str, Tensor] = {}
    for ours, theirs in pairs:
        tensor = state[ours].detach().to("cpu", torch.float32)
        if ours in _PADDED:
            tensor = tensor[:vocab_size]
        for name, part in zip(theirs, tensor.chunk(len(theirs)), strict=True):
            tensors[name] = part.clone(memory_format=torch.contiguous_format)
    return tensors


def to_our_names(tensors: Mapping[str, Tensor], pairs: Pairs, vocab_size: int, where: str) -> dict[str, Tensor]:
    """Their tensors -> ours, fp32, the vocabulary padded with zero rows as our models have them.

    Raises InputError, naming `where` and the tensor, for one that is missing or not of `vocab_size`.
    """
    state: dict[str, Tensor] = {}
    for ours, theirs in pairs:
        absent = [name for name in theirs if name not in tensors]
        if absent:
            raise InputError(f"the weights in '{where}' lack '{absent[0]}', which their config.json calls for")
        tensor = torch.cat([tensors[name].to(torch.float32) for name in theirs])
        if ours in _PADDED:
            if len(tensor) != vocab_size:
                raise InputError(
                    f"the weights in '{where}' have {len(tensor)} rows in '{theirs[0]}', but their config.json has "
                    f"vocab_size {vocab_size}"
                )
            padding = torch.zeros(padded_vocab_size(vocab_size) - vocab_size, *tensor.shape[1:])
            tensor = torch.cat([tensor, padding])
        state[ours] = tensor
    return state


def to_huggingface(state: Mapping[str, Tensor], config: EncoderConfig, vocab_size: int) -> dict[str, Tensor]:
    """Our state_dict -> theirs, fp32, vocabulary trimmed; the tied output matrix is left out, their classes tie it.

    A sentence head and its pooler go with BERT's form (`config.pooler`); ModernBERT's classes have no place for them.
    Raises InputError if no class of theirs holds the form.
    """
    check_exportable(config)
    tensors = to_their_names(state, _pairs(config), vocab_size)
    if config.architecture == "bert" and not config.token_types:
        # RoBERTa-style models have no token types; BERT's class always adds one, so it adds nothing.
        tensors["bert.embeddings.token_type_embeddings.weight"] = torch.zeros(1, config.hidden_size)
    return tensors


def from_huggingface(
    tensors: Mapping[str, Tensor], config: EncoderConfig, vocab_size: int, where: str
) -> tuple[dict[str, Tensor], bool, list[str]]:
    """Their tensors -> (our state_dict, whether the masked-LM head was among them, names that found no use).

    The vocabulary is padded with zero rows as our models have them. A checkpoint without any head weight gives a state
    without `head.*`; BERT's sentence head comes with its pooler where `config.pooler` says so. Raises InputError,
    naming `where` and the tensor, for one that is missing, has another shape than the configuration says, or is
    unknown, and for an output matrix that is not the input embedding.
    """
    renamed = _canonical_names(tensors, config)
    pairs = _pairs(config)
    head_names = [name for ours, theirs in pairs if ours.startswith(_HEAD_PREFIX) for name in theirs]
    has_head = any(name in renamed for name in head_names)
    wanted = [pair for pair in pairs if has_head or not pair[0].startswith(_HEAD_PREFIX)]
    state = to_our_names(renamed, wanted, vocab_size, where)
    used = {name for _, theirs in wanted for name in theirs}
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


def has_sentence_head(tensors: Mapping[str, Tensor]) -> bool:
    """Whether a checkpoint of BERT holds a next-sentence head and the pooler below it."""
    return all(
        any(name.removeprefix("bert.") == f"{theirs.removeprefix('bert.')}.weight" for name in tensors)
        for _, theirs in _SENTENCE_MODULES
    )


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
