"""The `deepspeed` group: what a user may set of DeepSpeed, checked before anything is built.

DeepSpeed takes a misspelt key at its top level in silence and fails late on others, so every key is judged here. Must
not import torch at module level, or Hydra.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from conf.checks import suggestion
from conf.errors import InputError

_OURS = {
    "train_batch_size": "trainer.global_batch_size",
    "train_micro_batch_size_per_gpu": "trainer.micro_batch_size",
    "gradient_accumulation_steps": "trainer.global_batch_size and trainer.micro_batch_size",
    "gradient_clipping": "trainer.gradient_clipping",
    "optimizer": "optimizer",
    "scheduler": "schedule",
    "bf16": "deepspeed.precision",
    "fp16": "deepspeed.precision",
    "torch_autocast": "deepspeed.precision",
    "compile": "deepspeed.compile",
    "activation_checkpointing": "deepspeed.activation_checkpointing",
    "zero_optimization": "deepspeed.zero",
}
_OURS_OF_ZERO = {
    "stage": "deepspeed.stage",
    "offload_optimizer": "deepspeed.offload_optimizer",
    "cpu_offload": "deepspeed.offload_optimizer",
}
# DeepSpeed takes a misspelt key at the top level in silence; this is what may be handed on to it.
_PASSED_ON = (
    "comms_logger",
    "communication_data_type",
    "dump_state",
    "flops_profiler",
    "gradient_predivide_factor",
    "memory_breakdown",
    "prescale_gradients",
    "wall_clock_breakdown",
)


@dataclass(frozen=True)
class DeepSpeedOptions:
    """ZeRO stage, precision, and what else of DeepSpeed's configuration one may set.

    Weights, gradients and optimiser state are fp32 at every precision; bf16 and fp16 are autocast in the forward pass
    (fp16 on CUDA only), and auto is what the hardware computes well (`on_device`). `loss_scaling`: auto means with
    fp16; the scale starts at `initial_loss_scale`, is halved by a step that overflows and doubled after
    `loss_scale_window` steps without one. `offload_optimizer` keeps the optimiser's state and its update on the
    CPU. `compile`: auto means on CUDA. `bucket_size` counts elements (stage 0 has no buckets). `zero` holds further
    keys of DeepSpeed's `zero_optimization`, `other` keys of its top level.
    """

    stage: Literal[0, 1, 2, 3] = 1
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    offload_optimizer: bool = False
    activation_checkpointing: bool = False
    compile: bool | Literal["auto"] = "auto"
    loss_scaling: bool | Literal["auto"] = "auto"
    initial_loss_scale: float = 65536.0
    loss_scale_window: int = 2000
    bucket_size: int = 50_000_000
    zero: dict[str, Any] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise InputError for a value or key that DeepSpeed would refuse late, or worse, ignore."""
        # DeepSpeed refuses OmegaConf's containers.
        object.__setattr__(self, "zero", _plain(self.zero))
        object.__setattr__(self, "other", _plain(self.other))
        if isinstance(self.stage, bool) or self.stage not in (0, 1, 2, 3):
            raise InputError(f"deepspeed.stage must be 0, 1, 2 or 3, but is {self.stage}.")
        if self.precision not in ("auto", "fp32", "bf16", "fp16"):
            raise InputError(f"deepspeed.precision must be auto, fp32, bf16 or fp16, but is '{self.precision}'.")
        for name in ("compile", "loss_scaling"):
            if getattr(self, name) not in ("auto", True, False):
                raise InputError(f"deepspeed.{name} must be auto, true or false, but is '{getattr(self, name)}'.")
        if self.precision == "fp16" and self.loss_scaling is False:
            raise InputError(
                "deepspeed.loss_scaling must be auto or true with deepspeed.precision=fp16, but is false: small "
                "gradients would vanish in fp16."
            )
        if self.offload_optimizer and self.stage == 0:
            raise InputError(
                "deepspeed.offload_optimizer=true needs deepspeed.stage 1, 2 or 3, but the stage is 0: ZeRO splits "
                "off the state that is offloaded."
            )
        if not self.initial_loss_scale >= 1 or math.frexp(self.initial_loss_scale)[0] != 0.5:
            raise InputError(
                f"deepspeed.initial_loss_scale must be a power of two from 1 on, but is {self.initial_loss_scale:g}."
            )
        for name in ("initial_loss_scale", "loss_scale_window"):
            # With precision=auto it shows on the device.
            if self.precision != "auto" and not self.scales_loss and getattr(self, name) != getattr(type(self), name):
                raise InputError(
                    f"deepspeed.{name}={getattr(self, name):g} is for loss scaling, but with "
                    f"deepspeed.precision={self.precision} the loss is not scaled: leave it away, or set "
                    "deepspeed.loss_scaling=true."
                )
        for name in ("bucket_size", "loss_scale_window"):
            if getattr(self, name) < 1:
                raise InputError(f"deepspeed.{name} must be at least 1, but is {getattr(self, name)}.")
        for key, value in self.other.items():
            if key in _OURS:
                raise InputError(f"deepspeed.other.{key} cannot be set here: use the option {_OURS[key]}.")
            if key not in _PASSED_ON:
                raise InputError(f"deepspeed.other has no option '{key}': {suggestion(key, _PASSED_ON)}")
            _refuse_auto(value, f"deepspeed.other.{key}")
        for key, value in self.zero.items():
            if key in _OURS_OF_ZERO:
                raise InputError(f"deepspeed.zero.{key} cannot be set here: use the option {_OURS_OF_ZERO[key]}.")
            _refuse_auto(value, f"deepspeed.zero.{key}")
        if self.zero.get("compute_grad_norm") is False:
            raise InputError(
                "deepspeed.zero.compute_grad_norm must stay true, but is false: whether a step is made is decided by "
                "the gradient's norm."
            )

    @property
    def resolved_precision(self) -> Literal["fp32", "bf16", "fp16"]:
        """The precision, which must not be auto any more."""
        if self.precision == "auto":
            raise ValueError("precision=auto means something on a device only: call on_device first")
        return self.precision

    @property
    def scales_loss(self) -> bool:
        """Whether the loss is scaled before the backward pass."""
        return self.precision == "fp16" if self.loss_scaling == "auto" else bool(self.loss_scaling)

    def compiles(self, device_type: str) -> bool:
        """Whether the model's computation is compiled on a device of this type ("cpu", "cuda")."""
        return device_type == "cuda" if self.compile == "auto" else bool(self.compile)

    def on_device(self, device_type: str) -> Self:
        """Return the options with precision=auto resolved for this machine's devices of a type ("cpu", "cuda").

        Raises InputError if they cannot do what the options ask for.
        """
        from pretrain.precision import resolve_precision

        self.require_device(device_type)
        return replace(self, precision=resolve_precision(self.precision, device_type))

    def on_ranks(self, world_size: int) -> Self:
        """Return the options for so many ranks: on one, ZeRO has nothing to split, and stage 0 computes the same.

        Without the flat copies of gradients and weights, which cost a small model a tenth of its step on a CPU. Not
        where ZeRO was asked for more than that: with the optimiser offloaded, or keys of DeepSpeed's own.
        """
        splits_nothing = world_size == 1 and not self.offload_optimizer and not self.zero
        return replace(self, stage=0) if splits_nothing else self

    def require_device(self, device_type: str) -> None:
        """Raise InputError if a device of this type ("cpu", "cuda") cannot do what the options ask for."""
        if self.precision == "fp16" and device_type != "cuda":
            raise InputError(
                f"deepspeed.precision=fp16 needs a CUDA device, but this rank computes on '{device_type}': use bf16 or "
                "fp32."
            )

    def zero_optimization(self) -> dict[str, Any]:
        """Return DeepSpeed's `zero_optimization` section. Raises InputError for a key or value it does not take."""
        from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
        from pydantic import ValidationError

        section: dict[str, Any] = {"stage": self.stage}
        if self.stage > 0:
            section["reduce_bucket_size"] = self.bucket_size
        if self.stage in (1, 2):
            section["allgather_bucket_size"] = self.bucket_size
        if self.offload_optimizer:
            section["offload_optimizer"] = {"device": "cpu"}
        section |= self.zero
        try:
            DeepSpeedZeroConfig(**section)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            hint = suggestion(key, DeepSpeedZeroConfig.model_fields) if "extra" in first["type"] else first["msg"]
            raise InputError(f"deepspeed.zero.{key} does not fit DeepSpeed's zero_optimization: {hint}") from error
        return section


def _plain(value: Any) -> Any:
    """Return mappings as dicts and sequences as lists, all the way down."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _refuse_auto(value: Any, option: str) -> None:
    if value == "auto":
        raise InputError(
            f"{option} must be a value, but is 'auto', known only to other libraries' wrappers of DeepSpeed: leave the "
            "key out for DeepSpeed's default."
        )
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_auto(item, f"{option}.{key}")
