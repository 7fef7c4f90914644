"""What a model looks like, independent of its vocabulary: a dataclass for each kind, checked when it is made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from conf.errors import InputError
from pretrain.models.attention import Kernel, check_dropout
from pretrain.models.conv_config import ConvSeq2SeqConfig
from pretrain.models.languages import check_languages, language_id

# What shapes no tensor, but without which weights mean something else.
_OF_THE_WEIGHTS = ("num_heads", "norm", "activation", "positions")
# What changes no result in evaluation, or is compared elsewhere.
_FREE = frozenset(
    {"dropout", "attention_dropout", "attention_output_dropout", "initializer_range", "attention_kernel", "pooler"}
)
_CHOICES: dict[str, tuple[str, ...]] = {
    "norm": ("pre", "post"),
    "activation": ("gelu", "geglu"),
    "attention_kernel": ("auto", "sdpa", "matmul", "varlen", "reference"),
}


def adopted_differences(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> list[str]:
    """Return a sentence for each field by which a model of fields `now` computes something else with the weights of
    one of fields `before` (from `where`) than that did: a longer context's rotary base, a window, another epsilon.

    Raises InputError for a field with which they would mean nothing, though their shapes agree.
    """
    notes = []
    before, now = (json.loads(json.dumps(fields)) for fields in (before, now))  # a file has lists, a model tuples
    for name in sorted(before.keys() & now.keys() - _FREE):
        if before[name] == now[name]:
            continue
        if name in _OF_THE_WEIGHTS:
            raise InputError(
                f"the model in '{where}' has {name}={before[name]}, without which its weights mean nothing, but "
                f"model.{name} is {now[name]}: set model.{name}={before[name]}"
            )
        notes.append(f"the model in '{where}' has {name}={before[name]}; here it goes on with model.{name}={now[name]}")
    return notes


@dataclass(frozen=True)
class EncoderConfig:
    """The shape and options of an encoder; the keys of `conf/model/*.yaml` are these fields.

    The defaults are the modern form. BERT (Devlin et al. 2019) is norm=post, positions=learned, activation=gelu,
    biases=true, token_types=2 (RoBERTa: 0); ModernBERT (Warner et al. 2024) is norm=pre, positions=rope,
    activation=geglu, biases=false, token_types=0. Other mixtures train but have no Hugging Face class.

    `intermediate_size` is the width between the two halves of the MLP (with geglu, of each of its two factors).
    `dropout` acts on the embeddings, the attention's output and in the MLP, `attention_dropout` on the probabilities;
    `attention_output_dropout` is the one on the attention's output, where it is not `dropout`.
    `max_positions` limits a sequence's length in both forms.

    Local attention: with `local_window` a token sees at most so many tokens to each side, except in the layers whose
    index (from 0) is a multiple of `global_every`, which see the whole sequence. `rope_base` is the base of rotary
    positions (not used with positions=learned), `local_rope_base` that of the local layers where it is another.
    `causal`: a token sees none after it, in every layer.

    `pooler`: BERT's dense layer and tanh on a sequence's first token, which sentence objectives train.
    `attention_kernel` is a choice of speed, not of the function computed (`attention.py`).
    """

    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    norm: Literal["pre", "post"] = "pre"
    positions: Literal["learned", "rope"] = "rope"
    activation: Literal["gelu", "geglu"] = "geglu"
    biases: bool = False
    token_types: int = 0
    max_positions: int = 512
    dropout: float = 0.0
    attention_dropout: float = 0.0
    attention_output_dropout: float | None = None
    rope_base: float = 10000.0
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    attention_kernel: Kernel = "auto"
    causal: bool = False
    local_window: int | None = None
    global_every: int = 1
    local_rope_base: float | None = None
    pooler: bool = False

    def __post_init__(self) -> None:
        """Raise InputError naming the first option that makes no sense."""
        _check_options(
            self,
            counts=("hidden_size", "num_layers", "num_heads", "intermediate_size", "max_positions"),
            positions=("learned", "rope"),
            dropouts=("dropout", "attention_dropout", "attention_output_dropout"),
            above_0=("rope_base", "layer_norm_eps", "initializer_range"),
        )
        if self.token_types < 0:
            raise InputError(f"model.token_types must be 0 or more, but is {self.token_types}")
        if self.positions == "rope" and self.head_dim % 2:
            raise InputError(
                "model.positions=rope needs an even head size (model.hidden_size / model.num_heads), "
                f"but it is {self.head_dim}"
            )
        self._check_local_attention()

    def _check_local_attention(self) -> None:
        if self.global_every < 1:
            raise InputError(f"model.global_every must be at least 1, but is {self.global_every}")
        if self.local_window is None:
            if self.global_every != 1:
                raise InputError(
                    f"model.global_every={self.global_every} makes the layers between local, which needs "
                    "model.local_window (ModernBERT: 64)"
                )
            if self.local_rope_base is not None:
                raise InputError(
                    "model.local_rope_base is for local layers, but model.local_window is null; "
                    "set both (ModernBERT: 10000 and 64) or neither"
                )
            return
        if self.local_window < 1:
            raise InputError(f"model.local_window must be at least 1 or null, but is {self.local_window}")
        if self.global_every == 1:
            raise InputError(
                f"model.local_window={self.local_window} has no layer to act in, because with model.global_every=1 "
                "all are global; set model.global_every (ModernBERT: 3) or model.local_window=null"
            )
        if self.local_rope_base is not None:
            if self.positions != "rope":
                raise InputError("model.local_rope_base needs model.positions=rope; set it to null")
            if self.local_rope_base <= 0.0:
                raise InputError(f"model.local_rope_base must be above 0, but is {self.local_rope_base}")

    def window(self, layer: int) -> int | None:
        """How many tokens to each side layer `layer` (from 0) sees; None means all."""
        return None if layer % self.global_every == 0 else self.local_window

    @property
    def output_dropout(self) -> float:
        """The dropout on the attention's output."""
        return self.dropout if self.attention_output_dropout is None else self.attention_output_dropout

    @property
    def head_dim(self) -> int:
        """The size of one attention head."""
        return self.hidden_size // self.num_heads

    @property
    def architecture(self) -> Literal["bert", "modernbert", "other"]:
        """Which Hugging Face class holds this form; "other" if none does (such a model trains but is not exported)."""
        form = (self.norm, self.positions, self.activation)
        if self.causal:
            return "other"
        if form == ("post", "learned", "gelu") and self.biases and self.local_window is None:
            return "bert"
        if form == ("pre", "rope", "geglu") and self.token_types == 0:
            return "modernbert"
        return "other"


