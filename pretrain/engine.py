"""DeepSpeed behind one small interface: build it, take a step or skip it, read the norm, get and set the whole state.

Everything DeepSpeed does by stage, and its known faults, stay in here; weights are fp32 at every stage and bf16 or fp16
means autocast in the forward pass, so ZeRO shards, reduces and accumulates fp32 numbers. (So DeepSpeed's own bf16 mode,
whose stage 0 lets Adam start from a counter of 1, is never used.) Must not import an objective, data, or Hydra.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn

from conf.errors import InputError
from pretrain.data.batching import ModelBatch
from pretrain.deepspeed_gradients import forget_last_step, hand_over_accumulated
from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import import_deepspeed
from pretrain.engine_state import FullState, StateOfStage
from pretrain.loss_scale import LossScale
from pretrain.ranks import Ranks

LossFunction = Callable[[nn.Module, Any], dict[str, torch.Tensor]]
NON_FINITE = "non-finite gradient"
_SCALE, _CLEAN_STEPS = "loss_scale/", "loss_scale_clean_steps/"  # no parameter has an empty name
_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class StepOutcome:
    """One call of `train_step`: this rank's summed losses by name (detached scalars on the device, not synced).

    `skipped` is why no update was made, the same on all ranks, or None: it was made.
    """

    losses: dict[str, torch.Tensor]
    skipped: str | None


class _LossModule(nn.Module):
    """Makes "batch -> losses -> what is differentiated" the forward pass, so that DeepSpeed's hooks see all of it."""

    def __init__(self, model: nn.Module, loss: LossFunction, device_type: str, options: DeepSpeedOptions) -> None:
        super().__init__()
        self.model = model
        self._loss, self._device_type, self._type = loss, device_type, _AUTOCAST.get(options.precision)
        self._compiled: LossFunction | None = torch.compile(loss) if options.compiles(device_type) else None
        # At stage 3 DeepSpeed must first see, uncompiled, which weights are used outside of the modules that own them
        # (as a tied output matrix is): compiled code would find them empty.
        self._looks_first = options.stage == 3

    def forward(
        self, batch: ModelBatch, factors: Mapping[str, float] | None = None
    ) -> tuple[torch.Tensor | None, dict[str, torch.Tensor]]:
        """Return the sum of factor * loss, None without factors, and the losses by name (detached)."""
        compute = self._loss if self._compiled is None or self._looks_first else self._compiled
        if compute is self._compiled:
            batch.for_compiled_code()
        with torch.autocast(self._device_type, dtype=self._type, enabled=self._type is not None):
            losses = compute(self.model, batch)
        self._looks_first = False
        detached = {name: loss.detach() for name, loss in losses.items()}
        if factors is None:
            return None, detached
        if losses.keys() != factors.keys():
            raise ValueError(f"counts must be given for {sorted(losses)}, but are for {sorted(factors)}")
        return cast(torch.Tensor, sum(losses[name] * factors[name] for name in losses)), detached


