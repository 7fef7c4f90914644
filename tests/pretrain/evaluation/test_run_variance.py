"""Intervals over sentences and runs: by hand, by scipy, and whether they cover."""

import numpy as np
import pytest
from scipy.stats import t, ttest_ind

from pretrain.evaluation.run_variance import difference_over_runs, score_over_runs
from pretrain.evaluation.translation_metrics import Difference

FIRST = Difference(20.0, 23.0, 1.0, 5.0, 0.01, "signed")


def test_one_run_keeps_its_own_interval():
    assert score_over_runs([20.0], 18.5, 21.0) == (kept := score_over_runs([20.0], 18.5, 21.0))
    assert (kept.value, kept.low, kept.high) == (20.0, 18.5, 21.0)
    assert difference_over_runs([20.0], [23.0], FIRST) is FIRST


def test_runs_that_agree_leave_the_variance_over_sentences():
    found = score_over_runs([20.0, 20.0, 20.0], 18.0, 22.0)
    assert (found.low, found.high) == (pytest.approx(18.0), pytest.approx(22.0))
    gain = difference_over_runs([20.0, 20.0], [23.0, 23.0], FIRST)
    assert (gain.low, gain.high) == (pytest.approx(1.0), pytest.approx(5.0))
    # z = 3 / (2 / 1.959964) = 2.939946, two-sided
    assert gain.p_value == pytest.approx(0.0032827, rel=1e-4)


def test_without_variance_over_sentences_it_is_the_t_interval_and_welchs_test():
    values = [20.0, 23.0, 24.5]
    found = score_over_runs(values, 20.0, 20.0)
    low, high = t.interval(0.95, 2, np.mean(values), np.std(values, ddof=1) / 3**0.5)
    assert (found.value, found.low, found.high) == pytest.approx((22.5, low, high))
    before, after = [20.0, 21.0, 19.5], [23.0, 25.0]
    gain = difference_over_runs(before, after, Difference(20.0, 23.0, 3.0, 3.0, 0.01, "signed"))
    oracle = ttest_ind(after, before, equal_var=False)
    assert gain.p_value == pytest.approx(oracle.pvalue)
    interval = oracle.confidence_interval(0.95)
    assert (gain.low, gain.high) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert gain.signature == "signed|seeds:3+2" and gain.value == pytest.approx(24.0 - np.mean(before))


def test_both_variances_add_up_by_hand():
    # between runs (2^2 / 2) / 2 = 1; over sentences (1.959964 / 1.959964)^2 = 1; df = (1 + 1)^2 / (1^2 / 1) = 4
    found = score_over_runs([49.0, 51.0], 50 - 1.9599640, 50 + 1.9599640)
    assert found.high - 50 == pytest.approx(2.7764451 * 2**0.5, rel=1e-6)
    assert 50 - found.low == pytest.approx(2.7764451 * 2**0.5, rel=1e-6)


def test_scores_stay_between_0_and_100_and_equal_systems_do_not_differ():
    wide = score_over_runs([1.0, 99.0], 0.0, 2.0)
    assert (wide.low, wide.high) == (0.0, 100.0)
    same = difference_over_runs([20.0, 20.0], [20.0, 20.0], Difference(20.0, 20.0, 0.0, 0.0, 1.0, "signed"))
    assert (same.p_value, same.low, same.high) == (1.0, 0.0, 0.0)
