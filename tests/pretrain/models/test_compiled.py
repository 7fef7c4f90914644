"""torch.compile takes the whole model as one graph, whatever the batch holds, and it gives the same results."""

from dataclasses import replace

import pytest
import torch

from pretrain.data.batching import pad_sequences

TARGETS = torch.tensor([1, 6])


@pytest.mark.parametrize("form", ["bert", "modern_local"])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
def test_the_model_is_one_graph(forms, build, form, recompute, kernel):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = build(replace(forms[form], attention_kernel=kernel)).train()
    model.encoder.activation_checkpointing = recompute
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for token in (21, 22, 23):
        batch = (*pad_sequences([[2, 11, 12, 13, 3], [2, token, 3]], 0)[:3], TARGETS)
        results = [function(*batch) for function in (compiled, model)]
        torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)
        gradients = [torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in results]
        torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
