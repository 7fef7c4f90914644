"""What a token of the whole model sees: never another document, and within its own what window and causal say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pretrain.data.batching import from_rows, pad_sequences
from pretrain.models.attention import AttentionLayout
from tests.pretrain.models.conftest import FORMS, make_model

KERNELS = ["sdpa", "matmul", "reference"]
LENGTH = 24
MODELS = {
    (form, kernel): make_model(replace(config, attention_kernel=kernel))
    for form, config in {**FORMS, "modern_causal": replace(FORMS["modern_local"], causal=True)}.items()
    for kernel in KERNELS
}


def document_numbers(cuts):
    """[LENGTH], 1 up, a new document at each cut; the last one is padding."""
    numbers = np.zeros(LENGTH, dtype=np.int32)
    numbers[sorted(set(cuts))] = 1
    return numbers.cumsum() + 1


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_changing_a_document_leaves_the_logits_of_the_others_to_the_bit(kernel, dtype, data):
    model = MODELS[data.draw(st.sampled_from([*FORMS, "modern_causal"])), kernel]
    segments = document_numbers(data.draw(st.lists(st.integers(1, LENGTH - 1), min_size=1, max_size=4)))
    changed = segments == data.draw(st.integers(1, int(segments.max())))
    ids = np.random.default_rng(0).integers(5, 75, (2, LENGTH))
    others = ids.copy()
    others[0, changed] = data.draw(st.integers(0, 74))
    everywhere = torch.arange(2 * LENGTH)
    with torch.no_grad(), torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        logits = [model(*from_rows(rows, np.stack([segments] * 2)), everywhere) for rows in (ids, others)]
    outside = ~np.concatenate([changed, np.zeros(LENGTH, dtype=bool)])
    assert torch.equal(logits[0][outside], logits[1][outside])


def seen(model, position, length=20):
    """Which tokens of one sequence have an influence on the logits at `position`."""
    input_ids, position_ids, layout, _ = pad_sequences([list(range(5, 5 + length))], 0)
    embedded = []
    hook = model.encoder.embeddings.register_forward_hook(lambda _, __, out: embedded.append(out) or out)
    logits = model(input_ids, position_ids, layout, torch.tensor([position]))
    hook.remove()
    (gradient,) = torch.autograd.grad(logits.square().sum(), embedded[0])
    return gradient.abs().sum(1).nonzero().flatten().tolist()


@pytest.mark.parametrize("kernel", KERNELS)
def test_local_layers_see_their_window_and_global_ones_everything(kernel):
    base = replace(FORMS["modern"], attention_kernel=kernel, num_layers=1)
    assert seen(make_model(base), 10) == list(range(20))
    # One global layer first would show everything: so only its local successor is asked, of what goes into it.
    model = make_model(replace(FORMS["modern_local"], attention_kernel=kernel))
    assert seen(model, 10) == list(range(20))
    layer = model.encoder.layers[1]
    hidden = torch.randn(20, 32, requires_grad=True)
    layout = AttentionLayout(torch.tensor([0, 20], dtype=torch.int32), 20, 20)
    out = layer(hidden, layout, None)[10]
    (gradient,) = torch.autograd.grad(out.sum(), hidden)
    assert gradient.abs().sum(1).nonzero().flatten().tolist() == [8, 9, 10, 11, 12]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("form", ["bert", "modern", "modern_local"])
def test_a_causal_model_sees_nothing_after_a_token(kernel, form):
    model = make_model(replace(FORMS[form], attention_kernel=kernel, causal=True))
    assert seen(model, 7) == list(range(8))


def test_the_local_layers_turn_by_their_own_base():
    ids = pad_sequences([list(range(5, 35))], 0)[:3]
    one = make_model(FORMS["modern_local"])
    other = make_model(replace(FORMS["modern_local"], local_rope_base=5.0))
    same = make_model(replace(FORMS["modern_local"], local_rope_base=FORMS["modern_local"].rope_base))
    none = make_model(replace(FORMS["modern_local"], local_rope_base=None))
    position = torch.tensor([20])
    assert not torch.allclose(one(*ids, position), other(*ids, position), atol=1e-3)
    assert torch.equal(same(*ids, position), none(*ids, position))
