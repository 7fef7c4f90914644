"""The smallest gap that is seen: against scipy's distributions and by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pretrain.evaluation.paired_tests import mean_difference
from pretrain.evaluation.power import detectable_difference, least_one_sided, planned_difference


@pytest.mark.parametrize("freedom", [2, 4, 9, 50, 400])
def test_it_is_found_with_power_by_the_noncentral_t_distribution(freedom):
    found = detectable_difference(0.02, freedom)
    critical = stats.t.ppf(0.975, freedom)
    assert stats.nct.sf(critical, freedom, found / 0.02) == pytest.approx(0.8, abs=1e-6)


def test_for_many_items_it_is_the_sum_of_two_normal_quantiles():
    assert detectable_difference(1.0, 1e6) == pytest.approx(1.959964 + 0.841621, abs=1e-4)
    assert detectable_difference(1.0, 1e6, power=0.9, level=0.01) == pytest.approx(2.575829 + 1.281552, abs=1e-4)


def test_eight_of_ten_repetitions_find_it():
    generator = np.random.default_rng(0)
    names = [str(number) for number in range(30)]
    gap = detectable_difference(0.4 / 30**0.5, 29)
    found = sum(
        mean_difference(np.zeros(30), gap + 0.4 * generator.normal(size=30), names).p < 0.05 for _ in range(1500)
    )
    assert found / 1500 == pytest.approx(0.8, abs=0.03)


@settings(max_examples=50)
@given(n=st.integers(10, 50_000), accuracy=st.floats(0.2, 0.9), share=st.floats(0.0, 1.0))
def test_the_planned_gap_solves_connors_equation(n, accuracy, share):
    least = 1 - 2 * min(accuracy, 1 - accuracy)
    agreement = least + share * (0.98 - least)
    found = planned_difference(n, accuracy, agreement)
    apart = 1 - agreement

    def surplus(gap):
        return gap * n**0.5 - stats.norm.ppf(0.975) * apart**0.5 - stats.norm.ppf(0.8) * (apart - gap**2) ** 0.5

    if found is None:
        assert surplus(apart) < 1e-9
    else:
        assert 0 < found <= apart and surplus(found) == pytest.approx(0.0, abs=1e-8)


def test_independent_systems_of_one_accuracy_by_hand():
    # q = 2 * .7 * .3 = .42 of 1000 items: about 2.8016 * sqrt(.42 / 1000) = .0574, less what d^2 takes away.
    assert planned_difference(1000, 0.7) == pytest.approx(0.0574, abs=1e-4)
    assert planned_difference(1000, 0.7) == planned_difference(1000, 0.7, 0.58)
    assert planned_difference(1000, 0.7, 0.9) < planned_difference(1000, 0.7, 0.6)


@pytest.mark.parametrize(("n", "accuracy", "agreement"), [(1500, 0.7, None), (3000, 0.6, 0.9)])
def test_mcnemars_test_finds_the_planned_gap_in_four_of_five_sets(n, accuracy, agreement):
    gap = planned_difference(n, accuracy, agreement)
    apart = 2 * accuracy * (1 - accuracy) if agreement is None else 1 - agreement
    shares = [(apart - gap) / 2, (apart + gap) / 2, 1 - apart]
    counts = np.random.default_rng(1).multinomial(n, shares, size=4000)[:, :2]
    p = 2 * stats.binom.cdf(counts.min(axis=1), counts.sum(axis=1), 0.5)
    assert (p < 0.05).mean() == pytest.approx(0.8, abs=0.035)  # the exact test is a little shy


def test_a_set_that_is_too_small_sees_nothing():
    assert planned_difference(3, 0.5) is None
    assert planned_difference(10, 0.6, 0.9) is None  # one item apart
    assert planned_difference(1000, 1.0) is None  # none apart
    assert planned_difference(1, 0.5) is None
    assert planned_difference(5, 0.5, 0.0) == pytest.approx(0.969, abs=1e-3)  # every item won by one of the two
    assert planned_difference(1000, 0.05, 0.9) is not None and planned_difference(1000, 0.95, 0.9) is not None
    for bad in ((0, 0.5, None), (10, 1.05, 0.95), (10, -0.1, None), (10, 0.9, 0.75), (10, 0.1, 0.75), (10, 0.9, 1.05)):
        with pytest.raises(ValueError, match="agreement must lie between"):
            planned_difference(*bad)


def test_where_nothing_differs_yet_six_groups_in_one_direction_would_show():
    assert least_one_sided(5) is None
    assert least_one_sided(6) == pytest.approx(0.8 ** (1 / 6))
    assert stats.binom.sf(5, 200, least_one_sided(200)) == pytest.approx(0.8)
    assert stats.binomtest(6, 6).pvalue < 0.05 < stats.binomtest(5, 5).pvalue
    assert least_one_sided(4, level=0.2) is not None  # 2 / 2^4 is enough for 20 %
    assert least_one_sided(6, level=0.04) == least_one_sided(6) and least_one_sided(6, level=0.03) is None
