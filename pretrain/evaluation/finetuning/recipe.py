"""How a model is fine-tuned: the options and their ranges. Must not import torch."""

from dataclasses import dataclass
from typing import Literal

from conf.errors import InputError

Precision = Literal["fp32", "bf16"]
Pooling = Literal["first", "mean"]
TooLong = Literal["refuse", "cut"]
_CHOICES: dict[str, tuple[str, ...]] = {
    "schedule": ("linear", "slanted_triangular", "constant"),
    "pooling": ("first", "mean"),
    "too_long": ("refuse", "cut"),
    "precision": ("fp32", "bf16"),
}


@dataclass(frozen=True)
class Recipe:
    """AdamW, a schedule over all steps, clipping; the defaults are BERT's form (Devlin et al. 2019, appendix A.3).

    `batch_size` counts items: of a multiple choice all options together are one. `warmup` is a share of all steps
    (slanted_triangular has its own rise and ignores it: it must be 0 there). `pooling` says what the head reads: the
    "first" token, as BERT's does, or the "mean" of all tokens. `dropout` is the head's; the encoder keeps its own.

    `max_length` counts tokens with [CLS] and [SEP]; `too_long` says what happens to a longer item: "refuse" is an
    error, "cut" shortens it and counts it: of texts the longer gives way, at its end; of a multiple choice only what
    stands before the options; of a text with marked spans what is far from them. An option or a span is never cut.

    ULMFiT (Howard and Ruder 2018): `layer_factor` 2.6 divides the rate by that much a layer downward,
    `gradual_unfreezing` trains the head alone in the first epoch and one more layer in each that follows, and
    schedule=slanted_triangular is its own.

    `patience`: the run ends when the dev metric has not risen for so many epochs and the best epoch counts; null runs
    all epochs and takes the last. `precision` bf16 is autocast, the weights stay fp32.
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 1e-4
    schedule: Literal["linear", "slanted_triangular", "constant"] = "linear"
    warmup: float = 0.1
    weight_decay: float = 0.01
    dropout: float = 0.1
    max_gradient_norm: float = 1.0
    pooling: Pooling = "first"
    max_length: int = 128
    too_long: TooLong = "refuse"
    layer_factor: float = 1.0
    gradual_unfreezing: bool = False
    patience: int | None = None
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        """Raise InputError naming the first option that makes no sense."""
        for name in ("epochs", "batch_size", "patience"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"recipe.{name} must be at least 1, but is {value}")
        for name in ("learning_rate", "max_gradient_norm"):
            if not getattr(self, name) > 0:
                raise InputError(f"recipe.{name} must be above 0, but is {getattr(self, name)}")
        for name in ("warmup", "weight_decay", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"recipe.{name} must be in [0, 1), but is {getattr(self, name)}")
        if self.max_length < 4:
            raise InputError(f"recipe.max_length must be at least 4, but is {self.max_length}")
        if not 1.0 <= self.layer_factor < float("inf"):
            raise InputError(f"recipe.layer_factor must be at least 1, but is {self.layer_factor}")
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"recipe.{name} must be {' or '.join(allowed)}, but is '{getattr(self, name)}'")
        if self.schedule == "slanted_triangular" and self.warmup:
            raise InputError(
                f"recipe.schedule=slanted_triangular has its own rise, but recipe.warmup is {self.warmup}: set it to 0"
            )
