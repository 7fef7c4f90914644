"""Weights and optimiser state without any trace of how ZeRO split them: gathered, and put back, parameter by parameter.

A state that holds one value per element of its parameter keeps its shape through any stage and world size; a number
(a tensor of one element, or a Python number) is one per parameter here, and one per flat slice inside ZeRO. Everything
else only exists where parameters are whole, at stage 0. Must not import the engine, an objective or data.
"""

import numbers
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn

from conf.errors import InputError

_COUNTER = "step"  # the optimiser's count of updates, under this name in all of torch.optim: one number for the run
Slot = dict[str, Any]


@dataclass(frozen=True)
class FullState:
    """The whole state on the host: fp32 tensors, numbers as float64 scalars, integer tensors as they are.

    `weights` (names of the model's `state_dict`) and `optimizer` (key "<state>/<parameter>", such as
    "exp_avg/head.bias") are empty on other ranks than 0. `updates` is the optimiser's own count of updates, which bias
    corrections use.
    """

    weights: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]
    updates: int


class StateOfStage:
    """The state inside DeepSpeed's optimiser `wrapped`, which at stage 0 is the plain torch optimiser."""

    def __init__(self, model: nn.Module, wrapped: Any, stage: int) -> None:
        self._model, self._wrapped, self._stage = model, wrapped, stage
        self._names = {parameter: name for name, parameter in model.named_parameters()}

    @property
    def torch_optimizer(self) -> torch.optim.Optimizer:
        """The torch optimiser that makes the updates."""
        return cast(torch.optim.Optimizer, self._wrapped if self._stage == 0 else self._wrapped.optimizer)

    def updates(self) -> int:
        """Return the optimiser's count of updates; 0 before the first, or if it keeps none."""
        return next((int(slot[_COUNTER]) for slot in self.torch_optimizer.state.values() if _COUNTER in slot), 0)

    def gather(self, keep: bool) -> FullState:
        """Return the whole state where `keep` is true (rank 0), an empty one elsewhere. A collective call."""
        weights: dict[str, torch.Tensor] = {}
        for name, parameter in self._model.named_parameters():
            value = self._weight(parameter)
            if keep:
                weights[name] = _on_host(value)
        for name, buffer in persistent_buffers(self._model):
            if keep:
                weights[name] = _on_host(buffer)
        states: dict[str, torch.Tensor] = {}
        for key, value in self._values():
            if keep:
                states[key] = _on_host(value)
        return FullState(weights, states, self.updates())

    def load(self, state: FullState) -> None:
        """Set optimiser state and counter (not the weights) from a state that is given in full on every rank.

        Raises InputError if the state is not of this optimiser and model, or not to be had at this stage.
        """
        self._allocate()
        given = dict(state.optimizer)
        if self._stage == 0:
            self._load_whole(given)
        else:
            self._load_sharded(given)
        if given:
            raise InputError(
                f"the optimiser keeps no state '{next(iter(given))}', but the checkpoint holds it: go on with the "
                "optimiser that wrote the checkpoint, or fork from it with a fresh one."
            )
        for slot in self.torch_optimizer.state.values():
            if _COUNTER in slot:
                slot[_COUNTER] = _like(slot[_COUNTER], state.updates)

    # Weights

    def _weight(self, parameter: nn.Parameter) -> torch.Tensor:
        from deepspeed.utils import safe_get_full_fp32_param

        if self._stage == 3 and not parameter.requires_grad:  # split like the others, but in no group
            from deepspeed.runtime.zero import GatheredParameters

            with GatheredParameters([parameter]):
                return parameter.detach().clone()
        if self._stage > 0 and parameter.requires_grad:
            return cast(torch.Tensor, safe_get_full_fp32_param(parameter))
        return parameter

    # Reading the optimiser's state

    def _values(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield all state but the counter, whole; at stages 1 to 3 every rank must draw every value."""
        if self._stage == 0:
            for parameter, slot in self.torch_optimizer.state.items():
                name = self._names[cast(nn.Parameter, parameter)]
                for key in sorted(slot):
                    if key != _COUNTER:
                        yield from ((f"{path}/{name}", value) for path, value in _leaves(key, slot[key]))
            return
        from deepspeed.utils import safe_get_full_optimizer_state

        self._link()
        for flat, parameters in self._slices():
            for key, per_element in self._keys(flat):
                for parameter in parameters:
                    value = (
                        safe_get_full_optimizer_state(parameter, key)
                        if per_element
                        else _number(self.torch_optimizer.state[flat][key])
                    )
                    yield f"{key}/{self._names[parameter]}", value

    def _slices(self) -> list[tuple[torch.Tensor, list[nn.Parameter]]]:
        """Return this rank's flat slices, each with the parameters that it holds parts of."""
        wrapped = self._wrapped
        if self._stage == 3:
            return list(zip(wrapped.fp32_partitioned_groups_flat, wrapped.fp16_groups, strict=True))
        return list(zip(wrapped.single_partition_of_fp32_groups, wrapped.bit16_groups, strict=True))

    def _keys(self, flat: torch.Tensor) -> list[tuple[str, bool]]:
        """Return the names of a slice's states, in order, and whether each holds one value per element."""
        found = []
        for key, value in sorted(self.torch_optimizer.state.get(flat, {}).items()):
            per_element = torch.is_tensor(value) and value.shape == flat.shape
            if not per_element and not _is_number(value):
                raise InputError(
                    f"the state '{key}' of {type(self.torch_optimizer).__name__} holds neither one value per element "
                    f"nor one number, and ZeRO stage {self._stage} splits it by elements: use deepspeed.stage=0."
                )
            if key != _COUNTER:
                found.append((key, per_element))
        return found

    def _link(self) -> None:
        """Let stages 1 and 2 find the state of every parameter group.

        DeepSpeed 0.19 links it after it has stepped the FIRST group, when the others have none yet, and not again.
        """
        if self._stage in (1, 2) and self.torch_optimizer.state:
            self._wrapped._hp_optimizer_states_linked = False
            self._wrapped._lazy_init_hp_params_optimizer_state()

    # Setting the optimiser's state

    def _allocate(self) -> None:
        """Have the optimiser make its state, by an update at rate 0 with zero gradients that leaves the weights."""
        rates = [group["lr"] for group in self.torch_optimizer.param_groups]
        for group in self.torch_optimizer.param_groups:
            group["lr"] = 0.0
        if self._stage == 0:
            _update_without_effect([p for p in self._names if p.requires_grad], self.torch_optimizer.step)
        else:
            for number, (flat, _) in enumerate(self._slices()):
                _update_without_effect([flat], partial(self._wrapped._optimizer_step, number))
        for group, rate in zip(self.torch_optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def _load_whole(self, given: dict[str, torch.Tensor]) -> None:
        for parameter, slot in self.torch_optimizer.state.items():
            name = self._names[cast(nn.Parameter, parameter)]
            for key in sorted(slot):
                if key != _COUNTER:
                    slot[key] = _filled(slot[key], key, name, given)

    def _load_sharded(self, given: dict[str, torch.Tensor]) -> None:
        self._link()
        for flat, parameters in self._slices():
            slot = self.torch_optimizer.state[flat]
            for key, per_element in self._keys(flat):
                values = [_take(given, f"{key}/{self._names[parameter]}") for parameter in parameters]
                if per_element:
                    for parameter, value in zip(parameters, values, strict=True):
                        self._set(parameter, value.to(flat.device), key)
                elif any(float(value) != float(values[0]) for value in values):
                    raise InputError(
                        f"the state '{key}' differs between parameters in the checkpoint, and ZeRO stage {self._stage} "
                        "keeps one for all: use deepspeed.stage=0."
                    )
                else:
                    slot[key] = _like(slot[key], float(values[0]))

    def _set(self, parameter: nn.Parameter, value: torch.Tensor, key: str) -> None:
        """Put this rank's part of a whole per-element state in place."""
        from deepspeed.utils import safe_set_full_optimizer_state, safe_set_local_optimizer_state

        if self._stage < 3:
            safe_set_full_optimizer_state(parameter, value, key)
            return
        # Stage 3 pads parameters to equal parts for all ranks; DeepSpeed 0.19 forgets that where it cuts a whole state.
        parts = nn.functional.pad(value.flatten(), (0, -value.numel() % dist.get_world_size()))
        safe_set_local_optimizer_state(parameter, parts.chunk(dist.get_world_size())[dist.get_rank()], key)


def persistent_buffers(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the entries of the model's state that are not parameters (and not another name of one)."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, value in model.state_dict(keep_vars=True).items():
        if name not in parameters:
            yield name, value


def _update_without_effect(parameters: list[Any], update: Callable[[], Any]) -> None:
    """Call `update` with zero gradients, and put back weights and gradients as they were."""
    before = [(parameter.detach().clone(), parameter.grad) for parameter in parameters]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    update()
    for parameter, (weight, gradient) in zip(parameters, before, strict=True):
        parameter.data.copy_(weight)
        parameter.grad = gradient


def _take(given: dict[str, torch.Tensor], key: str) -> torch.Tensor:
    try:
        return given.pop(key)
    except KeyError:
        raise InputError(
            f"the optimiser needs the state '{key}', but the checkpoint does not hold it: go on with the optimiser "
            "that wrote the checkpoint, or fork from it with a fresh one."
        ) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) or (torch.is_tensor(value) and value.numel() == 1)


def _number(value: Any) -> torch.Tensor:
    return torch.tensor(float(value), dtype=torch.float64)


def _like(old: Any, value: float) -> Any:
    """Return `value` in the form of `old`: a tensor of its shape, type and device, or a Python number of its type."""
    return torch.full_like(old, value) if torch.is_tensor(old) else type(old)(value)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors and numbers in a state, with their places in its lists and dicts; None holds nothing."""
    if torch.is_tensor(value):
        yield path, value
    elif isinstance(value, numbers.Real):
        yield path, _number(value)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(f"{path}[{index}]", item)
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _leaves(f"{path}[{key}]", value[key])
    elif value is not None:
        raise InputError(f"the optimiser's state '{path}' must hold tensors and numbers, but holds {type(value)}.")


def _filled(old: Any, path: str, name: str, given: dict[str, torch.Tensor]) -> Any:
    """Return a state of parameter `name` built like `old` (freshly allocated), with values taken from `given`."""
    if torch.is_tensor(old):
        value = _take(given, f"{path}/{name}")
        if value.shape != old.shape:
            raise InputError(
                f"the optimiser's state '{path}/{name}' must have the shape {tuple(old.shape)}, but has "
                f"{tuple(value.shape)} in the checkpoint: go on with the optimiser and the options that wrote it."
            )
        return old.copy_(value)
    if isinstance(old, numbers.Real):
        return type(old)(_take(given, f"{path}/{name}").item())  # type: ignore[call-arg]
    if isinstance(old, list | tuple):
        return type(old)(_filled(item, f"{path}[{index}]", name, given) for index, item in enumerate(old))
    if isinstance(old, Mapping):
        return {key: _filled(old[key], f"{path}[{key}]", name, given) for key in old}
    return old


def _on_host(value: torch.Tensor) -> torch.Tensor:
    low = value.is_floating_point() and value.element_size() < 4
    return value.detach().to("cpu", torch.float32 if low else value.dtype, copy=True).contiguous()
