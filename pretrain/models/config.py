"""What an encoder looks like, independent of its vocabulary: one dataclass, checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from conf.errors import InputError
from pretrain.models.attention import Kernel, check_dropout

# What shapes no tensor, but without which weights mean something else.
_OF_THE_WEIGHTS = ("num_heads", "norm", "activation", "positions")
# What changes no result in evaluation, or is compared elsewhere.
_FREE = frozenset(
    {"dropout", "attention_dropout", "attention_output_dropout", "initializer_range", "attention_kernel", "pooler"}
)
_CHOICES: dict[str, tuple[str, ...]] = {
    "norm": ("pre", "post"),
    "positions": ("learned", "rope"),
    "activation": ("gelu", "geglu"),
    "attention_kernel": ("auto", "sdpa", "matmul", "varlen", "reference"),
}


def adopted_differences(before: Mapping[str, Any], now: Mapping[str, Any], where: str) -> list[str]:
    """Return a sentence for each field by which a model of fields `now` computes something else with the weights of
    one of fields `before` (from `where`) than that did: a longer context's rotary base, a window, another epsilon.

    Raises InputError for a field with which they would mean nothing, though their shapes agree.
    """
    notes = []
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
        for name in ("hidden_size", "num_layers", "num_heads", "intermediate_size", "max_positions"):
            if getattr(self, name) < 1:
                raise InputError(f"model.{name} must be at least 1, but is {getattr(self, name)}")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"model.{name} must be one of {', '.join(allowed)}, but is {getattr(self, name)!r}")
        for name in ("dropout", "attention_dropout", "attention_output_dropout"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value < 1.0:
                raise InputError(f"model.{name} must be in [0, 1), but is {value}")
        for name in ("rope_base", "layer_norm_eps", "initializer_range"):
            if getattr(self, name) <= 0.0:
                raise InputError(f"model.{name} must be above 0, but is {getattr(self, name)}")
        if self.token_types < 0:
            raise InputError(f"model.token_types must be 0 or more, but is {self.token_types}")
        if self.hidden_size % self.num_heads:
            raise InputError(
                f"model.num_heads must divide model.hidden_size, but {self.hidden_size} is not a multiple of "
                f"{self.num_heads}"
            )
        if self.positions == "rope" and self.head_dim % 2:
            raise InputError(
                "model.positions=rope needs an even head size (model.hidden_size / model.num_heads), "
                f"but it is {self.head_dim}"
            )
        check_dropout(self.attention_kernel, self.attention_dropout)
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