@dataclass(frozen=True)
class Seq2SeqConfig:
    """The shape and options of an encoder-decoder; the keys of `conf/model/mass_*.yaml` are these fields.

    Both sides have the same width. They share the token embedding, which is the output matrix too; positions, languages
    and the LayerNorm on the embeddings are each side's own. norm=post with gelu and biases is BART (Lewis et al. 2020),
    norm=pre is mBART (Liu et al. 2020); geglu, other biases or another layer_norm_eps than 1e-5 train but have no
    Hugging Face class. MASS (Song et al. 2019) is norm=post.

    `positions`: a learned table each side, or sinusoids (Vaswani et al. 2017). `scale_embeddings` multiplies token
    embeddings by sqrt(hidden_size), as sinusoids need it. `languages` names the languages with an embedding, added at
    every position (Lample and Conneau 2019); ids of languages count in this order.

    `dropout` acts on the embeddings, on the attentions' output and in the MLP, `attention_dropout` on probabilities.
    `max_positions` limits the positions of either side. `attention_kernel` is a choice of speed, not of the function
    computed (`attention.py`).
    """

    hidden_size: int
    num_encoder_layers: int
    num_decoder_layers: int
    num_heads: int
    intermediate_size: int
    norm: Literal["pre", "post"] = "post"
    positions: Literal["learned", "sinusoidal"] = "learned"
    scale_embeddings: bool = False
    languages: Sequence[str] = ()
    activation: Literal["gelu", "geglu"] = "gelu"
    biases: bool = True
    max_positions: int = 512
    dropout: float = 0.0
    attention_dropout: float = 0.0
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    attention_kernel: Kernel = "auto"

    def __post_init__(self) -> None:
        """Raise InputError naming the first option that makes no sense."""
        object.__setattr__(self, "languages", tuple(self.languages))  # a list from a file is the same model
        _check_options(
            self,
            counts=(
                "hidden_size",
                "num_encoder_layers",
                "num_decoder_layers",
                "num_heads",
                "intermediate_size",
                "max_positions",
            ),
            positions=("learned", "sinusoidal"),
            dropouts=("dropout", "attention_dropout"),
            above_0=("layer_norm_eps", "initializer_range"),
        )
        if self.positions == "sinusoidal" and self.hidden_size % 2:
            raise InputError(
                f"model.positions=sinusoidal needs an even model.hidden_size, but it is {self.hidden_size}"
            )
        check_languages(self.languages)

    def language_id(self, name: str | None, side: str) -> int | None:
        """The id of a language by its name (`languages.language_id`)."""
        return language_id(self.languages, name, side)

    @property
    def output_dropout(self) -> float:
        """The dropout on the attentions' output."""
        return self.dropout

    @property
    def head_dim(self) -> int:
        """The size of one attention head."""
        return self.hidden_size // self.num_heads

    @property
    def architecture(self) -> Literal["bart", "mbart", "other"]:
        """Which Hugging Face class holds this form; "other" if none does (such a model trains but is not exported)."""
        if self.activation != "gelu" or not self.biases or self.layer_norm_eps != 1e-5:
            return "other"
        return "bart" if self.norm == "post" else "mbart"


