"""What the ranks of the engine's tests run: a toy model with two losses, bad batches, and optimisers of all kinds."""

import importlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group
from pretrain.engine import TrainingEngine
from pretrain.engine_state import FullState

FEATURES = 6


@dataclass(frozen=True)
class Points:
    """A toy batch: `inputs` [N, FEATURES], `weights` [N]."""

    inputs: torch.Tensor
    weights: torch.Tensor

    def to(self, device: torch.device, non_blocking: bool = False) -> "Points":
        return Points(self.inputs.to(device), self.weights.to(device))

    def for_compiled_code(self) -> None:
        """All its shapes stay as they are."""


def points(seed: int, count: int = 4) -> Points:
    generator = torch.Generator().manual_seed(seed)
    return Points(torch.randn(count, FEATURES, generator=generator), torch.rand(count, generator=generator))


class Toy(nn.Module):
    """Matrices and vectors, so that there are two parameter groups, of sizes no number of ranks divides."""

    activation_checkpointing = False

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(FEATURES, 7), nn.Linear(7, 5)
        self.calls = 0

    def hidden(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.first(inputs).tanh()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.activation_checkpointing:
            hidden = torch.utils.checkpoint.checkpoint(self.hidden, inputs, use_reentrant=False)
        else:
            hidden = self.hidden(inputs)
        return self.second(hidden)


def toy_loss(model: nn.Module, batch: Points) -> dict[str, torch.Tensor]:
    # A weight used outside of its module, as a tied output matrix is: stage 3 must gather it for that.
    outputs = model(batch.inputs).float() + 0.1 * model.first.weight.sum()
    return {
        "square": (batch.weights * (outputs - 1).square().sum(1)).sum(),
        "length": (batch.weights * outputs.abs().sum(1)).sum(),
    }


def groups(model: nn.Module) -> list[dict[str, Any]]:
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.01},
        {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
    ]


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups(model), lr=1e-2)


def toy_engine(
    group: Group,
    options: dict[str, Any],
    optimizer: Any = adam,
    *,
    weights: dict[str, torch.Tensor] | None = None,
    **more: Any,
) -> TrainingEngine:
    model = Toy()
    if weights:
        model.load_state_dict(weights)
    return TrainingEngine(
        model,
        toy_loss,
        optimizer(model),
        DeepSpeedOptions(**{"precision": "fp32", **options}),
        group.ranks,
        micro_batch_size=4,
        **{"gradient_clipping": 0.5, **more},
    )


def step(group: Group, engine: TrainingEngine, number: int, accumulation: int, damage: float | None = None) -> Any:
    """One step on batches of its own; `damage` replaces one weight of the last rank's first micro-batch."""
    rank, world = group.ranks.rank, group.ranks.world_size
    batches = [points(1000 * number + 10 * micro + rank) for micro in range(accumulation)]
    if damage is not None and rank == world - 1:
        batches[0].weights[1] = damage
    (count,) = group.sum([float(sum(batch.weights.nan_to_num(0, 0, 0).sum() for batch in batches))])
    return engine.train_step(
        batches, counts={"square": count, "length": 2 * count}, rate_factor=1.0, seeds=[number] * accumulation
    )


def same(one: FullState, other: FullState) -> bool:
    """Whether two states are the same to the bit (trivially so off rank 0, where they are empty)."""
    return one.updates == other.updates and all(
        ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
        for ours, theirs in ((one.weights, other.weights), (one.optimizer, other.optimizer))
    )


class RefuseOnce:
    """A judge that refuses its third question."""

    def __init__(self) -> None:
        self.norms: list[float] = []

    def __call__(self, norm: float) -> str | None:
        self.norms.append(norm)
        return "refused by the test" if len(self.norms) == 3 else None


def run_all(group: Group, calls: dict[Any, tuple[str, dict[str, Any]]]) -> dict[Any, Any]:
    """Run several functions in one start of the ranks, for a start costs more than most of them.

    A call is ("module:function", its arguments).
    """
    results = {}
    for name, (function, arguments) in calls.items():
        module, _, attribute = function.partition(":")
        results[name] = getattr(importlib.import_module(f"tests.integration.{module}"), attribute)(group, **arguments)
    return results


