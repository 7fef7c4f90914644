"""Encoder-decoders train under ZeRO as by plain torch, stage 3 included, where their embedding is in pieces."""

import pytest

from tests.helpers.ranks import run_on_ranks
from tests.pretrain.models import seq2seq_cases

CASES = {
    ("bart", 0, "fp32", False): 1e-6,
    ("mbart", 2, "fp32", True): 1e-6,
    ("mbart", 3, "fp32", False): 1e-6,
    ("bart", 3, "bf16", True): 2e-3,
    ("conv", 0, "fp32", False): 1e-6,
    ("conv", 2, "fp32", True): 1e-6,
    ("conv", 3, "fp32", False): 1e-6,
    ("conv", 3, "bf16", True): 2e-3,
    ("conv_shared", 1, "fp32", False): 1e-6,
}


@pytest.fixture(scope="module")
def runs():
    found = run_on_ranks("tests.pretrain.models.seq2seq_cases:train_cases", seq2seq_cases.RANKS, cases=list(CASES))
    return dict(zip(CASES, found[0], strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: "{}-zero{}-{}-{}".format(*case))
def test_every_stage_takes_the_updates_of_plain_torch(case, runs):
    form = case[0]
    expected, start = seq2seq_cases.train_plainly(form), dict(seq2seq_cases.model_of(form).named_parameters())
    assert sum(float((expected[name] - start[name].detach()).norm()) for name in expected) > 0.05
    assert runs[case].keys() == expected.keys()
    for name, weight in expected.items():
        assert float((runs[case][name] - weight).abs().max()) < CASES[case], name
