"""DeepSpeed behind one small interface: build it, take a step, read the norm, get and set the whole state.

Everything DeepSpeed does by stage, and its known faults on a CPU, stay in here; weights are fp32 at every stage and
bf16 means autocast in the forward pass, so ZeRO shards and reduces fp32 numbers. (So DeepSpeed's own bf16 mode, whose
stage 0 lets Adam start from a counter of 1, is never used.) Must not import an objective, data, or Hydra.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import torch
from torch import nn

from conf.checks import suggestion
from conf.errors import InputError
from pretrain.data.batching import Batch
from pretrain.distributed import Ranks, import_deepspeed

LossFunction = Callable[[nn.Module, Batch], torch.Tensor]

_OURS = {
    "train_batch_size": "trainer.global_batch_size",
    "train_micro_batch_size_per_gpu": "trainer.micro_batch_size",
    "gradient_accumulation_steps": "trainer.global_batch_size and trainer.micro_batch_size",
    "gradient_clipping": "trainer.gradient_clipping",
    "optimizer": "optimizer",
    "scheduler": "schedule",
    "bf16": "deepspeed.precision",
    "torch_autocast": "deepspeed.precision",
}
# DeepSpeed takes a misspelt key at the top level in silence; this is what may be handed on to it.
_PASSED_ON = (
    "activation_checkpointing",
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
    """The `deepspeed` group: ZeRO stage, precision, and what else of DeepSpeed's configuration one may set.

    `zero` holds further keys of its `zero_optimization`, `other` keys of its top level. Bucket sizes count elements.
    """

    stage: Literal[0, 1, 2, 3] = 1
    precision: Literal["fp32", "bf16"] = "bf16"
    bucket_size: int = 50_000_000
    zero: dict[str, Any] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise InputError for a value or key that DeepSpeed would refuse late, or worse, ignore."""
        if self.stage not in (0, 1, 2, 3):
            raise InputError(f"deepspeed.stage must be 0, 1, 2 or 3, but is {self.stage}.")
        if self.precision not in ("fp32", "bf16"):
            raise InputError(f"deepspeed.precision must be fp32 or bf16, but is '{self.precision}'.")
        if self.bucket_size < 1:
            raise InputError(f"deepspeed.bucket_size must be at least 1, but is {self.bucket_size}.")
        for key in self.other:
            if key in _OURS:
                raise InputError(f"deepspeed.other.{key} cannot be set here: use the option {_OURS[key]}.")
            if key not in _PASSED_ON:
                raise InputError(f"deepspeed.other has no option '{key}': {suggestion(key, _PASSED_ON)}")

    def zero_optimization(self) -> dict[str, Any]:
        """Return DeepSpeed's `zero_optimization` section. Raises InputError for a key or value it does not take."""
        from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
        from pydantic import ValidationError

        buckets = {"reduce_bucket_size": self.bucket_size, "allgather_bucket_size": self.bucket_size}
        section = {"stage": self.stage, **(buckets if self.stage in (1, 2) else {}), **self.zero}
        try:
            DeepSpeedZeroConfig(**section)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            hint = suggestion(key, DeepSpeedZeroConfig.model_fields) if "extra" in first["type"] else first["msg"]
            raise InputError(f"deepspeed.zero.{key} does not fit DeepSpeed's zero_optimization: {hint}") from error
        return section


class _LossModule(nn.Module):
    """Makes "batch -> loss" the forward pass, so that DeepSpeed's hooks see all of it."""

    def __init__(self, model: nn.Module, loss: LossFunction, device_type: str, precision: str) -> None:
        super().__init__()
        self.model = model
        self._loss = loss
        self._device_type, self._autocast = device_type, precision == "bf16"

    def forward(self, batch: Batch) -> torch.Tensor:
        with torch.autocast(self._device_type, dtype=torch.bfloat16, enabled=self._autocast):
            return self._loss(self.model, batch)


@dataclass(frozen=True)
class FullState:
    """The whole state without any trace of how it was sharded; all tensors fp32 on the host.

    `weights` and `optimizer` (key "<state>/<parameter>", such as "exp_avg/head.bias") are empty on other ranks than
    0. `updates` is the optimiser's own count of updates, which bias corrections use.
    """

    weights: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]
    updates: int


