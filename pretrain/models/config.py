"""What an encoder looks like, independent of its vocabulary: one dataclass, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from conf.errors import InputError
from pretrain.models.attention import Kernel

_CHOICES: dict[str, tuple[str, ...]] = {
    "norm": ("pre", "post"),
    "positions": ("learned", "rope"),
    "activation": ("gelu", "geglu"),
    "attention_kernel": ("auto", "sdpa", "matmul", "varlen", "reference"),
}


@dataclass(frozen=True)
class EncoderConfig:
    """The shape and options of an encoder; the keys of `conf/model/*.yaml` are these fields.

    The defaults are the modern form. BERT (Devlin et al. 2019) is norm=post, positions=learned, activation=gelu,
    biases=true, token_types=2; ModernBERT (Warner et al. 2024, with global attention in all layers) is norm=pre,
    positions=rope, activation=geglu, biases=false, token_types=0. Other mixtures train but have no Hugging Face class.

    `intermediate_size` is the width between the two halves of the MLP (with geglu, of each of its two factors).
    `dropout` acts on the embeddings, the attention's output and in the MLP; `attention_dropout` on the probabilities.
    `rope_base` is used only with positions=rope, `max_positions` limits a sequence's length in both forms.
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
    rope_base: float = 10000.0
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    attention_kernel: Kernel = "auto"

    def __post_init__(self) -> None:
        """Raise InputError naming the first option that makes no sense."""
        for name in ("hidden_size", "num_layers", "num_heads", "intermediate_size", "max_positions"):
            if getattr(self, name) < 1:
                raise InputError(f"model.{name} must be at least 1, but is {getattr(self, name)}")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"model.{name} must be one of {', '.join(allowed)}, but is {getattr(self, name)!r}")
        for name in ("dropout", "attention_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(f"model.{name} must be in [0, 1), but is {getattr(self, name)}")
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

    @property
    def head_dim(self) -> int:
        """The size of one attention head."""
        return self.hidden_size // self.num_heads

    @property
    def architecture(self) -> Literal["bert", "modernbert", "other"]:
        """Which Hugging Face class holds this form; "other" if none does (such a model trains but is not exported)."""
        form = (self.norm, self.positions, self.activation)
        if form == ("post", "learned", "gelu") and self.biases:
            return "bert"
        if form == ("pre", "rope", "geglu") and self.token_types == 0:
            return "modernbert"
        return "other"
