"""The loss of a linear output layer without the logits: equal to torch's, whatever the chunks, and small."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from pretrain.models.encoder import EncoderConfig
from pretrain.models.masked_lm import MaskedLanguageModel
from pretrain.objectives import linear_cross_entropy as module
from pretrain.objectives.linear_cross_entropy import linear_cross_entropy, output_layer

TARGETS, HIDDEN, PADDED, VOCAB = 37, 16, 384, 333


def inputs(dtype=torch.float32, targets=TARGETS):
    torch.manual_seed(0)
    states, weight, bias = torch.randn(targets, HIDDEN), 0.5 * torch.randn(PADDED, HIDDEN), torch.randn(PADDED)
    tensors = [tensor.to(dtype).requires_grad_() for tensor in (states, weight, bias)]
    return tensors, torch.randint(0, VOCAB, (targets,)), torch.rand(targets).round(decimals=1)


def reference(states, weight, bias, labels, weights):
    logits = F.linear(states, weight[:VOCAB], bias[:VOCAB])
    return (F.cross_entropy(logits, labels, reduction="none") * weights).sum()


def relative(ours, theirs):
    return float((ours.double() - theirs.double()).norm() / theirs.double().norm())


@pytest.mark.parametrize("chunk", [1, VOCAB, 5 * VOCAB, 1 << 23])
@pytest.mark.parametrize("piece", [1, 3 * VOCAB, 1 << 18])
def test_value_and_all_gradients_are_torchs_for_any_chunk(chunk, piece, monkeypatch):
    monkeypatch.setattr(module, "CPU_CHUNK_ELEMENTS", chunk)
    monkeypatch.setattr(module, "CPU_PIECE_ELEMENTS", piece)
    tensors, labels, weights = inputs()
    loss = linear_cross_entropy(*tensors, VOCAB, labels, weights)
    (0.25 * loss).backward()
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    expected = reference(*exact, labels, weights.double())
    (0.25 * expected).backward()
    assert loss.dtype == torch.float32 and loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for ours, theirs in zip(tensors, exact, strict=True):
        assert ours.grad.dtype == ours.dtype and relative(ours.grad, theirs.grad) < 1e-6
    assert not tensors[1].grad[VOCAB:].any() and not tensors[2].grad[VOCAB:].any()


@pytest.mark.parametrize("smoothing", [0.1, 0.7])
@pytest.mark.parametrize("chunk", [5 * VOCAB, 1 << 23])
def test_smoothed_labels_are_torchs(smoothing, chunk, monkeypatch):
    monkeypatch.setattr(module, "CPU_CHUNK_ELEMENTS", chunk)
    tensors, labels, weights = inputs()
    loss = linear_cross_entropy(*tensors, VOCAB, labels, weights, smoothing)
    loss.backward()
    states, weight, bias = exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    logits = F.linear(states, weight[:VOCAB], bias[:VOCAB])
    expected = (F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing) * weights.double()).sum()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for ours, theirs in zip(tensors, exact, strict=True):
        assert relative(ours.grad, theirs.grad) < 1e-6


@pytest.mark.parametrize("chunk", [2 * VOCAB, 1 << 23])
def test_under_autocast_matrices_are_bf16_and_sums_fp32(chunk, monkeypatch):
    monkeypatch.setattr(module, "CPU_CHUNK_ELEMENTS", chunk)
    tensors, labels, weights = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_cross_entropy(*tensors, VOCAB, labels, weights)
    loss.backward()
    rounded = [tensor.detach().bfloat16().double().requires_grad_() for tensor in tensors]
    expected = reference(*rounded, labels, weights.double())
    expected.backward()
    assert loss.dtype == torch.float32 and loss.item() == pytest.approx(expected.item(), rel=3e-3)
    for ours, theirs in zip(tensors, rounded, strict=True):
        assert ours.grad.dtype == torch.float32 and relative(ours.grad, theirs.grad) < 1e-2


def test_many_chunks_lose_nothing_of_a_bf16_gradient():
    """A bf16 sum of so many parts would stand still."""
    states = torch.ones(4096, 1, dtype=torch.bfloat16)
    weight = torch.zeros(2, 1, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.zeros(4096, dtype=torch.long)
    before = module.CPU_CHUNK_ELEMENTS
    module.CPU_CHUNK_ELEMENTS = 2
    try:
        linear_cross_entropy(states, weight, torch.zeros(2).bfloat16(), 2, labels, torch.ones(4096)).backward()
    finally:
        module.CPU_CHUNK_ELEMENTS = before
    assert weight.grad.flatten().tolist() == [-2048.0, 2048.0]


def test_large_logits_do_not_overflow():
    states, weight = torch.tensor([[1e4]]), torch.tensor([[1.0], [-1.0]])
    loss = linear_cross_entropy(states, weight, torch.zeros(2), 2, torch.tensor([0]), torch.ones(1))
    assert loss.item() == 0.0


def test_without_weights_loss_and_gradients_are_zero_and_not_nan():
    tensors, labels, _ = inputs()
    loss = linear_cross_entropy(*tensors, VOCAB, labels, torch.zeros(TARGETS))
    loss.backward()
    assert loss.item() == 0.0
    assert all(torch.count_nonzero(tensor.grad) == 0 for tensor in tensors)


def test_no_slots_give_no_loss():
    tensors, labels, weights = inputs(targets=0)
    loss = linear_cross_entropy(*tensors, VOCAB, labels, weights)
    loss.backward()
    assert loss.item() == 0.0 and not tensors[1].grad.any()


class LargestTensor(TorchDispatchMode):
    """Notes the number of elements of the largest tensor that any operation makes."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for part in result if isinstance(result, tuple | list) else (result,):
            if isinstance(part, torch.Tensor):
                self.elements = max(self.elements, part.untyped_storage().nbytes() // part.element_size())
        return result


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("training", [True, False])
def test_no_tensor_has_tokens_times_vocabulary(precision, training, monkeypatch):
    monkeypatch.setattr(module, "CPU_CHUNK_ELEMENTS", 20_000)
    targets, vocab = 400, 1000
    states, weight, bias = torch.randn(targets, 8), torch.randn(vocab, 8), torch.zeros(vocab)
    tensors = [tensor.requires_grad_(training) for tensor in (states, weight, bias)]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"), LargestTensor() as largest:
        loss = linear_cross_entropy(*tensors, vocab, torch.randint(0, vocab, (targets,)), torch.ones(targets))
        if training:
            loss.backward()
    assert 0 < largest.elements <= 20_000 < targets * vocab
    with LargestTensor() as whole:
        F.cross_entropy(F.linear(states, weight, bias), torch.zeros(targets, dtype=torch.long))
    assert whole.elements >= targets * vocab  # the measure sees what it is to see


def test_a_model_without_gradients_computes_none(monkeypatch):
    tensors, labels, weights = inputs()
    monkeypatch.setattr(module, "_add_product_", lambda *_: pytest.fail("made a gradient"))
    with torch.no_grad():
        loss = linear_cross_entropy(*tensors, VOCAB, labels, weights)
    assert loss.item() == pytest.approx(reference(*tensors, labels, weights).item(), rel=1e-6)


def test_the_output_layer_of_a_model_gives_its_logits_and_trains_the_tied_matrix():
    torch.manual_seed(0)
    config = EncoderConfig(hidden_size=16, num_layers=1, num_heads=2, intermediate_size=16)
    model = MaskedLanguageModel(config, 70)
    states = torch.randn(5, 16)
    weight, bias, vocab_size = output_layer(model)
    assert torch.equal(F.linear(states, weight, bias)[:, :vocab_size], model.logits(states))
    linear_cross_entropy(states, weight, bias, vocab_size, torch.zeros(5, dtype=torch.long), torch.ones(5)).backward()
    assert model.encoder.embeddings.token.weight.grad.abs().sum() > 0


def test_it_can_stand_in_a_compiled_function():
    tensors, labels, weights = inputs()

    def loss(states):
        return 2 * linear_cross_entropy(torch.tanh(states), *tensors[1:], VOCAB, labels, weights)

    expected = loss(tensors[0])
    (expected_gradient,) = torch.autograd.grad(expected, tensors[0])
    compiled = torch.compile(loss, backend="aot_eager")(tensors[0])
    (gradient,) = torch.autograd.grad(compiled, tensors[0])
    assert torch.equal(compiled, expected) and torch.allclose(gradient, expected_gradient)
