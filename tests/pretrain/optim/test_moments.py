import copy

import pytest
import torch

from pretrain.optim.adabound import adabound
from pretrain.optim.adamw import adamw
from pretrain.optim.lamb import lamb
from pretrain.optim.stable_adamw import stable_adamw

OURS = [lambda model, **options: adamw(model, **options, bias_correction=False), lamb, stable_adamw, adabound]
OPTIONS = {"lr": 0.01, "betas": [0.9, 0.98]}


@pytest.mark.parametrize("make", OURS)
def test_a_parameter_without_a_gradient_stays_and_starts_its_own_count_later(make):
    model = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(2))
    alone = copy.deepcopy(model[1])
    optimizer, optimizer_of_one = make(model, **OPTIONS), make(alone, **OPTIONS)
    before = model[1].weight.detach().clone()
    for step in range(4):
        optimizer.zero_grad(set_to_none=True)
        optimizer_of_one.zero_grad(set_to_none=True)
        (model[0](torch.ones(1, 2)).sum() + (0 if step < 2 else model[1](torch.ones(1, 2)).square().sum())).backward()
        optimizer.step()
        if step < 2:
            assert torch.equal(model[1].weight, before) and model[1].weight not in optimizer.state
        else:
            alone(torch.ones(1, 2)).square().sum().backward()
            optimizer_of_one.step()
            assert torch.equal(model[1].weight, alone.weight)


@pytest.mark.parametrize("make", OURS)
def test_saved_state_continues_to_the_bit(make):
    def run(model, optimizer, steps):
        for step in steps:
            optimizer.zero_grad()
            (model(torch.full((1, 3), 1.0 + step)) ** 2).sum().backward()
            optimizer.step()

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = make(model, **OPTIONS)
    run(model, optimizer, range(3))
    resumed = copy.deepcopy(model)
    resumed_optimizer = make(resumed, **OPTIONS)
    resumed_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    run(model, optimizer, range(3, 6))
    run(resumed, resumed_optimizer, range(3, 6))
    assert torch.equal(model.weight, resumed.weight)


@pytest.mark.parametrize("make", OURS)
def test_a_closure_is_called_with_gradients_on_and_its_loss_returned(make):
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = make(model, **OPTIONS)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(1, 1)).sum()
        loss.backward()
        return loss

    before = model.weight.detach().clone()
    loss = optimizer.step(closure)
    assert loss == before.sum() and not torch.equal(model.weight, before)
