"""State at stage 0, where the wrapped optimiser is torch's own; the other stages are in tests/integration."""

import copy

import pytest
import torch

from conf.errors import InputError
from pretrain.engine_state import FullState, StateOfStage, persistent_buffers
from tests.integration.engine_cases import FEATURES, Toy, groups, odd, points, toy_loss, whole


def trained(make, steps=2, model=None):
    model = Toy() if model is None else model
    optimizer = make(model)
    for number in range(steps):
        optimizer.zero_grad()
        toy_loss(model, points(number))["square"].backward()
        optimizer.step()
    return model, optimizer


def adamw(model):
    return torch.optim.AdamW(groups(model), amsgrad=True)


def sgd(model):
    return torch.optim.SGD(groups(model), lr=0.1, momentum=0.9)


def nadam(model):
    return torch.optim.NAdam(groups(model), lr=0.1)


@pytest.mark.parametrize("make", [adamw, sgd, nadam, odd, whole])
def test_state_comes_back_to_the_bit_in_a_fresh_optimizer(make):
    model, optimizer = trained(make)
    state = StateOfStage(model, optimizer, 0).gather(keep=True)
    weights = copy.deepcopy(model.state_dict())
    fresh = Toy()
    fresh.load_state_dict(weights)
    again = make(fresh)
    StateOfStage(fresh, again, 0).load(state)
    assert all(torch.equal(weights[name], value) for name, value in fresh.state_dict().items())
    assert all(parameter.grad is None for parameter in fresh.parameters())
    loaded = StateOfStage(fresh, again, 0).gather(keep=True)
    assert loaded.updates == state.updates
    assert loaded.optimizer.keys() == state.optimizer.keys()
    assert all(torch.equal(loaded.optimizer[key], value) for key, value in state.optimizer.items())
    rates = [group["lr"] for group in again.param_groups]
    assert rates == [group["lr"] for group in optimizer.param_groups]


def test_keys_name_state_and_parameter_and_places_in_lists():
    model, optimizer = trained(whole)
    state = StateOfStage(model, optimizer, 0).gather(keep=True)
    assert state.updates == 2
    assert state.optimizer["factors[1]/first.weight"].shape == (FEATURES, FEATURES)
    assert state.optimizer["basis[age]/second.bias"].item() == 2.0
    assert not any(key.startswith("step/") for key in state.optimizer)


def test_other_ranks_than_the_first_keep_nothing():
    model, optimizer = trained(adamw)
    assert StateOfStage(model, optimizer, 0).gather(keep=False) == FullState({}, {}, 2)


def test_an_optimizer_without_updates_has_no_state():
    model = Toy()
    state = StateOfStage(model, adamw(model), 0).gather(keep=True)
    assert (state.optimizer, state.updates) == ({}, 0)
    assert state.weights.keys() == model.state_dict().keys()


def test_the_state_of_another_optimizer_is_refused_both_ways():
    model, optimizer = trained(adamw)
    state = StateOfStage(model, optimizer, 0).gather(keep=True)
    with pytest.raises(
        InputError, match=r"needs the state 'momentum_buffer/first.weight', but the checkpoint does not"
    ):
        StateOfStage(model, sgd(model), 0).load(state)
    fewer = torch.optim.AdamW(groups(model))
    with pytest.raises(InputError, match=r"keeps no state 'max_exp_avg_sq/.*', but the checkpoint holds it"):
        StateOfStage(model, fewer, 0).load(state)


def test_a_state_of_another_shape_is_refused_with_both_shapes():
    model, optimizer = trained(adamw)
    state = StateOfStage(model, optimizer, 0).gather(keep=True)
    state.optimizer["exp_avg/first.bias"] = torch.zeros(3)
    with pytest.raises(InputError, match=r"'exp_avg/first.bias' must have the shape \(7,\), but has \(3,\)"):
        StateOfStage(model, adamw(model), 0).load(state)


def test_a_state_that_is_no_tensor_or_number_is_named():
    model, optimizer = trained(sgd)
    optimizer.state[model.first.bias]["momentum_buffer"] = "much"
    with pytest.raises(InputError, match="'momentum_buffer' must hold tensors and numbers"):
        StateOfStage(model, optimizer, 0).gather(keep=True)


def test_weights_are_copies_on_the_host_and_low_precision_becomes_fp32():
    model, optimizer = trained(adamw)
    model.register_buffer("mean", torch.ones(3, dtype=torch.bfloat16))
    model.register_buffer("count", torch.tensor(2**60))
    state = StateOfStage(model, optimizer, 0).gather(keep=True)
    assert state.weights["mean"].dtype == torch.float32
    assert state.weights["count"].item() == 2**60
    model.first.bias.data.zero_()
    assert float(state.weights["first.bias"].abs().max()) > 0


def test_persistent_buffers_are_neither_parameters_nor_tied_names():
    model = torch.nn.Module()
    model.a = torch.nn.Linear(2, 2)
    model.b = torch.nn.Linear(2, 2)
    model.b.weight = model.a.weight
    model.register_buffer("mean", torch.zeros(3))
    model.register_buffer("scratch", torch.zeros(3), persistent=False)
    assert [name for name, _ in persistent_buffers(model)] == ["mean"]
