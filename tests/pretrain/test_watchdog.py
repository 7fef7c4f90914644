"""Real gloo ranks that hang, stop, or die: within which time the others end, and what they say."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from pretrain.launch import EXIT_HANG, free_port, rank_environment
from tests.helpers.ranks import REPOSITORY

HANG = 5.0
SLACK = 4.0  # two heartbeats, and what busy cores add
HOST = re.escape(socket.gethostname())


class Ranks:
    """Ranks of the stand-in loop; `wait` returns the exit codes and the errors of those that ended."""

    def __init__(self, fault, culprit, ranks=2, hang=HANG):
        port = free_port()
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.helpers.watchdog_loop", fault, str(culprit), str(hang)],
                cwd=REPOSITORY,
                env=rank_environment(os.environ, rank, ranks, port) | {"OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        self.steps = [0] * ranks
        self.errors = [""] * ranks
        self.ended = [0.0] * ranks
        self.threads = [
            threading.Thread(target=target, args=(rank,)) for rank in range(ranks) for target in (self._read, self._err)
        ]
        for thread in self.threads:
            thread.start()

    def _read(self, rank):
        for line in self.processes[rank].stdout:
            self.steps[rank] = int(line.split()[1])

    def _err(self, rank):
        for line in self.processes[rank].stderr:
            self.errors[rank] += line
        self.ended[rank] = time.monotonic()

    def until_step(self, step):
        deadline = time.monotonic() + 60
        while min(self.steps) < step:
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.01)
        return time.monotonic()

    def wait(self, rank, timeout):
        code = self.processes[rank].wait(timeout)
        while not self.ended[rank]:
            time.sleep(0.01)
        return code

    def close(self):
        for process in self.processes:
            process.kill()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def start():
    started = []

    def begin(*arguments, **options):
        started.append(Ranks(*arguments, **options))
        return started[-1]

    yield begin
    for ranks in started:
        ranks.close()


@pytest.mark.parametrize("culprit", [0, 1])
def test_a_rank_that_sleeps_in_the_loader_is_named_and_shows_its_stack(start, culprit):
    ranks = start("loader", culprit)
    since = ranks.until_step(3)
    codes = [ranks.wait(rank, HANG + 30) for rank in (0, 1)]
    assert codes == [EXIT_HANG, EXIT_HANG], ranks.errors
    assert HANG * 0.8 < max(ranks.ended) - since < HANG + SLACK
    sentence = (
        rf"error: rank {culprit} on {HOST} has been 'waiting for data' since step 3 for \d s while the others wait for "
        "it: its data loader stalls"
    )
    for errors in ranks.errors:
        assert re.search(sentence, errors), errors
    assert "the stack of" in ranks.errors[culprit] and "watchdog_loop.py" in ranks.errors[culprit]
    assert "the stack of" not in ranks.errors[1 - culprit]


def test_a_rank_that_hangs_while_the_other_is_in_a_collective_is_told_from_it(start):
    ranks = start("hang", 1)
    ranks.until_step(3)
    assert ranks.wait(0, HANG + 30) == EXIT_HANG
    assert re.search(rf"rank 1 on {HOST} has been 'forward, backward and update' since step 3", ranks.errors[0])


@pytest.mark.parametrize("culprit", [0, 1])
def test_a_stopped_rank_is_named(start, culprit):
    ranks = start("run", culprit)
    ranks.until_step(3)
    ranks.processes[culprit].send_signal(signal.SIGSTOP)
    since = time.monotonic()
    other = 1 - culprit
    assert ranks.wait(other, HANG + 30) == EXIT_HANG, ranks.errors
    assert ranks.ended[other] - since < HANG + SLACK
    assert re.search(
        rf"rank {culprit} on {HOST} has given no sign of life for \d s; it was last seen at step \d+ in '",
        ranks.errors[other],
    )
    # Woken again, it ends too, with the same words.
    ranks.processes[culprit].send_signal(signal.SIGCONT)
    assert ranks.wait(culprit, 20) == EXIT_HANG, ranks.errors


@pytest.mark.parametrize("culprit", [0, 1])
def test_a_killed_rank_is_named_at_once(start, culprit):
    ranks = start("run", culprit)
    ranks.until_step(3)
    ranks.processes[culprit].kill()
    since = time.monotonic()
    other = 1 - culprit
    assert ranks.wait(other, 30) == EXIT_HANG, ranks.errors
    assert ranks.ended[other] - since < 1 + SLACK
    assert re.search(rf"error: rank {culprit} on {HOST} has died at step \d+ in '", ranks.errors[other]), ranks.errors


def test_a_rank_that_ends_with_an_error_is_named_by_the_others(start):
    ranks = start("error", 1)
    ranks.until_step(3)
    assert ranks.wait(1, 30) == 1 and "ValueError: a fault of the program" in ranks.errors[1]
    assert ranks.wait(0, 30) == EXIT_HANG, ranks.errors
    assert re.search(rf"error: rank 1 on {HOST} ended at step 3 in '[^']+' with ValueError", ranks.errors[0])


def test_a_run_that_ends_in_good_order_is_left_alone(start):
    ranks = start("none", 0)
    assert [ranks.wait(rank, 60) for rank in (0, 1)] == [0, 0], ranks.errors
    assert all("error:" not in errors for errors in ranks.errors)


def test_a_save_may_take_longer_than_a_step(start):
    ranks = start("slow save", 0, hang=2.0)
    ranks.until_step(3)
    assert ranks.wait(0, 60) == 0, ranks.errors
    assert "has been" not in ranks.errors[1]


def test_nobody_is_blamed_when_all_ranks_were_suspended_together(start):
    ranks = start("run", 0, hang=2.0)
    ranks.until_step(3)
    for process in ranks.processes:
        process.send_signal(signal.SIGSTOP)
    time.sleep(4.0)
    for process in reversed(ranks.processes):
        process.send_signal(signal.SIGCONT)
    reached = max(ranks.steps)
    ranks.until_step(reached + 20)
    assert all(process.poll() is None for process in ranks.processes), ranks.errors


def test_a_single_rank_is_watched_too(start):
    ranks = start("loader", 0, ranks=1, hang=2.0)
    assert ranks.wait(0, 60) == EXIT_HANG
    assert re.search(
        rf"rank 0 on {HOST} has been 'waiting for data' since step 3 for \d s: its data loader stalls", ranks.errors[0]
    )
