import pytest
from hypothesis import given
from hypothesis import strategies as st

from pretrain.callbacks.throughput import Clock, Throughput, TimeLeft


def test_pauses_count_for_the_run_but_not_for_the_rate():
    time = [0.0]
    clock = Clock(earlier=100.0, now=lambda: time[0])
    throughput = Throughput(clock, tokens=50)
    time[0] = 2.0
    with clock.paused():
        time[0] = 10.0
    time[0] = 12.0
    assert clock.elapsed() == 112.0 and clock.training() == 4.0
    assert throughput.measure(450) == 100.0 and throughput.seconds == 4.0
    time[0] = 13.0
    assert throughput.measure(460) == 10.0 and throughput.seconds == 1.0


@given(total=st.floats(1, 1e9), start=st.floats(0, 0.9), now=st.floats(0.01, 1), seconds=st.floats(1, 1e6))
def test_the_time_left_is_that_of_the_rest_at_the_mean_speed_of_this_session(total, start, now, seconds):
    first, position = start * total, (start + (1 - start) * now) * total
    left = TimeLeft(total, first, 50.0).estimate(position, 50.0 + seconds)
    assert left == pytest.approx((total - position) / ((position - first) / seconds), rel=1e-6, abs=1e-6)


def test_before_the_first_progress_nothing_is_said_of_the_time_left():
    assert TimeLeft(100, 20, 7.0).estimate(20, 9.0) is None
