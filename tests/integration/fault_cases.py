"""What the ranks of `test_deepspeed_faults` run."""

import os
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import nn

from pretrain.deepspeed_options import DeepSpeedOptions
from pretrain.distributed import Group, import_deepspeed
from pretrain.engine import TrainingEngine
from pretrain.engine_state import FullState
from pretrain.ranks import Ranks
from tests.integration.engine_cases import FEATURES, Points, Toy, adam, points, step, toy_engine, toy_loss


def first_updates(group: Group) -> dict[str, Any]:
    """The state after one step in bf16 at stages 0 and 1, and what DeepSpeed's own bf16 mode has before any step."""
    states = []
    for stage in (0, 1):
        engine = toy_engine(group, {"stage": stage, "precision": "bf16"})
        step(group, engine, 0, 1)
        states.append(engine.full_state())
        engine.close()
    model = Toy()
    own, *_ = import_deepspeed().initialize(
        model=model,
        optimizer=adam(model),
        config={"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 0}},
    )
    counters = [float(slot["step"]) for slot in own.optimizer.optimizer.state.values() if "step" in slot]
    own.destroy()
    return {"states": states, "deepspeed starts at": max(counters, default=0.0)}


def misspelt_key(group: Group) -> bool:
    """Whether DeepSpeed builds an engine from a configuration with a misspelt key."""
    model = Toy()
    engine, *_ = import_deepspeed().initialize(
        model=model, optimizer=adam(model), config={"train_micro_batch_size_per_gpu": 1, "gradient_cliping": 0.25}
    )
    clipping = engine.gradient_clipping()
    engine.destroy()
    return bool(clipping != 0.25)


def options_of_omegaconf(group: Group) -> bool:
    """A step with options that are OmegaConf's containers."""
    node = OmegaConf.create({"zero": {"overlap_comm": False}, "other": {"comms_logger": {"enabled": False}}})
    engine = toy_engine(group, {"stage": 1, "zero": node.zero, "other": node.other})
    skipped = step(group, engine, 0, 1).skipped
    engine.close()
    return skipped is None


def norms(group: Group, layouts: list[dict[str, Any]]) -> list[float]:
    """The gradient's norm of one step, in each layout."""
    found = []
    for options in layouts:
        engine = toy_engine(group, options)
        step(group, engine, 0, 2)
        found.append(engine.gradient_norm())
        engine.close()
    return found


def uneven_batch(rank: int, micro: int) -> Points:
    """Weights of 1 on 1 to 3 points on rank 0; on rank 1 none at all in the second micro-batch."""
    batch = points(10 * micro + rank)
    used = [[1, 3], [2, 0]][rank][micro]
    batch.weights.copy_((torch.arange(len(batch.weights)) < used).float())
    return batch


def unequal_counts(group: Group, stages: list[int]) -> list[dict[str, torch.Tensor]]:
    """First moments (one minus beta times the gradient) after a step on batches of very unequal counts."""
    results = []
    for stage in stages:
        engine = toy_engine(group, {"stage": stage}, gradient_clipping=0.0)
        batches = [uneven_batch(group.ranks.rank, micro) for micro in (0, 1)]
        engine.train_step(batches, counts={"square": 6.0, "length": 6.0}, rate_factor=1.0, seeds=[0, 0])
        state = engine.full_state()
        results.append({k.removeprefix("exp_avg/"): v for k, v in state.optimizer.items() if k.startswith("exp_avg/")})
        engine.close()
    return results


def plain_unequal_counts() -> dict[str, torch.Tensor]:
    model = Toy()
    batches = [uneven_batch(rank, micro) for rank in (0, 1) for micro in (0, 1)]
    inputs, weights = (torch.cat([getattr(batch, name) for batch in batches]) for name in ("inputs", "weights"))
    losses = toy_loss(model, Points(inputs, weights))
    ((losses["square"] + losses["length"]) / 6).backward()
    return {name: 0.1 * parameter.grad for name, parameter in model.named_parameters()}


def save(group: Group, options: dict[str, Any]) -> FullState:
    engine = toy_engine(group, options)
    for number in range(2):
        step(group, engine, number, 1)
    state = engine.full_state()
    engine.close()
    return state


def load(group: Group, options: dict[str, Any], state: FullState) -> FullState:
    engine = toy_engine(group, options, weights=state.weights)
    engine.load_optimizer_state(state)
    loaded = engine.full_state()
    engine.close()
    return loaded


def two_groups_in_one_process() -> list[float]:
    """Two runs, one after the other, as `multirun` or a test makes them. Called without a group."""
    found = []
    for _ in range(2):
        group = Group(Ranks(0, 1, 0, 1), timeout_seconds=30.0)
        found.append(norms(group, [{"stage": 1}])[0])
        group.close()
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name, None)
    return found