class TrainingEngine:
    """One model, one optimiser, under DeepSpeed. All methods that touch state are collective calls."""

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        optimizer: torch.optim.Optimizer,
        options: DeepSpeedOptions,
        ranks: Ranks,
        *,
        micro_batch_size: int,
        accumulation: int,
        gradient_clipping: float,
    ) -> None:
        self.options, self.ranks, self.model = options, ranks, model
        self.device = torch.device("cuda", ranks.local_rank) if torch.cuda.is_available() else torch.device("cpu")
        self._clipping, self._accumulation = gradient_clipping, accumulation
        self._peak_rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._stage_0_norm = torch.zeros(())
        config = {
            **options.other,
            "train_micro_batch_size_per_gpu": micro_batch_size,
            "gradient_accumulation_steps": accumulation,
            "train_batch_size": micro_batch_size * accumulation * ranks.world_size,
            "zero_optimization": options.zero_optimization(),
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            # At stage 0 DeepSpeed in fp32 clips but tells no norm, so there we do both.
            "gradient_clipping": gradient_clipping if options.stage > 0 else 0.0,
            "steps_per_print": 2**62,
        }
        self._engine, *_ = import_deepspeed().initialize(
            model=_LossModule(model, loss, self.device.type, options.precision), optimizer=optimizer, config=config
        )

    def train_step(
        self, batches: Sequence[Batch], *, targets: float, rate_factor: float, seeds: Sequence[int]
    ) -> torch.Tensor:
        """Take one optimiser step; return this rank's summed loss (a detached scalar on the device, not synced).

        `batches` are this rank's micro-batches and `seeds` one generator seed each (for dropout); `targets` is the
        count of target weights over all ranks and micro-batches, by which the sum of losses is divided: DeepSpeed
        would average ranks and micro-batches alike, whatever they hold. `rate_factor` scales the peak rates.
        """
        for group, peak in zip(self._engine.optimizer.param_groups, self._peak_rates, strict=True):
            group["lr"] = peak * rate_factor
        # DeepSpeed averages over ranks; the division by accumulation steps is switched off below.
        scale = self.ranks.world_size / max(targets, 1.0)
        total = torch.zeros((), device=self.device)
        for batch, seed in zip(batches, seeds, strict=True):
            torch.manual_seed(seed)
            loss = self._engine(batch.to(self.device, non_blocking=True))
            self._engine.backward(loss * scale, scale_wrt_gas=False)
            if self.options.stage == 0 and self._engine.is_gradient_accumulation_boundary():
                self._stage_0_norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._clipping or math.inf)
            self._engine.step()
            total += loss.detach()
        return total

    def gradient_norm(self) -> float:
        """Return the norm of the last step's gradient before clipping. Waits for the device."""
        if self.options.stage == 0:
            return float(self._stage_0_norm)
        norm = self._engine.get_global_grad_norm()
        return math.nan if norm is None else float(norm)

    def learning_rate(self) -> float:
        """Return the rate of the last step (of the first parameter group)."""
        return float(self._engine.optimizer.param_groups[0]["lr"])

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> torch.Tensor:
        """Return the summed loss of a batch without dropout, a scalar on the device."""
        self._engine.eval()
        try:
            return cast(torch.Tensor, self._engine(batch.to(self.device, non_blocking=True))).detach()
        finally:
            self._engine.train()

    def full_state(self) -> FullState:
        """Gather weights and optimiser state, parameter by parameter."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        self._link_sharded_state()
        weights: dict[str, torch.Tensor] = {}
        moments: dict[str, torch.Tensor] = {}

        def keep(store: dict[str, torch.Tensor], name: str, value: torch.Tensor) -> None:
            if self.ranks.is_main:
                store[name] = value.detach().to("cpu", torch.float32, copy=True).contiguous()

        names = self._state_names()
        for name, parameter in self.model.named_parameters():
            sharded = self.options.stage > 0
            keep(weights, name, safe_get_full_fp32_param(parameter) if sharded else parameter)
            for key in names:
                value = (
                    safe_get_full_optimizer_state(parameter, key)
                    if sharded
                    else self._torch_optimizer.state[parameter][key]
                )
                keep(moments, f"{key}/{name}", value)
        for name, buffer in persistent_buffers(self.model):
            keep(weights, name, buffer)
        return FullState(weights, moments, self._updates())

    def load_optimizer_state(self, state: FullState, batches: Sequence[Batch]) -> None:
        """Set the optimiser's state, which must be given in full on every rank; weights are set before the engine.

        One step at rate 0 on any `batches` makes the optimiser allocate its state, at every stage alike; then the
        values are put in place.
        """
        from deepspeed.utils import safe_set_full_optimizer_state

        self.train_step(batches, targets=1.0, rate_factor=0.0, seeds=[0] * len(batches))
        self._link_sharded_state()
        for name, parameter in self.model.named_parameters():
            for key in self._state_names():
                value = state.optimizer[f"{key}/{name}"]
                if self.options.stage > 0:
                    safe_set_full_optimizer_state(parameter, value.to(self.device), key)
                else:
                    self._torch_optimizer.state[parameter][key].copy_(value)
        for slot in self._torch_optimizer.state.values():
            if "step" in slot:
                slot["step"] = torch.full_like(torch.as_tensor(slot["step"]), state.updates)

    def close(self) -> None:
        """Free what DeepSpeed holds."""
        self._engine.destroy()

    def _link_sharded_state(self) -> None:
        """Let stages 1 and 2 find the state of every parameter group.

        DeepSpeed 0.19 links it after it has stepped the FIRST group, when the others have none yet, and not again.
        """
        wrapped = self._engine.optimizer
        if self.options.stage in (1, 2) and self._state_names():
            wrapped._hp_optimizer_states_linked = False
            wrapped._lazy_init_hp_params_optimizer_state()

    @property
    def _torch_optimizer(self) -> torch.optim.Optimizer:
        wrapped = self._engine.optimizer
        return cast(torch.optim.Optimizer, wrapped if self.options.stage == 0 else wrapped.optimizer)

    def _state_names(self) -> list[str]:
        """Return the names of the per-element states (Adam: exp_avg, exp_avg_sq); empty before the first step."""
        for parameter, slot in self._torch_optimizer.state.items():
            return sorted(k for k, v in slot.items() if torch.is_tensor(v) and v.numel() == parameter.numel() > 1)
        return []

    def _updates(self) -> int:
        for _, slot in self._torch_optimizer.state.items():
            if "step" in slot:
                return int(slot["step"])
        return 0


def persistent_buffers(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the entries of the model's state that are not parameters (and not another name of one)."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, value in model.state_dict(keep_vars=True).items():
        if name not in parameters:
            yield name, value