class TrainingEngine:
    """One model, one optimiser, under DeepSpeed. All methods that touch state are collective calls.

    `loss` returns the weighted SUM of each named loss of a batch. `judge` is asked with the norm of the whole gradient
    (before clipping) whether an update may be made; what it answers on rank 0's norm is the same everywhere.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        optimizer: torch.optim.Optimizer,
        options: DeepSpeedOptions,
        ranks: Ranks,
        *,
        micro_batch_size: int,
        gradient_clipping: float,
        judge: Callable[[float], str | None] | None = None,
    ) -> None:
        self.device = torch.device("cuda", ranks.local_rank) if torch.cuda.is_available() else torch.device("cpu")
        options = options.on_device(self.device.type)
        self.options, self.ranks, self.model = options, ranks, model
        if options.stage > 0 and getattr(optimizer, "needs_whole_parameters", False):
            raise InputError(
                f"{type(optimizer).__name__} needs whole parameters, but deepspeed.stage={options.stage} hands an "
                "optimiser flat slices of them: use deepspeed.stage=0, or another optimizer."
            )
        if options.activation_checkpointing:
            _checkpoint_activations(model)
        if options.compiles(self.device.type):
            _require_compiler(self.device.type)
        self._clipping, self._judge = gradient_clipping, judge
        self._peak_rates = [float(group["lr"]) for group in optimizer.param_groups]
        self._norm, self._skipped = 0.0, cast(str | None, None)
        self._scale = LossScale(options.initial_loss_scale, options.loss_scale_window) if options.scales_loss else None
        config = {
            **options.other,
            # Where an accumulation ends is set at every micro-batch, so DeepSpeed's own count stays at 1.
            "train_micro_batch_size_per_gpu": micro_batch_size,
            "gradient_accumulation_steps": 1,
            "train_batch_size": micro_batch_size * ranks.world_size,
            "zero_optimization": options.zero_optimization(),
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            # At stage 0 DeepSpeed in fp32 clips but tells no norm, so there we do both.
            "gradient_clipping": gradient_clipping if options.stage > 0 else 0.0,
            "steps_per_print": 2**62,
        }
        self._engine, *_ = import_deepspeed().initialize(
            model=_LossModule(model, loss, self.device.type, options), optimizer=optimizer, config=config
        )
        self._state = StateOfStage(model, self._engine.optimizer, options.stage)
        if options.stage > 0:
            self._judge_inside(self._engine.optimizer)

    def train_step(
        self,
        batches: Sequence[ModelBatch],
        *,
        counts: Mapping[str, float],
        rate_factor: float,
        seeds: Sequence[int],
    ) -> StepOutcome:
        """Take one optimiser step on any number of micro-batches, or skip it.

        `batches` are this rank's micro-batches (as many on every rank) and `seeds` one generator seed each (for
        dropout). What is minimised is the sum over losses of (sum over all ranks and micro-batches) / max(count, 1),
        with `counts` by loss name: the global sums of their weights. `rate_factor` scales the peak rates. A skipped
        step changes neither weights nor the optimiser's state and counter.
        """
        if not batches:
            raise ValueError("a step needs at least one micro-batch on every rank, but got none")
        for group, peak in zip(self._engine.optimizer.param_groups, self._peak_rates, strict=True):
            group["lr"] = peak * rate_factor
        factors = self._factors(counts)
        stage, offloaded = self.options.stage, self.options.offload_optimizer
        if stage == 3 or offloaded:
            forget_last_step(self._engine.optimizer, stage, offloaded)
        totals: dict[str, torch.Tensor] = {}
        for number, (batch, seed) in enumerate(zip(batches, seeds, strict=True)):
            self._engine.set_gradient_accumulation_boundary(number == len(batches) - 1)
            torch.manual_seed(seed)
            objective, losses = self._engine(batch.to(self.device, non_blocking=True), factors)
            self._engine.backward(objective, scale_wrt_gas=False)
            totals = {name: totals[name] + loss if totals else loss for name, loss in losses.items()}
        if offloaded and len(batches) > 1:
            hand_over_accumulated(self._engine.optimizer, stage)
        self._update()
        return StepOutcome(totals, self._skipped)

    def gradient_norm(self) -> float:
        """Return the norm of the last step's gradient before clipping; NaN if it was not finite."""
        return self._norm

    def learning_rate(self) -> float:
        """Return the rate of the last step (of the first parameter group)."""
        return float(self._engine.optimizer.param_groups[0]["lr"])

    def loss_scale(self) -> float | None:
        """Return the factor on the next step's loss; None if the loss is not scaled."""
        return None if self._scale is None else self._scale.factor

    @torch.no_grad()
    def evaluate(self, batch: ModelBatch) -> dict[str, torch.Tensor]:
        """Return the summed losses of a batch by name, without dropout: scalars on the device."""
        self._engine.eval()
        try:
            return cast(dict[str, torch.Tensor], self._engine(batch.to(self.device, non_blocking=True))[1])
        finally:
            self._engine.train()

    @contextlib.contextmanager
    def whole_model(self) -> Iterator[nn.Module]:
        """The model in evaluation mode, with all of its weights on every rank, to be read: for what is no forward pass.

        A collective call, of which every rank must leave the context.
        """
        self._engine.eval()
        try:
            if self.options.stage == 3:
                zero = import_deepspeed().zero
                with zero.GatheredParameters(list(self.model.parameters())):
                    yield self.model
            else:
                yield self.model
        finally:
            self._engine.train()

    def full_state(self) -> FullState:
        """Gather weights and optimiser state, parameter by parameter (and the loss scale, under no parameter)."""
        state = self._state.gather(self.ranks.is_main)
        if self._scale is not None and self.ranks.is_main:
            state.optimizer[_SCALE] = torch.tensor(self._scale.factor, dtype=torch.float64)
            state.optimizer[_CLEAN_STEPS] = torch.tensor(self._scale.clean_steps, dtype=torch.float64)
        return state

    def load_optimizer_state(self, state: FullState) -> None:
        """Set the optimiser's state, which must be given in full on every rank; weights are set before the engine.

        Raises InputError if it is the state of another optimiser or model.
        """
        own = {key: value for key, value in state.optimizer.items() if key not in (_SCALE, _CLEAN_STEPS)}
        self._state.load(FullState({}, own, state.updates))
        if self._scale is not None and _SCALE in state.optimizer:
            self._scale.restore(float(state.optimizer[_SCALE]), int(state.optimizer[_CLEAN_STEPS]))

    def close(self) -> None:
        """Free what DeepSpeed holds."""
        self._engine.destroy()

    def _factors(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Return what each loss is multiplied by. DeepSpeed averages over ranks, whatever they hold: undone here."""
        scale = 1.0
        if self._scale is not None:
            if self.options.stage > 0:
                self._engine.optimizer.override_loss_scale(self._scale.factor)  # multiplied by DeepSpeed itself
            else:
                scale = self._scale.factor
        return {name: scale * self.ranks.world_size / max(count, 1.0) for name, count in counts.items()}

    def _update(self) -> None:
        """Update weights and optimiser, unless the gradient says otherwise; sets `_norm` and `_skipped`."""
        if self.options.stage == 0:
            self._update_whole()
        else:
            self._engine.step()
            if self._engine.was_step_applied() != (self._skipped is None):
                raise RuntimeError(f"DeepSpeed's step was to be skipped: {self._skipped}, but it did otherwise")
        if self._scale is not None:
            self._scale.update(finite=self._skipped != NON_FINITE)

    def _update_whole(self) -> None:
        parameters = [parameter for parameter in self.model.parameters() if parameter.grad is not None]
        gradients = [cast(torch.Tensor, parameter.grad) for parameter in parameters]
        if self._scale is not None:
            torch._foreach_mul_(gradients, 1.0 / self._scale.factor)
        norm = nn.utils.get_total_norm(gradients)
        if self._may_update(norm):
            if self._clipping > 0:
                nn.utils.clip_grads_with_norm_(parameters, self._clipping, norm)
            self._engine.step()
        else:
            self._engine.zero_grad()

    def _judge_inside(self, wrapped: Any) -> None:
        """Have the norm judged where DeepSpeed computes it, between reduction and update.

        DeepSpeed skips an update whose norm is not finite, at stages 1 to 3 and in fp32 too, and clears what the
        gradient left behind; so a norm that is refused becomes infinite there.
        """
        name = "_get_norm_groups" if self.options.stage == 3 else "scaled_global_norm"
        compute = getattr(wrapped, name)

        def judged() -> Any:
            found = compute()
            parts = found if isinstance(found, list) else [found]
            stacked = torch.stack([torch.as_tensor(part, dtype=torch.float32).to(self.device) for part in parts])
            # A part that is not finite arrives as -1.
            norm = torch.where((stacked < 0).any(), math.nan, torch.linalg.vector_norm(stacked))
            if self._may_update(norm / wrapped.loss_scale):
                return found
            refused = torch.full_like(torch.as_tensor(parts[0], dtype=torch.float32), math.inf)
            return [refused] if isinstance(found, list) else refused

        setattr(wrapped, name, judged)

    def _may_update(self, norm: torch.Tensor) -> bool:
        """Decide by a norm that need not be to the bit the same on all ranks: rank 0's counts. Waits for the device."""
        if self.ranks.world_size > 1:
            dist.broadcast(norm, src=0)
        self._norm = float(norm)
        if not math.isfinite(self._norm):
            self._norm, self._skipped = math.nan, NON_FINITE
        else:
            self._skipped = self._judge(self._norm) if self._judge is not None else None
        return self._skipped is None


def _checkpoint_activations(model: nn.Module) -> None:
    able = [module for module in model.modules() if hasattr(module, "activation_checkpointing")]
    if not able:
        raise InputError(
            f"deepspeed.activation_checkpointing=true needs a model that can recompute activations, but "
            f"{type(model).__name__} has no module that does: set it to false."
        )
    for module in able:
        module.activation_checkpointing = True  # type: ignore[assignment]


def _require_compiler(device_type: str) -> None:
    """Raise InputError if torch.compile would fail later for want of a compiler."""
    from torch.utils._triton import has_triton

    if device_type == "cuda":
        if not has_triton():
            raise InputError("deepspeed.compile needs Triton on CUDA, but it cannot be imported: set it to false.")
        return
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError) as error:
        raise InputError(
            "deepspeed.compile=true needs a C++ compiler on a CPU, but none was found on PATH: install g++, or set it "
            "to false."
        ) from error
