import math

import pytest

from conf.errors import InputError
from pretrain.optim import schedules


@pytest.mark.parametrize(
    "schedule",
    [
        lambda step: schedules.constant(step, warmup_steps=10),
        lambda step: schedules.linear(step, total_steps=100, warmup_steps=10),
        lambda step: schedules.cosine(step, total_steps=100, warmup_steps=10),
        lambda step: schedules.inverse_sqrt(step, warmup_steps=10),
        lambda step: schedules.wsd(step, total_steps=100, warmup_steps=10, decay_steps=20),
    ],
)
def test_the_first_update_uses_the_first_warmup_value_and_the_last_warmup_step_the_peak(schedule):
    assert schedule(0) == 0.1
    assert schedule(4) == 0.5
    assert schedule(9) == 1.0


def test_linear_at_exact_points():
    points = {10: 1.0, 55: 0.5, 100: 0.0, 1000: 0.0}
    for step, value in points.items():
        assert schedules.linear(step, total_steps=100, warmup_steps=10) == pytest.approx(value, abs=1e-12)
    assert schedules.linear(55, total_steps=100, warmup_steps=10, final=0.2) == pytest.approx(0.6)


def test_cosine_at_exact_points():
    for step, value in {10: 1.0, 32.5: 0.5 + 0.5 * math.sqrt(0.5), 55: 0.5, 100: 0.0}.items():
        assert schedules.cosine(step, total_steps=100, warmup_steps=10) == pytest.approx(value, abs=1e-12)
    assert schedules.cosine(100, total_steps=100, final=0.1) == pytest.approx(0.1)


def test_inverse_sqrt_halves_when_four_times_the_updates_are_made():
    assert schedules.inverse_sqrt(39, warmup_steps=10) == pytest.approx(0.5)
    assert schedules.inverse_sqrt(89, warmup_steps=10) == pytest.approx(1 / 3)


def test_wsd_is_flat_and_then_decays_by_one_minus_sqrt_within_the_decay():
    at = lambda step: schedules.wsd(step, total_steps=100, warmup_steps=10, decay_steps=20)  # noqa: E731
    assert [at(10), at(50), at(80)] == [1.0, 1.0, 1.0]
    assert at(85) == pytest.approx(1 - math.sqrt(0.25))
    assert at(100) == pytest.approx(0.0)


def test_without_warmup_a_schedule_starts_at_the_peak():
    assert schedules.linear(0, total_steps=10) == 1.0
    assert schedules.constant(0) == 1.0


def test_impossible_lengths_are_named():
    with pytest.raises(InputError, match="warmup_steps must be between"):
        schedules.linear(0, total_steps=10, warmup_steps=11)
    with pytest.raises(InputError, match="decay_steps"):
        schedules.wsd(0, total_steps=10, warmup_steps=5, decay_steps=6)
    with pytest.raises(InputError, match="at least 1"):
        schedules.inverse_sqrt(0, warmup_steps=0)