TransformerConfig = EncoderConfig | Seq2SeqConfig
EncoderDecoderConfig = Seq2SeqConfig | ConvSeq2SeqConfig
ModelConfig = EncoderConfig | Seq2SeqConfig | ConvSeq2SeqConfig


def config_from_fields(fields: Mapping[str, Any]) -> ModelConfig:
    """The configuration that `dataclasses.asdict` gave these fields: what a checkpoint says of its model.

    Raises TypeError for a field that the kind of model does not have, or lacks.
    """
    if "decoder_layers" in fields:
        return ConvSeq2SeqConfig(**fields)
    return Seq2SeqConfig(**fields) if "num_decoder_layers" in fields else EncoderConfig(**fields)


def _check_options(
    config: TransformerConfig,
    counts: Sequence[str],
    positions: tuple[str, ...],
    dropouts: Sequence[str],
    above_0: Sequence[str],
) -> None:
    """Raise InputError for what makes no sense in any kind of model; names of fields by what they must be."""
    for name in counts:
        if getattr(config, name) < 1:
            raise InputError(f"model.{name} must be at least 1, but is {getattr(config, name)}")
    for name, allowed in (_CHOICES | {"positions": positions}).items():
        if getattr(config, name) not in allowed:
            raise InputError(f"model.{name} must be one of {', '.join(allowed)}, but is {getattr(config, name)!r}")
    for name in dropouts:
        value = getattr(config, name)
        if value is not None and not 0.0 <= value < 1.0:
            raise InputError(f"model.{name} must be in [0, 1), but is {value}")
    for name in above_0:
        if getattr(config, name) <= 0.0:
            raise InputError(f"model.{name} must be above 0, but is {getattr(config, name)}")
    if config.hidden_size % config.num_heads:
        raise InputError(
            f"model.num_heads must divide model.hidden_size, but {config.hidden_size} is not a multiple of "
            f"{config.num_heads}"
        )
    check_dropout(config.attention_kernel, config.attention_dropout)


def require_encoder(config: ModelConfig, objective: str) -> None:
    """Raise InputError if the model is no encoder, which is what `objective` trains."""
    if not isinstance(config, EncoderConfig):
        raise InputError(
            f"{objective} needs an encoder, but the model is an encoder-decoder; choose a model such as "
            "model=encoder_base, or an objective for pairs"
        )
