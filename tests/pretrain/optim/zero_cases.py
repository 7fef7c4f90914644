"""What the ranks of test_zero.py run: our optimisers inside the engine."""

from typing import Any

import torch

from conf.errors import InputError
from pretrain.distributed import Group
from pretrain.optim.adabound import adabound
from pretrain.optim.adamw import adamw
from pretrain.optim.lamb import lamb
from pretrain.optim.nesterov import nesterov
from pretrain.optim.stable_adamw import stable_adamw
from tests.integration import engine_cases

MAKERS = {
    "adamw": lambda model: adamw(model, lr=1e-2, betas=[0.9, 0.98]),
    "uncorrected": lambda model: adamw(model, lr=1e-2, betas=[0.9, 0.98], bias_correction=False),
    "adabound": lambda model: adabound(model, lr=1e-2, betas=[0.9, 0.98], gamma=0.1, weight_decay=0.01),
    "nesterov": lambda model: nesterov(model, lr=1e-2, momentum=0.9, weight_decay=0.01),
    "lamb": lambda model: lamb(model, lr=1e-2, betas=[0.9, 0.98]),
    "stable_adamw": lambda model: stable_adamw(model, lr=1e-2, betas=[0.9, 0.98]),
}


def train(group: Group, cases: list[tuple[str, dict[str, Any]]], steps: int) -> list[dict[str, torch.Tensor]]:
    """The whole state after some steps, for each (optimizer, DeepSpeed options)."""
    found = []
    for name, options in cases:
        engine = engine_cases.toy_engine(group, options, MAKERS[name])
        for number in range(steps):
            engine_cases.step(group, engine, number, accumulation=2)
        state = engine.full_state()
        found.append({**state.weights, **state.optimizer})
        engine.close()
    return found


def refusals(group: Group, names: list[str], stages: list[int]) -> list[str]:
    """What the engine says to each optimizer at each stage."""
    said = []
    for name in names:
        for stage in stages:
            try:
                engine_cases.toy_engine(group, {"stage": stage}, MAKERS[name])
                said.append("")
            except InputError as error:
                said.append(str(error))
    return said