def skipped_steps(group: Group, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each case a run of good, good, bad, good, good steps, beside one that never sees the bad batch."""
    results = []
    for case in cases:
        accumulation, kind = case["accumulation"], case["kind"]
        judge = RefuseOnce() if kind == "judge" else None
        damage = {"nan": float("nan"), "inf": float("inf"), "judge": None}[kind]
        engine = toy_engine(group, case["options"], judge=judge)
        good = [step(group, engine, number, accumulation) for number in (0, 1)]
        before = engine.full_state()
        bad = step(group, engine, 9, accumulation, damage)
        norm_of_bad = engine.gradient_norm()
        after = engine.full_state()
        good += [step(group, engine, number, accumulation) for number in (2, 3)]
        norm, last = engine.gradient_norm(), engine.full_state()
        engine.close()

        other = toy_engine(group, case["options"])
        expected = [step(group, other, number, accumulation) for number in range(4)]
        results.append(
            {
                "skipped": bad.skipped,
                "norm of bad": norm_of_bad,
                "unchanged": same(before, after),
                "good": [outcome.skipped for outcome in good],
                "losses": [
                    torch.equal(ours.losses[name], theirs.losses[name])
                    for ours, theirs in zip(good, expected, strict=True)
                    for name in theirs.losses
                ],
                "norms": (norm, other.gradient_norm()),
                "as if never seen": same(last, other.full_state()),
                "updates": last.updates,
            }
        )
        other.close()
    return results


def growing_batches(group: Group, stages: list[int]) -> list[dict[str, Any]]:
    """Steps of 1, 3, 2 and 1 micro-batches in one run: norms, losses and the weights at the end."""
    results = []
    for stage in stages:
        engine = toy_engine(group, {"stage": stage})
        figures = []
        for number, accumulation in enumerate((1, 3, 2, 1)):
            outcome = step(group, engine, number, accumulation)
            losses = group.sum([float(loss) for loss in outcome.losses.values()])
            figures.append([engine.gradient_norm(), *losses])
        results.append({"figures": figures, "weights": engine.full_state().weights})
        engine.close()
    return results


def plain_growing_batches(world: int) -> dict[str, Any]:
    """The same in a plain loop on one process."""
    model = Toy()
    optimizer = adam(model)
    figures = []
    for number, accumulation in enumerate((1, 3, 2, 1)):
        batches = [points(1000 * number + 10 * micro + rank) for micro in range(accumulation) for rank in range(world)]
        inputs, weights = (torch.cat([getattr(batch, name) for batch in batches]) for name in ("inputs", "weights"))
        losses = toy_loss(model, Points(inputs, weights))
        optimizer.zero_grad()
        (losses["square"] / weights.sum() + losses["length"] / (2 * weights.sum())).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        figures.append([float(norm), *(loss.item() for loss in losses.values())])
    return {"figures": figures, "weights": {name: p.detach() for name, p in model.named_parameters()}}


def loss_scaling(group: Group, stages: list[int]) -> list[dict[str, Any]]:
    """Scaled by a power of two, in fp32: as unscaled to the bit; a scale that overflows is halved until it does not."""
    results = []
    for stage in stages:
        plain = toy_engine(group, {"stage": stage})
        scaled = toy_engine(group, {"stage": stage, "loss_scaling": True})
        huge = toy_engine(
            group, {"stage": stage, "loss_scaling": True, "initial_loss_scale": 2.0**130, "loss_scale_window": 2}
        )
        reasons, number = [], 0
        while number < 4:
            outcome = step(group, huge, number, 2)
            reasons.append(outcome.skipped)
            if outcome.skipped is None:
                assert [step(group, engine, number, 2).skipped for engine in (plain, scaled)] == [None, None]
                number += 1
        states = [engine.full_state() for engine in (plain, scaled, huge)]
        kept = {name: value for name, value in states[2].optimizer.items() if name.startswith("loss_scale")}
        resumed = toy_engine(group, {"stage": stage, "loss_scaling": True})
        box = [states[2] if group.ranks.is_main else None]
        torch.distributed.broadcast_object_list(box)
        resumed.load_optimizer_state(box[0])
        for state in states:
            for name in [name for name in state.optimizer if name.startswith("loss_scale")]:
                del state.optimizer[name]
        results.append(
            {
                "reasons": reasons,
                "same": [same(states[0], state) for state in states[1:]],
                "norms": [engine.gradient_norm() for engine in (plain, scaled)],
                "scale": huge.loss_scale(),
                "kept": kept,
                "resumed": resumed.loss_scale(),
            }
        )
        for engine in (plain, scaled, huge, resumed):
            engine.close()
    return results


class Odd(torch.optim.Optimizer):
    """State of every kind: one value per element, numbers as a tensor and as Python numbers, and a counter."""

    def __init__(self, parameters: Any, lr: float = 0.01) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": 0.0})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                slot = self.state[parameter]
                if not slot:
                    slot |= {"step": 0, "seen": 0, "product": torch.ones(()), "speed": torch.zeros_like(parameter)}
                    slot["largest"] = torch.zeros_like(parameter)
                slot["step"] += 1
                slot["seen"] += 2
                slot["product"] *= 0.7
                slot["speed"].mul_(0.9).add_(parameter.grad)
                torch.maximum(slot["largest"], parameter.grad.abs(), out=slot["largest"])
                change = slot["speed"] / (1 + slot["largest"]) * (1 - slot["product"])
                parameter.data.sub_(group["lr"] * change)


class Whole(torch.optim.Optimizer):
    """Needs whole parameters: keeps lists of matrices, one for each of a parameter's dimensions."""

    needs_whole_parameters = True

    def __init__(self, parameters: Any, lr: float = 0.01) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": 0.0})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                slot = self.state[parameter]
                if not slot:
                    slot["step"] = torch.zeros(())
                    slot["factors"] = [torch.eye(size) for size in parameter.shape]
                    slot["basis"] = {"left": torch.eye(parameter.shape[0]), "age": 0, "right": None}
                slot["step"] += 1
                slot["basis"]["age"] += 1
                for dimension, factor in enumerate(slot["factors"]):
                    unfolded = parameter.grad.movedim(dimension, 0).flatten(1) if parameter.ndim > 1 else None
                    flat = parameter.grad[:, None] if unfolded is None else unfolded
                    factor.add_(flat @ flat.T)
                scale = 1 / (1 + sum(factor.trace() for factor in slot["factors"]))
                parameter.data.sub_(group["lr"] * scale * parameter.grad)


def odd(model: nn.Module) -> torch.optim.Optimizer:
    return Odd(groups(model))


def whole(model: nn.Module) -> torch.optim.Optimizer:
    return Whole(groups(model))


def any_optimizer(group: Group, name: str, saved_by: list[dict[str, Any]], loaded_by: list[dict[str, Any]]) -> Any:
    """States of an optimiser, saved after two steps, loaded elsewhere, and one step on."""
    make = {"odd": odd, "whole": whole}[name]
    results = []
    for options in saved_by:
        source = toy_engine(group, options, make)
        for number in (0, 1):
            step(group, source, number, 2)
        box = [source.full_state()]
        torch.distributed.broadcast_object_list(box)
        saved = box[0]
        step(group, source, 2, 2)
        expected = source.full_state()
        source.close()
        for other in loaded_by:
            engine = toy_engine(group, other, make, weights=saved.weights)
            engine.load_optimizer_state(saved)
            loaded = engine.full_state()
            step(group, engine, 2, 2)
            found = engine.full_state()
            engine.close()
            worst = max(
                [float((found.weights[key] - expected.weights[key]).abs().max()) for key in expected.weights],
                default=0.0,
            )
            results.append({"same": same(saved, loaded), "worst": worst, "names": sorted(saved.optimizer)})
    return results


def compiled(group: Group, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A few steps of each case and an evaluation: norms and losses, and how many graphs were compiled for it."""
    from torch._dynamo.utils import counters

    results = []
    for options in cases:
        torch._dynamo.reset()
        counters.clear()
        engine = toy_engine(group, options)
        figures = []
        for number in range(3):
            outcome = step(group, engine, number, 2)
            figures += [engine.gradient_norm(), *(float(loss) for loss in outcome.losses.values())]
        figures += [float(loss) for loss in engine.evaluate(points(5)).values()]
        engine.close()
        results.append({"figures": figures, "graphs": counters["stats"]["unique_graphs"]})
    return results


def recomputed(group: Group, stages: list[int]) -> list[tuple[Any, int]]:
    """Whether activation checkpointing changes nothing, and how often one layer ran in a step."""
    results = []
    for stage in stages:
        states, calls = [], []
        for recompute in (False, True):
            engine = toy_engine(group, {"stage": stage, "activation_checkpointing": recompute})
            step(group, engine, 0, 2)
            calls.append(engine.model.calls)
            states.append(engine.full_state())
            engine.close()
        results.append((same(*states), calls))
    return results


def misuse(group: Group) -> list[str | None]:
    """What a step without batches and one without a loss's count say, and then a right one."""
    engine = toy_engine(group, {"stage": 1})
    told: list[str | None] = []
    for batches, counts in (([], {"square": 1.0, "length": 1.0}), ([points(0)], {"square": 1.0})):
        try:
            engine.train_step(batches, counts=counts, rate_factor=1.0, seeds=[0] * len(batches))
        except ValueError as error:
            told.append(str(error))
    told.append(step(group, engine, 0, 1).skipped)
    engine.close()
    return told
