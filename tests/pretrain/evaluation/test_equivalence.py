"""Two one-sided tests against scipy's one-sided t tests."""

import numpy as np
import pytest
from scipy import stats

from pretrain.evaluation.equivalence import tost, tost_welch, tost_without_spread

FIRST = [0.701, 0.712, 0.690, 0.705, 0.699]
SECOND = [0.708, 0.704, 0.695, 0.711, 0.700, 0.706]


@pytest.mark.parametrize("margin", [0.005, 0.01, 0.02])
def test_welch_is_the_larger_p_of_scipys_two_one_sided_tests(margin):
    found = tost_welch(FIRST, SECOND, margin)
    one, other = np.array(FIRST), np.array(SECOND)
    above = stats.ttest_ind(other + margin, one, equal_var=False, alternative="greater")
    below = stats.ttest_ind(other - margin, one, equal_var=False, alternative="less")
    assert found.p == pytest.approx(max(above.pvalue, below.pvalue))
    assert (found.freedom, found.margin) == (pytest.approx(above.df), margin)
    bounds = stats.ttest_ind(other, one, equal_var=False).confidence_interval(0.90)
    assert (found.low, found.high) == pytest.approx((bounds.low, bounds.high))
    assert (found.p < 0.05) == (-margin < found.low and found.high < margin)
    assert found.difference == pytest.approx(other.mean() - one.mean())


def test_a_difference_beyond_the_margin_is_never_equivalent_and_neither_is_a_wide_one():
    assert tost(0.02, 0.001, 8, 0.01) > 0.99
    assert tost(0.0, 0.1, 8, 0.01) > 0.4  # not significant, and not equal
    assert tost(0.0, 0.001, 8, 0.01) < 1e-4
    assert tost(0.005, 0.01, 8, 0.01) == pytest.approx(tost(-0.005, 0.01, 8, 0.01))


def test_runs_without_spread_are_certain():
    assert tost_welch([0.5, 0.5], [0.5, 0.5], 0.01).p == 0.0
    assert tost_welch([0.5, 0.5], [0.6, 0.6], 0.01).p == 1.0
    assert tost_welch([0.5, 0.5], [0.5, 0.5], 0.01).freedom == 2


def test_items_without_spread_prove_equality_only_when_they_are_many():
    assert tost_without_spread(0.0, 20, 0.01) == pytest.approx(stats.binom.pmf(0, 20, 0.01))
    assert tost_without_spread(0.0, 300, 0.01) < 0.05 < tost_without_spread(0.0, 298, 0.01)
    assert tost_without_spread(0.0, 20, 0.01, reach=2.0) == pytest.approx(0.995**20)
    assert tost_without_spread(0.02, 300, 0.01) == 1.0
    assert tost_without_spread(0.0, 3, 1.5) == 0.0


def test_bad_input_is_refused():
    for call in (lambda: tost(0.0, 0.1, 4, 0.0), lambda: tost(0.0, -0.1, 4, 0.1)):
        with pytest.raises(ValueError, match="margin above 0 and an error from 0"):
            call()
    with pytest.raises(ValueError, match="margin above 0"):
        tost_without_spread(0.0, 4, 0.0)
    with pytest.raises(ValueError, match="at least 2"):
        tost_welch([0.5], SECOND, 0.01)
