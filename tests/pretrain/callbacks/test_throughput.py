from pretrain.callbacks.throughput import Clock, Throughput


def test_pauses_count_for_the_run_but_not_for_the_rate():
    time = [0.0]
    clock = Clock(earlier=100.0, now=lambda: time[0])
    throughput = Throughput(clock, tokens=50)
    time[0] = 2.0
    with clock.paused():
        time[0] = 10.0
    time[0] = 12.0
    assert clock.elapsed() == 112.0 and clock.training() == 4.0
    assert throughput.measure(450) == 100.0
    time[0] = 13.0
    assert throughput.measure(460) == 10.0
