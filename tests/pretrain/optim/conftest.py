"""A small model, gradients that are the same for everyone, and a run of an optimiser over them."""

import numpy as np
import pytest
import torch

SHAPES = {"0.weight": (6, 5), "0.bias": (6,), "1.weight": (6,), "1.bias": (6,)}
DECAYED = {"0.weight"}
STEPS = 12


def small_model():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.LayerNorm(6)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture
def initial():
    return {name: p.detach().numpy().copy() for name, p in small_model().named_parameters()}


@pytest.fixture
def gradients():
    """One dict of gradients a step; in the middle they grow 30-fold, as a loss spike makes them."""
    rng = np.random.default_rng(0)
    return [
        {name: rng.normal(size=shape) * (30.0 if step == 7 else 1.0) for name, shape in SHAPES.items()}
        for step in range(STEPS)
    ]


@pytest.fixture
def train(gradients):
    """Run an optimiser made from the model over the gradients; `factors` scale its peak rates. Weights after each."""

    def run(make, factors=(1.0,) * STEPS):
        model = small_model()
        optimizer = make(model)
        peaks = [group["lr"] for group in optimizer.param_groups]
        history = []
        for step, factor in enumerate(factors):
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * factor
            for name, parameter in model.named_parameters():
                parameter.grad = torch.from_numpy(gradients[step][name].copy())
            optimizer.step()
            history.append({name: p.detach().numpy().copy() for name, p in model.named_parameters()})
        return history

    return run


@pytest.fixture
def reference(initial, gradients):
    """The same run by a formula: `update(weight, gradient, state, step, rate, decay) -> weight`, in numpy."""

    def run(update, lr, weight_decay, factors=(1.0,) * STEPS):
        weights = {name: value.copy() for name, value in initial.items()}
        states = {name: {"m": np.zeros(shape), "v": np.zeros(shape)} for name, shape in SHAPES.items()}
        history = []
        for step, factor in enumerate(factors, start=1):
            for name, weight in weights.items():
                decay = weight_decay if name in DECAYED else 0.0
                weights[name] = update(weight, gradients[step - 1][name], states[name], step, lr * factor, decay)
            history.append(dict(weights))
        return history

    return run


@pytest.fixture
def assert_same():
    def check(ours, expected):
        assert len(ours) == len(expected)
        for step, (mine, theirs) in enumerate(zip(ours, expected, strict=True)):
            for name in SHAPES:
                np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-11, err_msg=f"{name} after update {step}")

    return check
