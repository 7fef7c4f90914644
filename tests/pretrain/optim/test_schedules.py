import itertools
import math
from functools import partial

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import InputError
from pretrain.optim import schedules

TOTAL, WARMUP = 100, 10
WARMED = {
    "constant": partial(schedules.constant, warmup=WARMUP),
    "linear": partial(schedules.linear, warmup=WARMUP),
    "cosine": partial(schedules.cosine, warmup=WARMUP),
    "inverse_sqrt": partial(schedules.inverse_sqrt, warmup=WARMUP),
    "wsd": partial(schedules.wsd, warmup=WARMUP, decay=20),
}
ALL = {**WARMED, "one_cycle": schedules.one_cycle, "slanted_triangular": schedules.slanted_triangular}


def at_step(schedule, step, total=TOTAL):
    return schedule(step, 1, total)


def rates_of(make, steps):
    """What a scheduler of torch or transformers sets for each of `steps` updates, at a peak rate of 1."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimizer)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize("name", WARMED)
def test_the_first_update_uses_the_first_warmup_value_and_the_last_of_the_warmup_the_peak(name):
    schedule = WARMED[name]
    assert [at_step(schedule, step) for step in (0, 4, 9, 10)] == [0.1, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("name", WARMED)
def test_first_zero_starts_from_rate_0_and_reaches_the_peak_one_update_later(name):
    schedule = partial(WARMED[name], first="zero")
    assert [at_step(schedule, step) for step in (0, 5, 9, 10)] == [0.0, 0.5, 0.9, 1.0]


@pytest.mark.parametrize("name", ["linear", "cosine", "inverse_sqrt", "constant"])
def test_with_first_zero_every_rate_is_the_one_of_transformers(name):
    make = {
        "linear": lambda o: transformers.get_linear_schedule_with_warmup(o, WARMUP, TOTAL),
        "cosine": lambda o: transformers.get_cosine_schedule_with_warmup(o, WARMUP, TOTAL),
        "inverse_sqrt": lambda o: transformers.get_inverse_sqrt_schedule(o, WARMUP),
        "constant": lambda o: transformers.get_constant_schedule_with_warmup(o, WARMUP),
    }[name]
    schedule = partial(WARMED[name], first="zero")
    assert [at_step(schedule, step) for step in range(TOTAL)] == pytest.approx(rates_of(make, TOTAL), abs=1e-12)


def test_linear_at_exact_points():
    for step, value in {10: 1.0, 55: 0.5, 100: 0.0, 1000: 0.0}.items():
        assert at_step(WARMED["linear"], step) == pytest.approx(value, abs=1e-12)
    assert schedules.linear(55, 1, 100, warmup=10, final=0.2) == pytest.approx(0.6)


def test_linear_decay_from_the_start_is_the_rate_of_the_released_bert():
    # global_step / warmup up to the warm-up, then polynomial decay of power 1 over ALL steps (its optimization.py).
    bert = partial(schedules.linear, warmup=10_000, first="zero", decay_from="start")
    points = {0: 0.0, 1: 1e-4, 9_999: 0.9999, 10_000: 0.99, 500_000: 0.5, 999_999: 1e-6}
    for step, value in points.items():
        assert bert(step, 1, 1_000_000) == pytest.approx(value, abs=1e-12)


def test_cosine_at_exact_points():
    for step, value in {10: 1.0, 32.5: 0.5 + 0.5 * math.sqrt(0.5), 55: 0.5, 100: 0.0}.items():
        assert at_step(WARMED["cosine"], step) == pytest.approx(value, abs=1e-12)
    assert schedules.cosine(100, 1, 100, final=0.1) == pytest.approx(0.1)


def test_inverse_sqrt_halves_when_four_times_the_warmup_is_used():
    assert at_step(WARMED["inverse_sqrt"], 40) == pytest.approx(0.5)
    assert at_step(WARMED["inverse_sqrt"], 90) == pytest.approx(1 / 3)


def test_wsd_is_flat_and_then_decays_by_one_minus_sqrt_within_the_decay():
    assert [at_step(WARMED["wsd"], step) for step in (10, 50, 80)] == [1.0, 1.0, 1.0]
    assert at_step(WARMED["wsd"], 85) == pytest.approx(1 - math.sqrt(0.25))
    assert at_step(WARMED["wsd"], 100) == pytest.approx(0.0)
    assert schedules.wsd(85, 1, 100, decay=20, final=0.5) == pytest.approx(0.75)
    assert schedules.wsd(99, 1, 100, decay=0) == 1.0


@pytest.mark.parametrize(("total", "rise"), [(100, 0.3), (37, 0.3), (10, 0.5), (1000, 0.05)])
def test_one_cycle_sets_every_rate_of_torch(total, rise):
    make = partial(torch.optim.lr_scheduler.OneCycleLR, max_lr=1.0, total_steps=total, pct_start=rise)
    # The scheduler is stepped once after each rate read, and refuses a step beyond its last.
    expected = rates_of(make, total - 1)
    ours = [schedules.one_cycle(step, 1, total, rise=rise) for step in range(total - 1)]
    assert ours == pytest.approx(expected, abs=1e-12)


def test_one_cycle_at_exact_points():
    cycle = partial(schedules.one_cycle, rise=0.3, start=0.04, final=0.0)
    assert [cycle(0, 1, 100), cycle(29, 1, 100)] == pytest.approx([0.04, 1.0])
    assert cycle(14.5, 1, 100) == pytest.approx(0.52)
    assert cycle(64, 1, 100) == pytest.approx(0.5)
    assert [cycle(99, 1, 100), cycle(1000, 1, 100)] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert schedules.one_cycle(0, 1, 10) == pytest.approx(0.04) and schedules.one_cycle(9, 1, 10) == pytest.approx(4e-6)
    assert schedules.one_cycle(5, 1, 5, rise=1.0) == 1.0
    assert schedules.one_cycle(0, 1, 1) == 1.0


def test_slanted_triangular_at_the_points_of_its_formula():
    # T = 100: cut = 10; t = 5: p = 0.5; t = 55: p = 1 - 45 / 90 = 0.5; t = 100: p = 0.
    points = {0: 1 / 32, 5: 16.5 / 32, 10: 1.0, 55: 16.5 / 32, 100: 1 / 32}
    for step, value in points.items():
        assert at_step(schedules.slanted_triangular, step) == pytest.approx(value)


def test_slanted_triangular_with_fewer_than_ten_updates_only_falls():
    assert [schedules.slanted_triangular(t, 1, 4) for t in range(4)] == pytest.approx(
        [1.0, (1 + 0.75 * 31) / 32, (1 + 0.5 * 31) / 32, (1 + 0.25 * 31) / 32]
    )


def test_slanted_triangular_never_falls_below_its_lowest_rate_where_the_cut_is_rounded():
    # T = 19: cut = 1, and the paper's p would be 1 - 17 / 9 < 0 at the last update.
    assert schedules.slanted_triangular(18, 1, 19) == 1 / 32
    # 0.7 * 10 is 6.999999999999999 in floating point: the cut is 7 all the same.
    assert schedules.slanted_triangular(7, 1, 10, rise=0.7) == 1.0


def test_without_warmup_a_schedule_starts_at_the_peak():
    for schedule in (schedules.linear, schedules.cosine, schedules.constant, partial(schedules.wsd, decay=1)):
        assert schedule(0, 1, 10) == 1.0


@pytest.mark.parametrize("name", ALL)
@given(
    steps=st.integers(50, 10**6),
    where=st.floats(0, 1.2),
    unit=st.sampled_from([1.0, 4096.0, 1 / 3600]),
)
def test_a_factor_lies_between_0_and_1_and_the_first_update_is_above_0(name, steps, where, unit):
    schedule, size, total = ALL[name], unit, steps * unit
    options = {}
    if name in WARMED:
        options["warmup"] = total / 10
    if name == "wsd":
        options["decay"] = total / 5
    step = int(where * steps)
    assert 0.0 <= schedule(step * size, size, total, **options) <= 1.0
    assert schedule(0.0, size, total, **options) > 0.0


@pytest.mark.parametrize("name", ALL)
@given(step=st.integers(0, 99), unit=st.floats(1e-4, 1e6))
def test_the_unit_of_the_budget_does_not_matter(name, step, unit):
    schedule = ALL[name]
    lengths = {key: value * unit for key, value in getattr(schedule, "keywords", {}).items()}
    scaled = schedule(step * unit, unit, 100 * unit, **lengths)
    assert scaled == pytest.approx(at_step(schedule, step), abs=1e-6)


@pytest.mark.parametrize("name", ALL)
@given(total=st.integers(1000, 100_000), share=st.floats(0, 1))
def test_a_schedule_has_no_jump_at_the_borders_of_its_stages(name, total, share):
    schedule = ALL[name]
    options = {"warmup": total / 10} if name in WARMED else {}
    if name == "wsd":
        options["decay"] = total / 5
    # The steepest of them all: the first step of 1 - sqrt, sqrt(1 / decay); a line over a tenth of the budget else.
    most = math.sqrt(5 / total) if name == "wsd" else 20 / total
    for border in (total // 10, total * 3 // 10, total * 4 // 5, int(share * total)):
        around = [schedule(max(0, border + shift), 1, total, **options) for shift in (-1, 0, 1)]
        assert max(abs(a - b) for a, b in itertools.pairwise(around)) <= most + 1e-9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (partial(schedules.linear, 0, 1, 10, warmup=11), "schedule.warmup must be between 0 and the budget = 10"),
        (partial(schedules.cosine, 0, 1, 10, warmup=-1), "schedule.warmup must be"),
        (partial(schedules.constant, 0, 1, 10, warmup=math.nan), "schedule.warmup must be"),
        (partial(schedules.linear, 0, 1, 10, final=1.5), "schedule.final is a share"),
        (partial(schedules.linear, 0, 1, 10, first="cold"), "schedule.first must be 'warm' or 'zero'"),
        (partial(schedules.linear, 0, 1, 10, decay_from="end"), "schedule.decay_from must be"),
        (partial(schedules.linear, 0, 1, 0), "budget of the schedule must be above 0"),
        (partial(schedules.wsd, 0, 1, 10, warmup=5, decay=6), "schedule.decay must be between 0 and .* = 5"),
        (partial(schedules.inverse_sqrt, 0, 1, 10, warmup=0), "must be above 0"),
        (partial(schedules.one_cycle, 0, 1, 10, rise=1.1), "schedule.rise is a share"),
        (partial(schedules.one_cycle, 0, 1, 10, start=-0.1), "schedule.start is a share"),
        (partial(schedules.slanted_triangular, 0, 1, 10, rise=-0.1), "schedule.rise is a share"),
        (partial(schedules.slanted_triangular, 0, 1, 10, ratio=0.5), "schedule.ratio"),
    ],
)
def test_options_out_of_range_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
