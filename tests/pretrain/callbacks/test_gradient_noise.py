import numpy as np
import pytest
import torch

from pretrain.callbacks.gradient_noise import GradientNorms
from tests.helpers.ranks import run_on_ranks

ACCUMULATION = 2


def norms(group, stages):
    """This rank's sums of squared micro-batch norms in one real step of the engine at each stage."""
    from tests.integration import parity_cases as cases

    found = []
    for stage in stages:
        engine = cases.build(group, cases.Case(stage, accumulation=ACCUMULATION))
        watched = GradientNorms(engine.model, engine.device)
        cases.take_step(group, engine, ACCUMULATION, 0)
        found.append((float(watched.take()), float(watched.take())))
        watched.close()
        engine.close()
    return found


def expected():
    """The mean over micro-batches of the squared norm of (its summed loss) times (micro-batches / targets of all)."""
    from tests.integration import parity_cases as cases

    parts = np.arange(cases.BATCH).reshape(4, -1)
    made = [cases.micro_batch(0, rows) for rows in parts]
    count = sum(part.counts["masked_lm"] for part in made)
    squares = []
    for part in made:
        model = cases.fresh_model()
        (cases.objective().loss(model, part.batch)["masked_lm"] * len(made) / count).backward()
        squares.append(sum(float(parameter.grad.norm()) ** 2 for parameter in model.parameters()))
    return float(np.mean(squares))


def test_the_norms_of_micro_batches_are_those_of_plain_backward_passes_at_every_stage():
    torch.set_num_threads(1)
    ranks = run_on_ranks("tests.pretrain.callbacks.test_gradient_noise:norms", ranks=2, stages=[0, 1, 2, 3])
    for results in zip(*ranks, strict=True):
        assert all(after == 0.0 for _, after in results)
        means = [taken * ACCUMULATION**2 / ACCUMULATION for taken, _ in results]
        assert np.mean(means) == pytest.approx(expected(), rel=1e-5)


def test_a_tied_parameter_counts_once_with_the_sum_of_its_uses():
    weight = torch.nn.Linear(2, 2, bias=False)
    watched = GradientNorms(weight, torch.device("cpu"))
    value = torch.tensor([1.0, 2.0])
    (weight(value) + weight(3 * value)).sum().backward()
    assert float(watched.take()) == pytest.approx(float(weight.weight.grad.norm()) ** 2)
    weight(value).sum().backward()  # accumulated in .grad, but one pass of its own here
    assert float(watched.take()) == pytest.approx(2 * (1 + 4))
    watched.close()
