"""torch.compile takes the whole model as one graph, whatever the batch holds, and it gives the same results."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pretrain.data.batching import from_rows

TARGETS = torch.tensor([1, 6])
# Two rows of five tokens with 5, 4, and 6 sequences.
ROWS = [
    ([[2, 11, 3, 2, 3], [2, 21, 3, 0, 0]], [[1, 1, 1, 2, 2], [1, 1, 2, 0, 0]]),
    ([[2, 11, 12, 13, 3], [2, 22, 3, 2, 0]], [[1, 1, 1, 1, 1], [1, 1, 1, 2, 0]]),
    ([[2, 3, 2, 3, 0], [2, 3, 2, 23, 3]], [[1, 1, 2, 2, 0], [1, 1, 2, 3, 3]]),
]


@pytest.mark.parametrize("form", ["bert", "modern_local"])
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("kernel", ["sdpa", "matmul"])
def test_the_model_is_one_graph(forms, build, form, recompute, kernel):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = build(replace(forms[form], attention_kernel=kernel)).train()
    model.encoder.activation_checkpointing = recompute
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for ids, segments in ROWS:
        batch = (*from_rows(np.array(ids), np.array(segments)), TARGETS)
        batch[2].for_compiled_code()
        results = [function(*batch) for function in (compiled, model)]
        torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)
        gradients = [torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in results]
        torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
