"""Documents without meaning, but with real lengths: packed rows and single pieces are the same documents."""

import numpy as np
import pytest

from benchmarks import synthetic
from pretrain.objectives import DataFacts
from pretrain.objectives.masked_lm import MaskedLM


@pytest.mark.parametrize(("kind", "mean"), [("paragraphs", 64.4), ("documents", 1986.4)])
def test_lengths_have_the_mean_that_was_measured(kind: synthetic.Kind, mean: float) -> None:
    lengths = synthetic.draw_lengths(kind, 20_000_000, np.random.default_rng(0))
    assert lengths.min() >= 1
    # Between two quantiles lengths are taken as even, which the long tail is not.
    assert 0.9 * mean < lengths.mean() < 1.35 * mean
    assert lengths.sum() >= 20_000_000


def test_rows_and_pieces_hold_the_same_tokens() -> None:
    made = synthetic.make("paragraphs", 20_000, 64)
    real = made.rows.input_ids[made.rows.segments > 0]
    assert np.array_equal(real, np.concatenate(made.sequences))
    assert max(map(len, made.sequences)) <= 64
    assert all(
        one[0] == synthetic.SPECIAL_IDS["cls"] and one[-1] == synthetic.SPECIAL_IDS["sep"] for one in made.sequences
    )
    assert (made.rows.input_ids[made.rows.segments == 0] == synthetic.SPECIAL_IDS["pad"]).all()
    assert made.fill == pytest.approx((made.rows.segments > 0).mean())


def test_batches_have_one_shape() -> None:
    made = synthetic.make("paragraphs", 20_000, 64)
    objective = MaskedLM(DataFacts(synthetic.VOCABULARY, synthetic.SPECIAL_IDS, 64))
    batches = synthetic.micro_batches(made.rows, objective, 8)
    assert len(batches) == len(made.rows.input_ids) // 8
    assert len({len(one.batch.layout.cu_seqlens) for one in batches}) == 1
    for one in batches:
        assert int(one.batch.layout.cu_seqlens[-1]) == 8 * 64
        assert one.counts["masked_lm"] == pytest.approx(0.15 * one.tokens, rel=0.1)