def untested_optimizer(group: Group, stages: list[int]) -> list[bool]:
    """Whether an optimiser that DeepSpeed does not know makes its updates at each stage."""

    class Signs(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.01})

        def step(self, closure: Any = None) -> None:
            for one in self.param_groups:
                for parameter in one["params"]:
                    if parameter.grad is not None:
                        parameter.data.sub_(one["lr"] * parameter.grad.sign())

    results = []
    for stage in stages:
        before = {name: value.clone() for name, value in Toy().state_dict().items()}
        model: nn.Module = Toy()
        engine = TrainingEngine(
            model,
            toy_loss,
            Signs(model.parameters()),
            DeepSpeedOptions(stage=stage, precision="fp32"),
            group.ranks,
            micro_batch_size=4,
            gradient_clipping=0.0,
        )
        step(group, engine, 0, 1)
        after = engine.full_state().weights
        results.append(all(abs(float((after[k] - before[k]).abs().max()) - 0.01) < 1e-6 for k in after))
        engine.close()
    return results


class Halves(nn.Module):
    """`side` is used by every other batch only, `never` by none, `frozen` is not trained."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.main, self.side, self.never = (nn.Linear(FEATURES, 5, bias=False) for _ in range(3))
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)

    def forward(self, inputs: torch.Tensor, with_side: bool) -> torch.Tensor:
        outputs = self.main(inputs) * self.frozen
        return outputs + self.side(inputs) if with_side else outputs


def halves_loss(model: nn.Module, batch: Points) -> dict[str, torch.Tensor]:
    outputs = model(batch.inputs, bool(batch.inputs[0, 0] > 0))
    return {"square": (batch.weights * (outputs - 1).square().sum(1)).sum()}


def signed_points(seed: int, sign: float) -> Points:
    batch = points(seed)
    batch.inputs[0, 0] = batch.inputs[0, 0].abs() * sign
    return batch


USES = [[1, -1], [-1, -1], [-1, 1], [1, 1], [-1, -1]]  # by step and micro-batch, on all ranks alike


def partly_used(group: Group, cases: list[dict[str, Any]]) -> list[dict[str, torch.Tensor]]:
    """The weights after steps of which some use a part of the model only."""
    results = []
    for options in cases:
        model = Halves()
        engine = TrainingEngine(
            model,
            halves_loss,
            torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.0),
            DeepSpeedOptions(**{"precision": "fp32", **options}),
            group.ranks,
            micro_batch_size=4,
            gradient_clipping=0.0,
        )
        for number, signs in enumerate(USES):
            batches = [signed_points(10 * number + 2 * k + group.ranks.rank, s) for k, s in enumerate(signs)]
            (count,) = group.sum([float(sum(batch.weights.sum() for batch in batches))])
            engine.train_step(batches, counts={"square": count}, rate_factor=1.0, seeds=[0, 0])
        results.append(engine.full_state().weights)
        engine.close()
    return results


def plain_partly_used(world: int) -> dict[str, torch.Tensor]:
    """The same in a plain loop; a parameter without a gradient counts as one with a zero gradient."""
    model = Halves()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.0)
    for number, signs in enumerate(USES):
        optimizer.zero_grad()
        batches = [signed_points(10 * number + 2 * k + rank, s) for k, s in enumerate(signs) for rank in range(world)]
        count = sum(batch.weights.sum() for batch in batches)
        for batch in batches:
            (halves_loss(model, batch)["square"] / count).backward()
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    return {name: p.detach() for name, p in model.named_parameters()}


def everything_a_cpu_needs() -> None:
    """One step at stage 0 and one with the optimiser on the CPU, in a process that was started alone."""
    group = Group(Ranks(0, 1, 0, 1), timeout_seconds=30.0)
    norms(group, [{"stage": 0}, {"stage": 2, "offload_optimizer": True}])
    group.close()


if __name__ == "__main__":
    everything_a_cpu_needs()
