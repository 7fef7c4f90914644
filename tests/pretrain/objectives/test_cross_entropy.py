import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pretrain.objectives import cross_entropy
from pretrain.objectives.cross_entropy import weighted_cross_entropy


def test_the_loss_is_the_weighted_sum_of_negative_log_probabilities():
    logits = torch.tensor([[0.0, np.log(3.0)], [0.0, 0.0]])
    loss = weighted_cross_entropy(logits, torch.tensor([1, 0]), torch.tensor([1.0, 2.0]))
    assert loss.item() == pytest.approx(np.log(4 / 3) + 2 * np.log(2))


@pytest.mark.parametrize("chunk", [1, 700, 1 << 18])
def test_loss_and_gradient_agree_with_torch_for_any_chunk(chunk, monkeypatch):
    monkeypatch.setattr(cross_entropy, "CHUNK_ELEMENTS", chunk)
    torch.manual_seed(0)
    labels, weights = torch.randint(0, 333, (17,)), torch.rand(17)
    ours = (3 * torch.randn(17, 333)).requires_grad_()
    theirs = ours.detach().double().requires_grad_()
    loss = weighted_cross_entropy(ours, labels, weights)
    expected = (F.cross_entropy(theirs, labels, reduction="none") * weights).sum()
    (loss * 0.25).backward()
    (expected * 0.25).backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert torch.allclose(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-9)


def test_bf16_logits_are_summed_in_fp32():
    torch.manual_seed(0)
    logits = torch.randn(50, 1000).bfloat16().requires_grad_()
    labels = torch.randint(0, 1000, (50,))
    loss = weighted_cross_entropy(logits, labels, torch.ones(50))
    expected = F.cross_entropy(logits.detach().double(), labels, reduction="sum")
    loss.backward()
    assert loss.dtype == torch.float32 and loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert logits.grad.dtype == torch.bfloat16


def test_large_logits_do_not_overflow():
    loss = weighted_cross_entropy(torch.tensor([[1e4, -1e4]]), torch.tensor([0]), torch.ones(1))
    assert loss.item() == 0.0


def test_without_targets_the_loss_is_zero_and_not_nan():
    logits = torch.randn(4, 60, requires_grad=True)
    loss = weighted_cross_entropy(logits, torch.zeros(4, dtype=torch.long), torch.zeros(4))
    loss.backward()
    assert loss.item() == 0.0 and torch.count_nonzero(logits.grad) == 0
