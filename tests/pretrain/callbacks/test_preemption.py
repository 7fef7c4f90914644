import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from conf.errors import InputError
from pretrain.callbacks.preemption import Preemption, end_of_time
from tests.helpers.ranks import REPOSITORY


def test_the_earlier_of_the_option_and_slurms_end_counts():
    assert end_of_time(None, 120, {}, started=1000.0) is None
    assert end_of_time(10, 120, {}, started=1000.0) == 1600.0
    assert end_of_time(None, 120, {"SLURM_JOB_END_TIME": "5000"}, started=1000.0) == 5000.0
    assert end_of_time(10, 120, {"SLURM_JOB_END_TIME": "5000"}, started=1000.0) == 1600.0
    assert end_of_time(1000, 120, {"SLURM_JOB_END_TIME": "5000"}, started=1000.0) == 5000.0


def test_a_time_that_is_over_before_the_save_would_begin_is_refused():
    with pytest.raises(
        InputError, match=r"save_before_end_seconds=120, but by trainer\.time_limit_minutes=2 it is 120 s"
    ):
        end_of_time(2, 120, {}, started=1000.0)
    with pytest.raises(InputError, match=r"but by SLURM_JOB_END_TIME=1060 it is 60 s"):
        end_of_time(None, 120, {"SLURM_JOB_END_TIME": "1060"}, started=1000.0)
    with pytest.raises(InputError, match="must be in seconds since 1970, but is 'soon'"):
        end_of_time(None, 120, {"SLURM_JOB_END_TIME": "soon"}, started=1000.0)
    with pytest.raises(InputError, match=r"in seconds since 1970, but is 'nan'"):
        end_of_time(None, 120, {"SLURM_JOB_END_TIME": "nan"}, started=1000.0)


@pytest.fixture
def made():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)}
    built = []

    def make(*arguments, **options):
        built.append(Preemption(*arguments, **options))
        return built[-1]

    yield make
    for preemption in built:
        preemption.restore()
    assert all(signal.getsignal(number) is handler for number, handler in before.items())


def test_a_stop_is_requested_early_enough_for_the_longest_step_but_not_for_the_first(made, tmp_path):
    started = psutil.Process().create_time()
    time = [started]
    preemption = made(tmp_path, 10, 100.0, environment={}, now=lambda: time[0])  # to save from 500 s on
    times = [0, 90, 100, 130, 140]  # the first step takes 90 s, the longest other one 30 s
    for seconds in times:
        time[0] = started + seconds
        assert not preemption.requested()
    time[0] = started + 160.0
    assert not preemption.requested()
    for seconds, expected in ((190.0, False), (469.0, False)):
        preemption._longest_step, preemption._asked = 30.0, None
        time[0] = started + seconds
        assert preemption.requested() is expected
    preemption._longest_step, preemption._asked = 30.0, None
    time[0] = started + 470.0
    assert preemption.requested()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2, signal.SIGINT])
def test_a_signal_is_noted_and_one_that_comes_again_changes_nothing(made, tmp_path, number):
    preemption = made(tmp_path, environment={})
    assert not preemption.requested()
    for _ in range(3):
        os.kill(os.getpid(), number)
    assert preemption.requested()


def test_a_second_ctrl_c_a_second_later_interrupts(made, tmp_path):
    preemption = made(tmp_path, environment={})
    os.kill(os.getpid(), signal.SIGINT)
    assert preemption.requested()
    preemption._interrupted -= 2.0
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)


def test_a_signal_during_a_save_leaves_the_checkpoint_whole(tmp_path):
    code = f"""
import os, signal, sys, threading, time, torch
from pathlib import Path
from pretrain.callbacks.preemption import Preemption
from pretrain.checkpoints import CheckpointFolder, Keep, RunState
run_dir = Path({str(tmp_path)!r})
preemption = Preemption(run_dir, environment={{}})
def pester():
    while True:
        os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGUSR2)
        time.sleep(0.001)
threading.Thread(target=pester, daemon=True).start()
state = RunState(5, 0, 0, 0.0, 0, {{}}, 9, "t", "d", {{}})
CheckpointFolder(run_dir).save(state, {{"w": torch.zeros(1 << 20)}}, {{}}, Keep(1, 0, None))
assert preemption.requested()
os._exit(7)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 7, done.stderr
    from pretrain.checkpoints import CheckpointFolder

    assert CheckpointFolder(tmp_path).last_good().state.step == 5
