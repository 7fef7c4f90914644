import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.gradient_noise import NoiseEstimate, NoiseScale, estimate_noise


@given(gradient=st.floats(0, 1e3), trace=st.floats(0, 1e3), small=st.integers(1, 100), factor=st.integers(2, 100))
def test_exact_expectations_give_back_what_they_were_made_of(gradient, trace, small, factor):
    big = small * factor
    found = estimate_noise(gradient + trace / small, small, gradient + trace / big, big)
    assert found.gradient_squared == pytest.approx(gradient, abs=1e-8)
    assert found.trace == pytest.approx(trace, rel=1e-6, abs=1e-6)


def test_the_estimates_are_unbiased_and_the_scale_is_found_on_gaussian_gradients():
    # 50 numbers, |G|^2 = 2, tr(Sigma) = 60: a scale of 30 samples. Big batches of 16 rows are made of 4 small ones.
    rng = np.random.default_rng(0)
    deviations = np.sqrt(rng.dirichlet(np.ones(50)) * 60.0)
    true = rng.normal(size=50)
    true *= np.sqrt(2.0) / np.linalg.norm(true)
    scale = NoiseScale(decay=0.9995)
    estimates = []
    for _ in range(8000):
        parts = true + rng.normal(size=(4, 4, 50)).mean(axis=1) * deviations
        small = float((parts**2).sum(axis=1).mean())
        big = float((parts.mean(axis=0) ** 2).sum())
        estimates.append(estimate_noise(small, 4, big, 16))
        scale.update(estimates[-1])
    for name, expected in (("gradient_squared", 2.0), ("trace", 60.0)):
        values = np.array([getattr(estimate, name) for estimate in estimates])
        assert abs(values.mean() - expected) < 5 * values.std() / np.sqrt(len(values))
    assert scale.value == pytest.approx(30.0, rel=0.1)


def test_the_first_steps_are_not_pulled_towards_0():
    scale = NoiseScale(decay=0.99)
    assert scale.value is None and scale.mean is None
    scale.update(NoiseEstimate(gradient_squared=2.0, trace=8.0))
    assert scale.value == pytest.approx(4.0)
    assert scale.mean.trace == pytest.approx(8.0)


def test_older_steps_weigh_less():
    scale = NoiseScale(decay=0.5)
    scale.update(NoiseEstimate(1.0, 1.0))
    scale.update(NoiseEstimate(1.0, 4.0))
    assert scale.value == pytest.approx((1.0 + 2 * 4.0) / 3)


def test_no_scale_is_told_while_noise_hides_it():
    scale = NoiseScale(decay=0.0)
    scale.update(NoiseEstimate(-0.1, 3.0))
    assert scale.value is None
    scale.update(NoiseEstimate(0.1, -3.0))
    assert scale.value is None


@pytest.mark.parametrize(("small", "big"), [(8, 8), (16, 8), (0, 8)])
def test_two_batch_sizes_are_needed(small, big):
    with pytest.raises(InputError, match="at least two ranks or two micro-batches"):
        estimate_noise(1.0, small, 1.0, big)


def test_a_decay_out_of_range_is_refused():
    with pytest.raises(InputError, match="decay"):
        NoiseScale(decay=1.0)
